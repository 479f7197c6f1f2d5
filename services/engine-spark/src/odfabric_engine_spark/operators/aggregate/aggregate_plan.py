"""What every transaction of a GROUP BY needs, compiled once per query.

Owns the way from a row to its group: keys and inputs of functions as named expressions over the plan below the aggregate. Not here:
what becomes of them (`aggregate_run`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import pyarrow as pa

from odfabric_engine_spark.operators.aggregate.accumulators.aggregate_functions import Accumulators
from odfabric_engine_spark.operators.aggregate.group_rows import GroupRows
from odfabric_engine_spark.operators.aggregate.group_versions import GroupShape
from odfabric_engine_spark.operators.row_wise.weighted_mapping import output_columns
from odfabric_engine_spark.plan.aggregates.aggregate_calls import CallReader, calls_of, group_columns
from odfabric_engine_spark.plan.arrow_types import arrow_type
from odfabric_engine_spark.plan.group_keys import GroupColumn
from odfabric_engine_spark.plan.input_tables import InputTable
from odfabric_engine_spark.plan.partitioning.partition_keys import StageScan, stage_schema
from odfabric_engine_spark.plan.partitioning.stages import GroupStage
from odfabric_engine_spark.plan.time.tumbling_and_hopping_windows import TimedWindow, find_window
from odfabric_engine_spark.rows.failing_rows import Described
from odfabric_engine_spark.rows.row_mapping import RowMapping
from odfabric_engine_spark.spark.catalyst.plan_nodes import Catalyst, Expression, simple_name, walk_plan
from odfabric_engine_spark.spark.frames.local_rows import loose


class GroupPlan:
    """What a stage of groups needs to run.

    `rows` makes keys and inputs from rows below, `groups` makes output rows. `window` is the tumbling window of an event time by
    which groups close, None if they are final at once, or if branches of a UNION make their windows apart. `streams`: rows of the
    inputs are read and summed piece by piece.
    """

    def __init__(self, catalyst: Catalyst, stage: GroupStage, tables: Mapping[str, InputTable]) -> None:
        """Compiles a stage; `tables` are the inputs of the query by alias."""
        reader = CallReader(catalyst, rows_alone=not stage.always)
        calls = tuple(reader.read(call) for call in calls_of(stage.aggregate))
        self.catalyst = catalyst
        self.stage = stage
        self.columns: tuple[GroupColumn, ...] = tuple(group_columns(stage.aggregate))
        if stage.always:
            self.columns = (GroupColumn("key0", pa.int32(), False, "", catalyst.parse_expression("0"), False),)
        # A struct that does not count is null, and so is all that is in it.
        accumulators = Accumulators.of(calls, [loose(arrow_type(expression)) for expression in reader.inputs])
        described = [_described(scan) for scan in stage.scans]
        named = _row_expressions(catalyst, self.columns, reader.inputs)
        self.rows = RowMapping.of(catalyst, stage.below, named, described=described)
        above = catalyst.logical.Project(catalyst.seq(output_columns(catalyst, stage.output)), stage.above)
        self.groups = GroupRows.of(catalyst, stage.aggregate, above, self.columns)
        self.shape = GroupShape(
            tuple(column.key for column in self.columns),
            accumulators,
            None if stage.window is None else f"{self.columns[stage.window].name}_end",
            (*self.groups.key_names, *self.groups.result_names),
            always=stage.always,
        )
        self.window = self._timed_window(tables)
        self.streams = self._streams()

    @cached_property
    def output_schema(self) -> pa.Schema:
        """Rows of the output as they go to another stage."""
        return stage_schema(self.stage.output)

    def _streams(self) -> bool:
        """Each row makes rows of one group only.

        All inputs close groups by the same windows.
        """
        inputs = all(scan.kind == "input" for scan in self.stage.scans)
        expands = any(simple_name(node) == "Expand" for node in walk_plan(self.stage.below))
        closes_apart = self.stage.window is not None and self.window is None
        return inputs and not expands and not closes_apart and not self.stage.always

    def _timed_window(self, tables: Mapping[str, InputTable]) -> TimedWindow | None:
        if self.stage.window is None or any(scan.kind != "input" for scan in self.stage.scans):
            return None
        event_times = {alias: table.vocabulary.event_time for alias, table in tables.items()}
        return find_window(self.catalyst, self.stage.aggregate, event_times)


def _described(scan: StageScan) -> Described:
    source = str(scan.source) if scan.kind == "input" else ""
    return Described(source, scan.column_names)


def _row_expressions(
    catalyst: Catalyst, columns: Sequence[GroupColumn], inputs: Sequence[Expression]
) -> list[Expression]:
    """Keys and inputs of an aggregate over the plan below it, named as runs know them."""
    named: list[Expression] = []
    for column in columns:
        if column.is_window:
            members = enumerate(column.fields)
            named += [catalyst.named(catalyst.member(column.expression, at), field.name) for at, field in members]
        else:
            named.append(catalyst.named(column.expression, column.name))
    return [*named, *(catalyst.named(value, f"input{index}") for index, value in enumerate(inputs))]
