"""Map rows one by one through a plan.

Owns the choice of who does it: a plan that only chooses columns of its one relation, tumbling windows over them included, needs
no job of Spark, and many do nothing else above or below an aggregate. Invariant: the rows are those that Spark gives, in its order
and its types. Not here: rows that Spark reads itself (`slice_reader`), what a window is (`tumbling_and_hopping_windows`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from odfabric.formats.slices.canonical_rows import one_array
from odfabric_engine_spark.plan.arrow_types import arrow_type
from odfabric_engine_spark.plan.column_lineage import substitute, trace
from odfabric_engine_spark.plan.input_tables import scan_alias
from odfabric_engine_spark.plan.time.tumbling_and_hopping_windows import tumbling_window
from odfabric_engine_spark.rows.failing_rows import Described, computed_over
from odfabric_engine_spark.rows.row_binding import bind, projection
from odfabric_engine_spark.spark.catalyst.plan_nodes import (
    Catalyst,
    Expression,
    Plan,
    children,
    conjuncts,
    expr_id,
    is_attribute,
    items,
    output_of,
    simple_name,
    walk_plan,
    without_alias,
)
from odfabric_engine_spark.spark.frames.local_rows import local_rows, loose
from odfabric_engine_spark.spark.frames.result_rows import collected

_MICROS = pa.timestamp("us", "UTC")
_FAR_US = 1 << 62
"""Of instants as far as this from the epoch Spark is asked: near the last one that there is it fails."""


@dataclass(frozen=True, slots=True)
class Place:
    """A column of rows by position, or a member of one."""

    position: int
    members: tuple[int, ...]

    def of(self, rows: pa.Table) -> pa.Array:
        """The values of some rows."""
        column = one_array(rows.column(self.position))
        return pc.struct_field(column, list(self.members)) if self.members else column


@dataclass(frozen=True, slots=True)
class _Chosen:
    """A column as it is."""

    field: pa.Field
    place: Place

    def of(self, rows: pa.Table) -> pa.Array:
        """The column for some rows of the scan."""
        column = self.place.of(rows)
        return column if column.type == self.field.type else column.cast(self.field.type)


@dataclass(frozen=True, slots=True)
class _Windowed:
    """The tumbling window of a time, or one of its bounds.

    Windows last `size_us`; one begins at `origin_us`.
    """

    field: pa.Field
    time: Place
    member: int | None
    origin_us: int
    size_us: int

    def of(self, rows: pa.Table) -> pa.Array:
        """The window of each row; of a time that is null both bounds are."""
        times = self.time.of(rows).cast(_MICROS)
        valid = times.is_valid()
        instants = times.fill_null(0).view(pa.int64()).to_numpy()
        starts = instants - (instants - self.origin_us) % self.size_us
        bounds = [pa.array(each).view(_MICROS) for each in (starts, starts + self.size_us)]
        if times.null_count:
            bounds = [pc.if_else(valid, each, pa.scalar(None, _MICROS)) for each in bounds]
        whole = pa.StructArray.from_arrays(bounds, ["start", "end"]) if self.member is None else bounds[self.member]
        return whole if whole.type == self.field.type else whole.cast(self.field.type)

    def can(self, rows: pa.Table) -> bool:
        """Whether all bounds are instants that Spark can tell: it fails on others."""
        extremes = pc.min_max(self.time.of(rows).cast(_MICROS).view(pa.int64()))
        least, greatest = extremes["min"].as_py(), extremes["max"].as_py()
        room = 2 * self.size_us
        return least is None or (-_FAR_US + room < least and greatest < _FAR_US - room)


@dataclass(frozen=True, slots=True)
class _Choice:
    """A plan that does nothing but choose columns, and rows with all `needed` values.

    A scan has `width` columns, hidden ones follow. Rows have a value in all `needed` columns.
    """

    columns: tuple[_Chosen | _Windowed, ...]
    needed: tuple[Place, ...]
    width: int

    def can(self, rows: pa.Table) -> bool:
        """Whether the rows are such that Spark is not asked."""
        return all(each.can(rows) for each in self.columns if isinstance(each, _Windowed))

    def of(self, rows: pa.Table) -> pa.Table:
        """The chosen columns, then the hidden ones."""
        for each in self.needed:
            known = each.of(rows)
            rows = rows.filter(known.is_valid()) if known.null_count else rows
        hidden = rows.select(rows.column_names[self.width :])
        schema = pa.schema([*(chosen.field for chosen in self.columns), *hidden.schema])
        return pa.Table.from_arrays([*(chosen.of(rows) for chosen in self.columns), *hidden.columns], schema=schema)


@dataclass(frozen=True, slots=True)
class RowMapping:
    """Named expressions over a row-wise plan, made once per query.

    Tables of rows have their scan's columns, then hidden ones.

    `copies`: at most so many rows windows that overlap and grouping sets make of a row; 1 too where a list says how many.
    """

    catalyst: Catalyst
    plan: Plan
    named: tuple[Expression, ...]
    described: tuple[Described, ...] | None
    copies: int
    _choice: _Choice | None

    @classmethod
    def of(
        cls,
        catalyst: Catalyst,
        plan: Plan,
        named: Sequence[Expression],
        *,
        described: Sequence[Described] | None = None,
    ) -> RowMapping:
        """The expressions have names and are over the plan's output.

        Rows are reported as `described`, or as the scans name them.
        """
        told = None if described is None else tuple(described)
        return cls(catalyst, plan, tuple(named), told, _copies(plan), _choice_of(catalyst, plan, named))

    def frame(self, frames: Sequence[DataFrame]) -> DataFrame:
        """The expressions over rows of Spark, one frame per scan, then the hidden columns."""
        return projection(self.catalyst, bind(self.catalyst, self.plan, frames), self.named)

    def needs_no_job(self, rows: pa.Table) -> bool:
        """Whether columns of a scan's rows are only chosen, which takes no job of Spark."""
        return self._choice is not None and self._choice.can(rows)

    def table(self, scans: Sequence[pa.Table]) -> pa.Table:
        """The same over rows of this process.

        Raises FailedRows, ResultTooLarge, and what else Spark raises.
        """
        if self._choice is not None and self.needs_no_job(scans[0]):
            return self._choice.of(scans[0])
        return computed_over(self.computed, scans, lambda: self.described or described_scans(self.plan))

    def computed(self, scans: Sequence[pa.Table]) -> pa.Table:
        """The same by a job of Spark. Raises ResultTooLarge, and what else Spark raises."""
        return collected(self.frame([local_rows(self.catalyst.session, rows) for rows in scans]))


def described_scans(plan: Plan) -> list[Described]:
    """What rows of the scans of a plan are called, from left to right."""
    alias = scan_alias(plan)
    if alias is not None:
        return [Described(alias, tuple(str(column.name()) for column in output_of(plan)))]
    return [each for child in children(plan) for each in described_scans(child)]


def _copies(plan: Plan) -> int:
    nodes = walk_plan(plan)
    if any(simple_name(node) == "Generate" for node in nodes):
        return 1
    return prod(len(items(node.projections())) for node in nodes if simple_name(node) == "Expand")


def _choice_of(catalyst: Catalyst, plan: Plan, named: Sequence[Expression]) -> _Choice | None:
    scan, conditions = plan, []
    while scan_alias(scan) is None:
        if simple_name(scan) not in ("Project", "Filter"):
            return None
        asked = conjuncts(scan.condition()) if simple_name(scan) == "Filter" else []
        if any(simple_name(each) != "IsNotNull" for each in asked):
            return None
        conditions += [(each.child(), scan.child()) for each in asked]
        (scan,) = children(scan)
    positions = {expr_id(column): position for position, column in enumerate(output_of(scan))}
    columns = [_windowed(catalyst, each, plan, positions) or _chosen(catalyst, each, plan, positions) for each in named]
    needed = [_place(catalyst, value, below, positions) for value, below in conditions]
    found = tuple(column for column in columns if column is not None)
    known = tuple(place for place in needed if place is not None)
    complete = len(found) == len(columns) and len(known) == len(needed)
    return _Choice(found, known, len(positions)) if complete else None


def _windowed(catalyst: Catalyst, named: Expression, plan: Plan, positions: dict[int, int]) -> _Windowed | None:
    value = without_alias(named)
    while scan_alias(plan) is None:
        is_member = simple_name(value) == "GetStructField"
        window = tumbling_window(catalyst, value.child() if is_member else value, plan)
        time = None if window is None else _place(catalyst, window.time, window.below, positions)
        if window is not None and time is not None:
            member = int(value.ordinal()) if is_member else None
            # Spark knows that a window as a whole is never null.
            field = _field(named).with_nullable(is_member)
            return _Windowed(field, time, member, window.origin_us, window.size_us)
        if simple_name(plan) == "Project":
            defined = {expr_id(each): without_alias(each) for each in items(plan.projectList())}
            value = substitute(catalyst, value, defined)
        (plan,) = children(plan)
    return None


def _chosen(catalyst: Catalyst, named: Expression, plan: Plan, positions: dict[int, int]) -> _Chosen | None:
    place = _place(catalyst, without_alias(named), plan, positions)
    return None if place is None else _Chosen(_field(named), place)


def _place(catalyst: Catalyst, value: Expression, plan: Plan, positions: dict[int, int]) -> Place | None:
    """Where a scan has what an expression over a plan is.

    None for what is made on the way.
    """
    (source,) = trace(catalyst, value, plan)
    return None if source is None else place_of(source, positions)


def place_of(value: Expression, positions: Mapping[int, int]) -> Place | None:
    """Where rows have an expression over them, None if it has to be computed.

    `positions` are those of columns by id.
    """
    members: list[int] = []
    while simple_name(value) == "GetStructField":
        members.insert(0, int(value.ordinal()))
        value = value.child()
    return Place(positions[expr_id(value)], tuple(members)) if is_attribute(value) else None


def _field(named: Expression) -> pa.Field:
    return pa.field(str(named.name()), loose(arrow_type(named)))
