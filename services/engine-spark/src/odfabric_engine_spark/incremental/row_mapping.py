"""Rows at hand, mapped one by one by a plan.

Owns the choice of who does it: a plan that only chooses columns of its one relation needs no job of Spark, and many do nothing
else above or below an aggregate. Invariant: the rows are those that Spark gives, in its order and its types. Not here: rows
that Spark reads itself (`slice_input`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from odfabric_engine_spark.catalyst import (
    Catalyst,
    Expression,
    Plan,
    children,
    expr_id,
    is_attribute,
    items,
    simple_name,
    without_alias,
)
from odfabric_engine_spark.incremental.binding import bind, projection
from odfabric_engine_spark.incremental.canonical import one_array
from odfabric_engine_spark.incremental.classify import arrow_type
from odfabric_engine_spark.incremental.input_table import leaf_alias
from odfabric_engine_spark.incremental.trace import trace
from odfabric_engine_spark.local_rows import local_rows, loose
from odfabric_engine_spark.result_rows import arrow_of


@dataclass(frozen=True, slots=True)
class _Chosen:
    """A column of the only leaf, or a member of one."""

    field: pa.Field
    position: int
    members: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Choice:
    """A plan that does nothing but choose: a leaf has `width` columns, hidden ones follow."""

    columns: tuple[_Chosen, ...]
    width: int

    def of(self, rows: pa.Table) -> pa.Table:
        """The chosen columns, then the hidden ones."""
        arrays = [_column(rows, chosen) for chosen in self.columns]
        names = [chosen.field.name for chosen in self.columns]
        return pa.Table.from_arrays(
            [*arrays, *rows.columns[self.width :]], names=[*names, *rows.column_names[self.width :]]
        )


@dataclass(frozen=True, slots=True)
class RowMapping:
    """Named expressions over a row-wise plan, made once per query. Tables of rows have their leaf's columns, then hidden ones."""

    catalyst: Catalyst
    plan: Plan
    named: tuple[Expression, ...]
    _choice: _Choice | None

    @classmethod
    def of(cls, catalyst: Catalyst, plan: Plan, named: Sequence[Expression]) -> RowMapping:
        """The expressions have names and are over the plan's output."""
        return cls(catalyst, plan, tuple(named), _choice_of(catalyst, plan, named))

    def frame(self, frames: Sequence[DataFrame]) -> DataFrame:
        """The expressions over rows of Spark, one frame per leaf, then the hidden columns."""
        return projection(self.catalyst, bind(self.catalyst, self.plan, frames), self.named)

    def table(self, leaves: Sequence[pa.Table], *, collect: Callable[[DataFrame], pa.Table] = arrow_of) -> pa.Table:
        """The same over rows of this process; `collect` gets rows from Spark. What it and Spark raise passes through."""
        if self._choice is not None:
            return self._choice.of(leaves[0])
        return collect(self.frame([local_rows(self.catalyst.session, rows) for rows in leaves]))


def _choice_of(catalyst: Catalyst, plan: Plan, named: Sequence[Expression]) -> _Choice | None:
    leaf = plan
    while leaf_alias(leaf) is None:
        if simple_name(leaf) != "Project":
            return None
        (leaf,) = children(leaf)
    positions = {expr_id(column): position for position, column in enumerate(items(leaf.output()))}
    found = [_chosen(catalyst, each, plan, positions) for each in named]
    columns = tuple(chosen for chosen in found if chosen is not None)
    return _Choice(columns, len(positions)) if len(columns) == len(found) else None


def _chosen(catalyst: Catalyst, named: Expression, plan: Plan, positions: dict[int, int]) -> _Chosen | None:
    (source,) = trace(catalyst, without_alias(named), plan)
    members: list[int] = []
    while source is not None and simple_name(source) == "GetStructField":
        members.insert(0, int(source.ordinal()))
        source = source.child()
    if source is None or not is_attribute(source):
        return None
    field = pa.field(str(named.name()), loose(arrow_type(named)))
    return _Chosen(field, positions[expr_id(source)], tuple(members))


def _column(rows: pa.Table, chosen: _Chosen) -> pa.Array:
    column = one_array(rows.column(chosen.position))
    if chosen.members:
        column = pc.struct_field(column, list(chosen.members))
    return column if column.type == chosen.field.type else column.cast(chosen.field.type)
