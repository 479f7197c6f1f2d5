"""A GROUP BY as a stage: changes of what is below become changes of groups.

Owns the way from these changes to sums of groups, in this process or as tasks of Spark, and the one group of an aggregate without
GROUP BY: it is there from the first transaction on, by a row of our own that no function counts. Invariant: as in `aggregate_run`,
which does the work. Not here: a stage that reads its inputs piece by piece (`streamed_aggregate`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from odfabric_engine_spark.operators.aggregate.aggregate_plan import GroupPlan
from odfabric_engine_spark.operators.aggregate.aggregate_run import AggregateRun
from odfabric_engine_spark.operators.aggregate.group_sums import STEP, WEIGHT, Marks
from odfabric_engine_spark.operators.aggregate.group_versions import GroupStates
from odfabric_engine_spark.operators.aggregate.partitioned_sums import SumsByPart
from odfabric_engine_spark.operators.aggregate.spark_tasks import GroupTasks
from odfabric_engine_spark.operators.expiry.expired_rows import Bounds
from odfabric_engine_spark.operators.expiry.state_expiry import StageExpiry
from odfabric_engine_spark.operators.keyed_recompute.recompute_run import Watermarks
from odfabric_engine_spark.operators.row_wise.weighted_mapping import mapped
from odfabric_engine_spark.rows.change_records import Records
from odfabric_engine_spark.rows.delta import Delta
from odfabric_engine_spark.rows.input_scan import weights_of
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.calls.memory_limit import TransactionSize
from odfabric_engine_spark.spark.frames.local_rows import local_rows
from odfabric_engine_spark.state.stored_runs import StateToStore


class GroupRun:
    """Runs of one stage over the state of groups."""

    def __init__(
        self,
        plan: GroupPlan,
        states: GroupStates,
        call: EngineCall,
        *,
        size: TransactionSize,
        order_by: str | None,
        output: pa.Schema | None,
    ) -> None:
        """`order_by` is the column that sorts records before their key, None for others.

        As relations between stages know it; None where they go on to another stage, for which order means nothing.
        `output` has the columns of a last stage as the output holds them: what is the same there has not changed.
        """
        self._plan = plan
        self._call = call
        self._size = size
        self._run = AggregateRun(
            plan.shape,
            plan.groups,
            states,
            output_schema=plan.output_schema if output is None else output,
            event_time=order_by,
            call=call,
        )

    @property
    def aggregate(self) -> AggregateRun:
        """What does the work, for rows that come piece by piece."""
        return self._run

    def states(self, name: str) -> dict[str, StateToStore]:
        """What the runs have left so far, the groups under `name`."""
        return self._run.named_states(name)

    def expire(self, rules: StageExpiry, bounds: Bounds) -> None:
        """Remove groups that nothing can need again.

        Rows that could change them are dropped from now on.
        """
        if rules.groups_us is not None:
            self._run.expire_closed(bounds.after_us - rules.groups_us)

    def records(self, deltas: list[Delta], marks: Watermarks, *, first: bool) -> Records:
        """What the result changes by, in order.

        Raises InvalidData, and what Spark raises on an expression.
        """
        taken, own_row = Marks(marks.before_us, (marks.after_us,)), first and self._plan.stage.always
        settings, mapping = self._call.settings, self._plan.rows
        by_spark = bool(settings.stages_by_spark or settings.spark_master)
        below = mapped(mapping, deltas, self._call)
        if mapping.copies > 1 and not by_spark:
            # Windows that overlap make many rows of each, which are never in hand together.
            sums = self._sums(taken, rows_max=mapping.copies * sum(map(len, deltas)))
            return self._applied(sums, self._pieces(below, sums.at_once, own_row=own_row), taken)
        rows = _marked(Delta.joined_within(below, self._size), own_row=own_row)
        if by_spark and rows.num_rows > settings.stage_rows_max:
            spread = local_rows(self._call.session, rows)
            found = GroupTasks(self._run, self._call).applied(spread, taken, rows_max=rows.num_rows)
            return Records.joined(list(found), self._run.output_schema)
        return self._applied(self._sums(taken, rows_max=rows.num_rows), [rows], taken)

    def _sums(self, taken: Marks, *, rows_max: int) -> SumsByPart:
        return SumsByPart(self._plan.shape, taken, rows=rows_max, size=self._size, call=self._call)

    def _applied(self, sums: SumsByPart, rows: Iterable[pa.Table], taken: Marks) -> Records:
        try:
            sums.add(rows)
            return self._run.apply(sums, taken)
        finally:
            sums.close()

    def _pieces(self, below: Iterable[Delta], at_once: int, *, own_row: bool) -> Iterator[pa.Table]:
        """What is to be summed, `own_row` with the first.

        Raises LimitExceeded where pieces that are summed at once are too much.
        """
        for number, piece in enumerate(below):
            self._size.check(piece.rows.nbytes * (at_once + 1))
            yield _marked(piece, own_row=own_row and number == 0)

    def changes(self, deltas: list[Delta], marks: Watermarks, *, first: bool) -> Delta:
        """The same as weighted rows."""
        found = self.records(deltas, marks, first=first)
        return Delta.of(found.rows.columns, weights_of(found.operations).astype(np.int64))


def _marked(piece: Delta, *, own_row: bool) -> pa.Table:
    """Rows with their weights, all of one step."""
    rows, weights = piece.rows, piece.weights
    if own_row:
        rows = pa.concat_tables([rows, _own_row(rows.schema)])
        weights = np.append(weights, 1)
    rows = rows.append_column(WEIGHT, pa.array(weights))
    return rows.append_column(STEP, pa.array(np.zeros(len(weights), dtype=np.int32)))


def _own_row(schema: pa.Schema) -> pa.Table:
    """The row that keeps the only group alive: its key, nothing that functions count."""
    columns = [pa.array([0], field.type) if field.name == "key0" else pa.nulls(1, field.type) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)
