"""Run a normal plan over rows at hand and keep what each row is made of.

Owns the walk over the plan. Rows carry numbers as further columns through operators that map rows one by one and through joins; at an
operator over many rows they are materialised and numbered, and what each is made of is kept beside them. Invariant: one job of Spark
for each such operator and one at the end, however many rows there are or are asked for. Not here: what the operators do (`row_operators`,
`groups`, `windows`, `partners`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from odfabric.formats.slices.canonical_rows import one_array
from odfabric.model.provenance import CellRole
from odfabric_engine_spark.arrays.array_types import Longs
from odfabric_engine_spark.plan.input_tables import scan_alias
from odfabric_engine_spark.provenance.circuit.terms import NOTHING, Absence, Circuit, Leaf, Origin, Segment
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.catalyst.plan_nodes import (
    Attribute,
    Catalyst,
    Expression,
    Plan,
    analysed,
    expr_id,
    is_attribute,
    items,
    output_of,
    simple_name,
    walk_expression,
    without_alias,
)
from odfabric_engine_spark.spark.frames.local_rows import local_rows
from odfabric_engine_spark.spark.frames.result_rows import whole

CONSTANTS = frozenset({"LocalRelation", "OneRowRelation", "Range"})


@dataclass(frozen=True, slots=True)
class Slot:
    """A column of a plan with numbers of rows of a source."""

    column: Attribute
    source: int


@dataclass(frozen=True, slots=True)
class Traced:
    """A relation with numbers: its plan, slots, where its columns come from.

    `control` are columns that decide whether a row is there.
    """

    plan: Plan
    slots: tuple[Slot, ...]
    origins: Mapping[int, tuple[Origin, ...]]
    control: tuple[Origin, ...] = ()
    absences: tuple[Absence, ...] = ()


@dataclass(frozen=True, slots=True)
class Numbered:
    """A materialised relation: rows, columns, and the row of each slot."""

    rows: pa.Table
    columns: tuple[Attribute, ...]
    ids: Longs
    traced: Traced

    @property
    def sources(self) -> tuple[int, ...]:
        """Sources of the slots."""
        return tuple(slot.source for slot in self.traced.slots)


@dataclass(frozen=True, slots=True)
class LeafRows:
    """Rows of one use of an input in the order of its columns, and their offsets."""

    rows: pa.Table
    offsets: Longs


Operator = Callable[["Builder", Plan], Traced]


@dataclass
class Builder:
    """The walk over one plan.

    `rows_of` gives the rows of the use of an input at a position from left to right. `watermark_us` is where timed filters stand.
    """

    catalyst: Catalyst
    call: EngineCall
    rows_of: Callable[[int, str, Sequence[Attribute]], LeafRows]
    watermark_us: int | None
    operators: Mapping[str, Operator]
    sources: list[Leaf | Segment] = field(default_factory=list)
    jobs: int = 0

    def circuit(self, plan: Plan) -> tuple[Circuit, pa.Table]:
        """The circuit of a plan, and the rows of its result by names of columns."""
        found = self.numbered(self.of(plan))
        count = found.rows.num_rows
        self.sources.append(
            Segment(
                kind="result",
                label="",
                sources=found.sources,
                ids=found.ids,
                begins=np.arange(count, dtype=np.int64),
                ends=np.arange(1, count + 1, dtype=np.int64),
                origins=found.traced.origins,
                control=found.traced.control,
                absences=found.traced.absences,
            )
        )
        names = [str(column.name()) for column in found.columns]
        return Circuit(self.sources), found.rows.rename_columns(names)

    def of(self, plan: Plan) -> Traced:
        """A node of the plan. Raises KeyError for a node that no normal plan has."""
        self.call.check()
        alias = scan_alias(plan)
        if alias is not None:
            return self._leaf(plan, alias)
        if simple_name(plan) in CONSTANTS:
            return Traced(plan, (), {expr_id(column): () for column in output_of(plan)})
        return self.operators[simple_name(plan)](self, plan)

    def _leaf(self, plan: Plan, alias: str) -> Traced:
        position = sum(isinstance(each, Leaf) for each in self.sources)
        columns = output_of(plan)
        found = self.rows_of(position, alias, columns)
        names = {expr_id(column): str(column.name()) for column in columns}
        source = self.add(Leaf(position=position, alias=alias, names=names, offsets=found.offsets))
        bound = self.bound(found.rows, columns, source)
        origins = {column: (Origin(source, column, CellRole.COPIED),) for column in names}
        return Traced(bound.plan, bound.slots, origins)

    def add(self, source: Leaf | Segment) -> int:
        """Its number."""
        self.sources.append(source)
        return len(self.sources) - 1

    def bound(self, rows: pa.Table, columns: Sequence[Attribute], source: int) -> Traced:
        """Rows as relation with the given columns, numbered; without origins."""
        arrays = [*rows.columns[: len(columns)], pa.array(np.arange(rows.num_rows, dtype=np.int64))]
        names = [f"c{at}" for at in range(len(arrays) - 1)]
        frame = local_rows(self.catalyst.session, pa.table(arrays, names=[*names, "number"]))
        relation = analysed(frame)
        have = output_of(relation)
        own = items(self.catalyst.as_columns(have[:-1], list(columns))) if columns else []
        number = self.catalyst.named(have[-1], f"__odf_row{source}")
        plan = self.catalyst.logical.Project(self.catalyst.seq([*own, number]), relation)
        return Traced(plan, (Slot(number.toAttribute(), source),), {})

    def numbered(self, traced: Traced, columns: Sequence[Attribute] | None = None) -> Numbered:
        """Materialises a relation."""
        shown = list(output_of(traced.plan) if columns is None else columns)
        if columns is None:
            hidden = {expr_id(slot.column) for slot in traced.slots}
            shown = [column for column in shown if expr_id(column) not in hidden]
        table = self.run(traced.plan, [*shown, *(slot.column for slot in traced.slots)])
        ids = id_matrix(table.columns[len(shown) :], table.num_rows)
        rows = table.select(range(len(shown))) if shown else pa.table({"c0": pa.nulls(table.num_rows, pa.int32())})
        return Numbered(rows, tuple(shown), ids, traced)

    def run(self, plan: Plan, results: Sequence[Expression]) -> pa.Table:
        """Expressions over a plan, by position."""
        self.jobs += 1
        named = [self.catalyst.named(without_alias(each), f"c{at}") for at, each in enumerate(results)]
        found = whole(
            self.call, self.catalyst.data_frame(self.catalyst.logical.Project(self.catalyst.seq(named), plan))
        )
        self.call.check()
        return pa.table([one_array(column) for column in found.columns], names=found.column_names)

    def with_slots(self, values: Iterable[Expression], traced: Traced) -> Plan:
        """A projection that carries the numbers."""
        named = [*values, *(slot.column for slot in traced.slots)]
        return self.catalyst.logical.Project(self.catalyst.seq(named), traced.plan)

    def aggregate(self, function: Expression) -> Expression:
        """A call of an aggregate function over all rows."""
        base = "org.apache.spark.sql.catalyst.expressions"
        complete = self.catalyst.companion(f"{base}.aggregate.Complete")
        ids = self.catalyst.companion(f"{base}.NamedExpression")
        calls = self.catalyst.expressions.aggregate.AggregateExpression
        return calls(function, complete, False, self.catalyst.companion("scala.None"), ids.newExprId())


def id_matrix(columns: Sequence[pa.ChunkedArray | pa.Array], rows: int) -> Longs:
    """Numbers of rows as a matrix [row, slot], `NOTHING` where there is none."""
    if not columns:
        return np.zeros((rows, 0), np.int64)
    return np.column_stack([one_array(each).fill_null(NOTHING).to_numpy(zero_copy_only=False) for each in columns])


def unique(origins: Iterable[Origin]) -> tuple[Origin, ...]:
    """Each origin once."""
    return tuple(dict.fromkeys(origins))


def origins_of(traced: Traced, expression: Expression, *, least: CellRole = CellRole.COPIED) -> tuple[Origin, ...]:
    """What the value of an expression is made of, in the role `least` or a weaker one."""
    value = without_alias(expression)
    if is_attribute(value):
        return tuple(_weakened(each, least) for each in traced.origins.get(expr_id(value), ()))
    return read_by(traced, value, max(least, CellRole.COMPUTED), by="TRANSFORMATION")


def read_by(traced: Traced, expression: Expression, role: CellRole, *, by: str) -> tuple[Origin, ...]:
    """All columns that an expression reads, in the role or a weaker one.

    `by` is the operation in the words of OpenLineage.
    """
    columns = [expr_id(part) for part in walk_expression(expression) if is_attribute(part)]
    return unique(_weakened(each, role, by) for column in columns for each in traced.origins.get(column, ()))


def _weakened(origin: Origin, role: CellRole, by: str = "") -> Origin:
    if origin.role >= role and not by:
        return origin
    return Origin(origin.source, origin.column, max(origin.role, role), by or origin.by)


def columns_of(
    source: int, columns: Iterable[int], origins: Mapping[int, tuple[Origin, ...]]
) -> dict[int, tuple[Origin, ...]]:
    """The columns of a new segment, but those that nothing is behind."""
    return {each: (Origin(source, each, CellRole.COPIED),) if origins.get(each) else () for each in columns}
