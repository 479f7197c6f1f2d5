"""What every transaction of an aggregate needs, compiled once per query.

Owns the way from a row to its group: keys and inputs of functions as named expressions over the plan below the aggregate.
Not here: what becomes of them (`aggregate_run`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from odfabric_engine_spark.operators.aggregate.accumulators.aggregate_functions import Accumulators
from odfabric_engine_spark.operators.aggregate.group_rows import GroupRows
from odfabric_engine_spark.operators.aggregate.group_versions import GroupShape
from odfabric_engine_spark.plan.arrow_types import arrow_type
from odfabric_engine_spark.plan.group_keys import GroupColumn
from odfabric_engine_spark.plan.query_classes import AggregateQuery
from odfabric_engine_spark.rows.row_mapping import RowMapping
from odfabric_engine_spark.spark.catalyst.plan_nodes import Expression
from odfabric_engine_spark.spark.frames.local_rows import loose


@dataclass(frozen=True, slots=True)
class AggregatePlan:
    """`rows` makes keys and inputs from rows below, `groups` makes output rows."""

    accumulators: Accumulators
    rows: RowMapping
    groups: GroupRows

    @classmethod
    def of(cls, query: AggregateQuery) -> AggregatePlan:
        """From a classified query."""
        return cls(
            # A struct that does not count is null, and so is all that is in it.
            Accumulators.of(query.calls, [loose(arrow_type(expression)) for expression in query.inputs]),
            RowMapping.of(query.catalyst, query.below, _row_expressions(query)),
            GroupRows.of(query),
        )

    def shape(self, columns: Sequence[GroupColumn], end_column: str | None) -> GroupShape:
        """What its groups are; `columns` are those of their keys."""
        names = (*self.groups.key_names, *self.groups.result_names)
        return GroupShape(tuple(column.key for column in columns), self.accumulators, end_column, names)


def _row_expressions(query: AggregateQuery) -> list[Expression]:
    """Keys and inputs of an aggregate over the plan below it, named as runs know them."""
    catalyst = query.catalyst
    named: list[Expression] = []
    for column in query.columns:
        if column.is_window:
            members = enumerate(column.fields)
            named += [catalyst.named(catalyst.member(column.expression, at), field.name) for at, field in members]
        else:
            named.append(catalyst.named(column.expression, column.name))
    return [*named, *(catalyst.named(value, f"input{index}") for index, value in enumerate(query.inputs))]
