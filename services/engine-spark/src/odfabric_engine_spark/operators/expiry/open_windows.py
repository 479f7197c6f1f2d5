"""Open windows, and how far the output of a timed query is complete.

Owns the least event time that a row which still waits can have: the start of the earliest window that is open, of a session the
start of its first row, of a join the earliest row whose partner can come. Invariant: rows that come in time later than
a watermark change nothing before this instant. Source: docs/engine.md#late-data-and-finality;
docs/engine.md#output-watermark.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from odfabric_engine_spark.plan.column_lineage import substitute
from odfabric_engine_spark.plan.time.event_times import sources_of, time_of_window
from odfabric_engine_spark.plan.time.timed_filters import TimedFilter, timed_filter
from odfabric_engine_spark.plan.time.tumbling_and_hopping_windows import is_session_window, is_window_column
from odfabric_engine_spark.spark.catalyst.plan_nodes import (
    Catalyst,
    Expression,
    Plan,
    children,
    expr_id,
    references,
    simple_name,
)
from odfabric_engine_spark.sql.refusal import Refused, in_order, refusal


def open_windows_from(catalyst: Catalyst, plan: Plan, watermark_us: int) -> int:
    """The least start of a window that is open at a watermark.

    The watermark itself if none is. Sessions are not asked.
    """
    starts = [watermark_us]
    for window, below in _windows(plan):
        if not is_session_window(window):
            for definition in _definitions(window, below):
                start_us, _ = bounds_us(catalyst, definition, watermark_us)
                starts.append(start_us)
    return min(starts)


def longest_wait_us(catalyst: Catalyst, plan: Plan) -> int:
    """How long after its event time a row may wait for a partner."""
    found = [0]
    stack = [plan]
    while stack:
        node = stack.pop()
        stack.extend(children(node))
        timed = timed_filter(node)
        if timed is not None and simple_name(node.condition()) == "Or":
            found.append(wait_us(catalyst, timed))
    return max(found)


def wait_us(catalyst: Catalyst, timed: TimedFilter) -> int:
    """How long after its event time a row waits at a filter."""
    (time,) = references(timed.instant)
    instant = substitute(catalyst, timed.instant, {expr_id(time): catalyst.instant(0, like=time)})
    return int(instant.eval(None))


def check_session_gaps(catalyst: Catalyst, plan: Plan) -> None:
    """Raises Refused for sessions whose gap differs by row.

    When they close could not be distinguished from their last row.
    """
    found = [
        refusal(
            "session-gap",
            "session_window(.., gap) needs the same gap for all rows",
            at=window,
            hint="write an interval such as '30 minutes', and a query for each gap joined by UNION ALL",
        )
        for window, below in _windows(plan)
        if is_session_window(window)
        for definition in _definitions(window, below)
        if not _at_instant(catalyst, definition, 0).foldable()
    ]
    if found:
        raise Refused(in_order(found))


def session_gaps_us(catalyst: Catalyst, plan: Plan) -> list[int]:
    """How long sessions wait for their next row."""
    found: list[int] = []
    for window, below in _windows(plan):
        if is_session_window(window):
            for definition in _definitions(window, below):
                start_us, end_us = bounds_us(catalyst, definition, 0)
                found.append(end_us - start_us)
    return found


def bounds_us(catalyst: Catalyst, definition: Expression, instant_us: int) -> tuple[int, int]:
    """Start and end that a window's definition gives for an instant.

    For a time in days, for the instant's day.
    """
    found: Any = _at_instant(catalyst, definition, instant_us).eval(None)
    return int(found.getLong(0)), int(found.getLong(1))


def _at_instant(catalyst: Catalyst, definition: Expression, instant_us: int) -> Expression:
    """A window's definition with an instant in place of its time."""
    time = time_of_window(definition)
    assert time is not None, "only windows over a time are waited for"
    return _with(catalyst, definition, time, catalyst.instant(instant_us, like=time))


def _windows(plan: Plan) -> Iterator[tuple[Expression, Plan]]:
    """Windows that a timed filter waits for, as columns below the aggregate."""
    stack = [plan]
    while stack:
        node = stack.pop()
        stack.extend(children(node))
        if simple_name(node) != "Filter":
            continue
        timed = timed_filter(node)
        aggregate = children(node)[0]
        while simple_name(aggregate) == "Filter":
            (aggregate,) = children(aggregate)
        if timed is None or simple_name(aggregate) != "Aggregate":
            continue
        for column in references(timed.instant):
            for value, at in sources_of(column, aggregate):
                for window in references(value):
                    if is_window_column(window) or is_session_window(window):
                        yield window, children(aggregate)[at]


def _definitions(column: Expression, plan: Plan) -> Iterator[Expression]:
    """The expressions that make a window, each over a relation of its own."""
    for value, at in sources_of(column, plan):
        if simple_name(value) == "CreateNamedStruct":
            yield value
        else:
            for inner in references(value):
                yield from _definitions(inner, children(plan)[at])


def _with(catalyst: Catalyst, expression: Expression, old: Expression, new: Expression) -> Expression:
    if expression.semanticEquals(old):
        return new
    below = children(expression)
    if not below:
        return expression
    return expression.withNewChildren(catalyst.seq([_with(catalyst, child, old, new) for child in below]))
