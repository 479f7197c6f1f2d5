"""Bounded window frames (ROWS and RANGE): recognised, with their reach.

Owns finding them in a plan: `lag` and `lead`, and functions over frames that are bounded on both sides. Invariant: a row says nothing of rows
that are further away than that. Windows that stand over one another reach as far as all together, in rows that do not tie: of those that do
each has an order of its own. Not here: what is looked at then (`bounded_frame_read`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import types

from odfabric_engine_spark.operators.bounded_window.bounded_frame_read import BoundedFrameRead
from odfabric_engine_spark.operators.touched_keys.ordered_scan import OrderedRows, only_scan, order_by_numbers
from odfabric_engine_spark.plan.arrow_types import arrow_type
from odfabric_engine_spark.plan.partitioning.stages import RowsStage
from odfabric_engine_spark.spark.catalyst.plan_nodes import (
    Catalyst,
    Expression,
    Plan,
    items,
    simple_name,
    without_alias,
)

_BY_OFFSET = frozenset({"Lag", "Lead"})
_ABOVE = frozenset({"Project", "Filter"})
_UNITS_OF_ROWS = frozenset({"ByteType", "ShortType", "IntegerType", "LongType"})
_ROWS_MAX = 100_000
"""Rows above which all rows of a key may as well be looked at."""
_SPAN_MAX = 1 << 60
"""So that twice as much is a number still."""


@dataclass(frozen=True, slots=True)
class BoundedWindow(OrderedRows):
    """A window that reaches `rows` rows, or `span`, to both sides.

    `span` in the numbers of the column by which rows are ordered.
    """

    rows: int
    span: int | None


def bounded_frames_of(catalyst: Catalyst, stage: RowsStage) -> BoundedFrameRead | None:
    """The reach of windows over a stage's only scan, None if it is a whole key."""
    found = only_scan(stage)
    if found is None:
        return None
    scan, subplan, above = found
    places = [at for at, each in enumerate(above) if simple_name(each) == "Window"]
    if not places or not all(simple_name(each) in _ABOVE for each in above[: places[0]]):
        return None
    bounded_frame: list[BoundedFrameRead] = []
    for at in places:
        window = bounded_window(above[at])
        # A row that is dropped between two windows is not counted by the upper one, so nodes below a window may only pass rows on.
        below = [each for each in above[at + 1 :] if simple_name(each) != "Window"]
        rows = None if window is None else window.of_scan(catalyst, below, scan, subplan, order_max=1)
        if window is None or rows is None:
            return None
        bounded_frame.append(BoundedFrameRead(rows.keys, rows.order, window.rows, window.span))
    return together(bounded_frame)


def bounded_window(window: Plan, functions: Sequence[Expression] | None = None) -> BoundedWindow | None:
    """How far a Window node reaches, or some of its functions.

    None if that may be any number of rows.
    """
    order = order_by_numbers(window)
    if not order:
        return None
    ordered_by = arrow_type(order[0].column)
    functions = items(window.windowExpressions()) if functions is None else functions
    reaches = [_reach(without_alias(each), ordered_by) for each in functions]
    known = [each for each in reaches if each is not None]
    if len(known) < len(reaches) or len({is_range for is_range, _ in known}) != 1:
        return None
    (is_range, _), reach = known[0], max(reach for _, reach in known)
    if reach > (_SPAN_MAX if is_range else _ROWS_MAX):
        return None
    keys = items(window.partitionSpec())
    if is_range:
        return BoundedWindow(keys, order, hides_rows=False, rows=0, span=reach)
    return BoundedWindow(keys, order, hides_rows=False, rows=max(reach, 1), span=None)


def together(windows: Sequence[BoundedFrameRead]) -> BoundedFrameRead | None:
    """Windows over one another, which order rows alike."""
    first = windows[0]
    if any((set(each.keys), each.order) != (set(first.keys), first.order) for each in windows):
        return None
    spans = [each.span for each in windows if each.span is not None]
    if not spans:
        return BoundedFrameRead(
            first.keys, first.order, sum(each.rows for each in windows), None, dense=len(windows) > 1
        )
    return BoundedFrameRead(first.keys, first.order, 0, sum(spans)) if len(spans) == len(windows) else None


def _reach(expression: Expression, ordered_by: pa.DataType) -> tuple[bool, int] | None:
    """Whether a window function is over values, and how far it reaches.

    None if that is not bounded, or not known.
    """
    if simple_name(expression) != "WindowExpression":
        return None
    function, frame = expression.windowFunction(), expression.windowSpec().frameSpecification()
    if simple_name(function) in _BY_OFFSET and function.ignoreNulls():
        return None
    is_range = simple_name(frame.frameType()) == "RangeFrame"
    units = _UNITS_OF_ROWS if not is_range else _units(ordered_by)
    ends = [_distance(each, units) for each in (frame.lower(), frame.upper())]
    known = [each for each in ends if each is not None]
    return (is_range, max(map(abs, known))) if len(known) == len(ends) else None


def _units(ordered_by: pa.DataType) -> Set[str]:
    """Units of distance between values of a column, in their order's numbers."""
    if types.is_timestamp(ordered_by):
        return frozenset({"DayTimeIntervalType"})
    return _UNITS_OF_ROWS if types.is_date32(ordered_by) or types.is_signed_integer(ordered_by) else frozenset()


def _distance(end: Expression, units: Set[str]) -> int | None:
    """How far an end of a frame is from the current row.

    None if it is not bounded, or not a number of such units.
    """
    if simple_name(end) == "CurrentRow":
        return 0
    if not end.foldable() or re.sub(r"\(.*", "", str(end.dataType())) not in units:
        return None
    value = end.eval(None)
    return None if value is None else int(value)
