"""Cumulative windows: frames from UNBOUNDED PRECEDING to the current row.

Owns finding them in a plan: numbers and ranks of rows, counts, sums of whole numbers and decimals, least and greatest values, first and last ones that are not
null; and the plan in which each goes on from columns of the scan (`Before`). Invariant: over the rows from some place on, with what all rows before it sum up to in
these columns, that plan gives what the query gives over all rows; with nulls in them it is the query. Not here: where rows are cut, and what
those before sum up to (`cumulative_read`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
from pyarrow import types

from odfabric.formats.slices.canonical_rows import has_integers_in_order
from odfabric_engine_spark.operators.bounded_window.bounded_frame_read import BoundedFrameRead
from odfabric_engine_spark.operators.bounded_window.bounded_frames import BoundedWindow, bounded_window, together
from odfabric_engine_spark.operators.cumulative_window.cumulative_read import CumulativeRead
from odfabric_engine_spark.operators.cumulative_window.prefix_values import Before, Gives
from odfabric_engine_spark.operators.touched_keys.before_and_after import BoundPlan
from odfabric_engine_spark.operators.touched_keys.ordered_scan import (
    OrderedRows,
    ScanOrder,
    only_scan,
    order_by_numbers,
    places_below,
    positions,
    without_normal,
)
from odfabric_engine_spark.plan.arrow_types import arrow_type
from odfabric_engine_spark.plan.input_tables import marked_scan
from odfabric_engine_spark.plan.partitioning.partition_keys import StageScan
from odfabric_engine_spark.plan.partitioning.stages import RowsStage
from odfabric_engine_spark.plan.partitioning.storable_types import can_be_kept
from odfabric_engine_spark.spark.catalyst.plan_nodes import (
    Attribute,
    Catalyst,
    Expression,
    Plan,
    children,
    expr_id,
    is_attribute,
    items,
    output_of,
    simple_name,
    without_alias,
)
from odfabric_engine_spark.spark.catalyst.plan_rebuild import map_expressions
from odfabric_engine_spark.spark.catalyst.sql_templates import from_template

_ABOVE = frozenset({"Project", "Filter"})
_NUMBERS_OF_ROWS = frozenset({"RowNumber", "Rank"})
_PRECISION_MAX = 27
"""Of decimals that are summed: a sum has ten digits more, and two sums are added in one more, of which there are 38."""
_BOTH = {
    Gives.COUNT: "own + coalesce(before, 0L)",
    Gives.SUM: "coalesce(own + before, own, before)",
    Gives.LEAST: "least(before, own)",
    Gives.GREATEST: "greatest(before, own)",
    Gives.FIRST: "coalesce(before, own)",
    Gives.LAST: "coalesce(own, before)",
}
"""What a window gives over all rows, by what it gives over its own and what those before give."""
_OF_VALUES = {
    "Count": Gives.COUNT,
    "Sum": Gives.SUM,
    "Min": Gives.LEAST,
    "Max": Gives.GREATEST,
    "First": Gives.FIRST,
    "Last": Gives.LAST,
}
"""By the name of an aggregate function."""


@dataclass(frozen=True, slots=True)
class _Call:
    """A window function: `column` is what it says something of, None for rows."""

    named: Expression
    column: Attribute | None
    gives: Gives

    def before(self, places: Mapping[int, int]) -> Before:
        """What has to be known of the rows before, in which columns lie at some places."""
        position = None if self.column is None else places[expr_id(self.column)]
        if self.gives is Gives.COUNT:
            return Before(position, self.gives, pa.int64(), "bigint")
        return Before(position, self.gives, arrow_type(self.named), str(self.named.dataType().sql()))


@dataclass(frozen=True, slots=True)
class CumulativeWindow(OrderedRows):
    """A window that can continue, as `calls` say, except those of `near` rows."""

    calls: tuple[_Call, ...]
    near: BoundedWindow | None

    def columns(self) -> list[Expression]:
        """Also what functions tell something of."""
        return [*OrderedRows.columns(self), *self._values]

    def reads(self, places: Mapping[int, int]) -> bool:
        """Whether also what functions tell something of are columns at known places."""
        return OrderedRows.reads(self, places) and all(expr_id(each) in places for each in self._values)

    @property
    def _values(self) -> list[Attribute]:
        return [each.column for each in self.calls if each.column is not None]


def cumulative_window(window: Plan) -> CumulativeWindow | None:
    """A Window node as a cumulative window, None if it is none.

    None also if it looks only at rows within a bounded frame.
    """
    order = order_by_numbers(window)
    if not order:
        return None
    named = items(window.windowExpressions())
    calls = [_call(each) for each in named]
    others = [each for each, call in zip(named, calls, strict=True) if call is None]
    near = bounded_window(window, others) if others else None
    if len(others) == len(named) or (others and near is None):
        return None
    known = tuple(each for each in calls if each is not None)
    return CumulativeWindow(items(window.partitionSpec()), order, hides_rows=False, calls=known, near=near)


def cumulative_windows_of(catalyst: Catalyst, stage: RowsStage) -> tuple[CumulativeRead, BoundPlan] | None:
    """How rows of a stage's only scan are cut, and the plan over those that are left.

    None if it has other windows.
    """
    found = only_scan(stage)
    if found is None:
        return None
    scan, subplan, above = found
    windows = [at for at, each in enumerate(above) if simple_name(each) == "Window"]
    if not windows or not all(simple_name(each) in _ABOVE for each in above[: windows[0]]):
        return None
    kinds = _Kinds()
    for at in windows:
        below = [each for each in above[at + 1 :] if simple_name(each) != "Window"]
        places = places_below(catalyst, below, scan.columns, must_not_fail=False)
        if places is None:
            return None
        window = cumulative_window(above[at]) or bounded_window(above[at])
        rows = None if window is None else window.of_scan(catalyst, below, scan, subplan, order_max=1)
        if window is not None and rows is not None and window.reads(places):
            kinds.note(at, window, rows, places)
        else:
            kinds.of_peers.append(set(positions(items(above[at].partitionSpec()), places) or ()))
    cut = kinds.cut()
    if cut is None:
        return None
    return cut, BoundPlan(
        catalyst, _PlanOverPrefixes(catalyst, cut.before).plan(scan, above, kinds.before), stage.output
    )


@dataclass(frozen=True, slots=True)
class _Kinds:
    """The windows of a stage, by kind.

    Those that go on, with what their columns need `before`, by position and id; those of rows within a bounded frame;
    and each other one by the columns of its partition.
    """

    cumulative: list[CumulativeRead] = field(default_factory=list)
    before: dict[int, dict[int, Before]] = field(default_factory=dict)
    near: list[BoundedFrameRead] = field(default_factory=list)
    of_peers: list[set[int]] = field(default_factory=list)

    def note(
        self, at: int, window: CumulativeWindow | BoundedWindow, rows: ScanOrder, places: Mapping[int, int]
    ) -> None:
        """One that goes on, or reaches rows within a bounded frame."""
        reach = window.near if isinstance(window, CumulativeWindow) else window
        if reach is not None:
            self.near.append(BoundedFrameRead(rows.keys, rows.order, reach.rows, reach.span))
        if isinstance(window, CumulativeWindow):
            self.before[at] = {expr_id(call.named): call.before(places) for call in window.calls}
            self.cumulative.append(
                CumulativeRead(rows.keys, rows.order, rows.greatest, tuple(self.before[at].values()))
            )

    def cut(self) -> CumulativeRead | None:
        """Where rows can be cut for all windows.

        They order rows alike, or look at nothing but rows that tie.
        """
        cumulative = self.cumulative
        if not cumulative or any(each.greatest != cumulative[0].greatest for each in cumulative):
            return None
        of_nothing = 0 if any(each.span is not None for each in self.near) else None
        reach = together([*self.near, *(BoundedFrameRead(each.keys, each.order, 0, of_nothing) for each in cumulative)])
        tie = {*cumulative[0].keys, cumulative[0].order[0].position}
        if reach is None or not all(tie <= each for each in self.of_peers):
            return None
        parts = tuple(dict.fromkeys(part for each in cumulative for part in each.before))
        dense = len(cumulative) + len(self.near) > 1
        return replace(cumulative[0], before=parts, rows=reach.rows, span=reach.span, dense=dense)


class _PlanOverPrefixes:
    """Makes the plan whose scan has columns for what the rows before give."""

    def __init__(self, catalyst: Catalyst, parts: Sequence[Before]) -> None:
        self._catalyst = catalyst
        self._columns = {part: self._column(part) for part in parts}

    def plan(self, scan: StageScan, above: Sequence[Plan], before: Mapping[int, Mapping[int, Before]]) -> Plan:
        """The nodes above a scan, highest first, over such a scan.

        `before` is what columns of the windows among them need, by position and id.
        """
        columns = list(self._columns.values())
        plan = marked_scan(self._catalyst, [*scan.columns, *columns])
        for at in reversed(range(len(above))):
            if at in before:
                plan = self._window(above[at], plan, before[at])
            elif simple_name(above[at]) == "Project" and at > min(before):
                named = [*items(above[at].projectList()), *columns]
                plan = self._catalyst.logical.Project(self._catalyst.seq(named), plan)
            else:
                plan = above[at].withNewChildren(self._catalyst.seq([plan]))
        return plan

    def _window(self, window: Plan, below: Plan, before: Mapping[int, Before]) -> Plan:
        """A window over rows with earlier results, and above it the combined value."""
        catalyst, named = self._catalyst, items(window.windowExpressions())
        own = {expr_id(each): catalyst.named(without_alias(each), "own") for each in named if expr_id(each) in before}

        def renamed(part: Expression) -> Expression | None:
            return own.get(expr_id(part)) if simple_name(part) == "Alias" else None

        over_rows = map_expressions(catalyst, window, renamed).withNewChildren(catalyst.seq([below]))
        shown: list[Expression] = list(output_of(below))
        for each in named:
            part = before.get(expr_id(each))
            if part is None:
                shown.append(each.toAttribute())
                continue
            value = own[expr_id(each)].toAttribute()
            text = f"cast({_BOTH[part.gives]} as {value.dataType().sql()})"
            both = from_template(catalyst, text, {"own": value, "before": self._columns[part]})
            shown.append(catalyst.named(both, str(each.name()), like=each))
        return catalyst.logical.Project(catalyst.seq(shown), over_rows)

    def _column(self, part: Before) -> Attribute:
        nothing = self._catalyst.parse_expression(f"cast(null as {part.sql_type})")
        return self._catalyst.named(nothing, "before").toAttribute()


def _call(named: Expression) -> _Call | None:
    expression = without_alias(named)
    if simple_name(named) != "Alias" or simple_name(expression) != "WindowExpression":
        return None
    frame, function = expression.windowSpec().frameSpecification(), expression.windowFunction()
    if (simple_name(frame.lower()), simple_name(frame.upper())) != ("UnboundedPreceding", "CurrentRow"):
        return None
    if simple_name(function) in _NUMBERS_OF_ROWS:
        return _Call(named, None, Gives.COUNT)
    if simple_name(function) != "AggregateExpression" or function.isDistinct() or function.filter().isDefined():
        return None
    called = function.aggregateFunction()
    gives, read = _OF_VALUES.get(simple_name(called)), children(called)
    if gives is None or len(read) != 1:
        return None
    counts_rows = gives is Gives.COUNT and simple_name(read[0]) == "Literal" and not read[0].nullable()
    column = _whole_number(read[0]) if gives is Gives.SUM else without_normal(read[0])
    if counts_rows:
        return _Call(named, None, gives)
    return _Call(named, column, gives) if is_attribute(column) and _can_go_on(called, gives, column) else None


def _can_go_on(called: Expression, gives: Gives, column: Attribute) -> bool:
    """Whether what values of a column give before a row is all that is needed there."""
    data_type = _kept_type(column)
    if data_type is None:
        return False
    if gives is Gives.SUM:
        return _can_be_added(data_type)
    if gives in (Gives.LEAST, Gives.GREATEST):
        is_normal = not types.is_floating(data_type) or not is_attribute(children(called)[0])
        return is_normal and has_integers_in_order(data_type)
    if gives in (Gives.FIRST, Gives.LAST):
        skips_nulls = bool(called.ignoreNulls()) or not column.nullable()
        return skips_nulls and not types.is_nested(data_type)
    return True


def _whole_number(value: Expression) -> Expression:
    """A decimal sum that no order of rows overflows (`whole_numbers`)."""
    if simple_name(value) != "Cast":
        return value
    added, summed_as = _kept_type(value.child()), _kept_type(value)
    if added is None or summed_as is None or not types.is_signed_integer(added):
        return value
    return value.child() if types.is_decimal(summed_as) and summed_as.scale == 0 else value


def _kept_type(value: Expression) -> pa.DataType | None:
    """Its Arrow type, None for one that a state cannot keep.

    Such windows are computed over all rows of their keys.
    """
    return arrow_type(value) if can_be_kept([value]) else None


def _can_be_added(data_type: pa.DataType) -> bool:
    """Whether sums are exact in any order, and two fit into a decimal of this scale."""
    if types.is_decimal(data_type):
        return int(data_type.precision) <= _PRECISION_MAX
    return bool(types.is_signed_integer(data_type))
