"""Tumbling and hopping windows over event time: bounds and close.

Owns the recognition of `window(event_time, ..)` among grouping columns and its bounds at an instant. A window over another
column is an ordinary key, for no watermark says anything of it. Source: docs/engine.md#late-data-and-finality.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from odfabric.model.instant import SECONDS_PER_DAY
from odfabric_engine_spark.plan.column_lineage import scans_of, trace
from odfabric_engine_spark.spark.catalyst.plan_nodes import (
    Attribute,
    Catalyst,
    Expression,
    Plan,
    children,
    expr_id,
    is_attribute,
    is_date,
    items,
    simple_name,
)

MICROS_PER_DAY = SECONDS_PER_DAY * 1_000_000
WINDOW_MARK = "spark.timeWindow"
_SESSION_MARK = "spark.sessionWindow"


@dataclass(frozen=True, slots=True)
class TimedWindow:
    """`index` is the position of the window among the grouping columns.

    `expression` computes it from the column `time`.
    """

    index: int
    expression: Expression
    time: Attribute
    catalyst: Catalyst

    def bounds_us(self, instant_us: int) -> tuple[int, int]:
        """Start and end of an instant's window, in microseconds since the epoch.

        For an event time in days it is the window of the instant's day.
        """
        return _bounds_us(self.catalyst, self.expression, self.time, instant_us)


@dataclass(frozen=True, slots=True)
class TumblingWindow:
    """A window over timestamp `time` of plan `below`: `size_us`, from `origin_us`."""

    time: Attribute
    below: Plan
    origin_us: int
    size_us: int


def is_window_column(expression: Expression) -> bool:
    """Whether a grouping expression is the result of `window(..)`."""
    return is_attribute(expression) and bool(expression.metadata().contains(WINDOW_MARK))


def is_session_window(expression: Expression) -> bool:
    """Whether an expression is the result of `session_window(..)`."""
    return is_attribute(expression) and bool(expression.metadata().contains(_SESSION_MARK))


def tumbling_window(catalyst: Catalyst, column: Expression, plan: Plan) -> TumblingWindow | None:
    """The window that a column of a row-wise plan is.

    None for another column, a window over a date, or a sliding one.
    """
    found = _definition(column, plan) if is_window_column(column) else None
    time = None if found is None else _time_column(found[0])
    if found is None or time is None or str(time.dataType().typeName()) != "timestamp":
        return None
    expression, below = found
    start_us, end_us = _bounds_us(catalyst, expression, time, 0)
    return TumblingWindow(time, below, start_us, end_us - start_us)


def find_window(catalyst: Catalyst, aggregate: Plan, event_times: Mapping[str, str]) -> TimedWindow | None:
    """The event-time window that an aggregate groups by, over all inputs, if any."""
    (below,) = children(aggregate)
    for index, column in enumerate(items(aggregate.groupingExpressions())):
        if is_window_column(column):
            found = _definition(column, below)
            if found is not None:
                expression, source = found
                time = _time_column(expression)
                if time is not None and _is_event_time_everywhere(catalyst, time, source, event_times):
                    return TimedWindow(index, expression, time, catalyst)
    return None


def _bounds_us(catalyst: Catalyst, expression: Expression, time: Attribute, instant_us: int) -> tuple[int, int]:
    row: Any = catalyst.expressions.GenericInternalRow(1)
    if is_date(time):
        row.setInt(0, instant_us // MICROS_PER_DAY)
    else:
        row.setLong(0, instant_us)
    references = catalyst.companion("org.apache.spark.sql.catalyst.expressions.BindReferences")
    columns = catalyst.expressions.package.AttributeSeq(catalyst.seq([time]))
    found: Any = references.bindReference(expression, columns, False).eval(row)
    return int(found.getLong(0)), int(found.getLong(1))


def _definition(column: Attribute, plan: Plan) -> tuple[Expression, Plan] | None:
    """What computes a window, and the plan whose columns it reads.

    None if branches of a UNION compute it apart.
    """
    while True:
        name = simple_name(plan)
        if name == "Project":
            (child,) = children(plan)
            named = next(each for each in items(plan.projectList()) if expr_id(each) == expr_id(column))
            if simple_name(named) == "Alias":
                value = named.child()
                if not is_attribute(value):
                    return value, child
                named = value
            column, plan = named, child
        elif name in ("Filter", "Generate"):
            (plan,) = children(plan)
        else:
            return None


def _time_column(expression: Expression) -> Attribute | None:
    """The column of a window's time, if it is a plain one: Spark repeats it."""
    node = expression
    while True:
        if simple_name(node) == "PreciseTimestampConversion" and str(node.fromType().typeName()) == "timestamp":
            source = node.child()
            if simple_name(source) == "Cast":
                source = source.child()
            plain = is_attribute(source) and str(source.dataType().typeName()) in ("date", "timestamp")
            return source if plain else None
        below = children(node)
        if not below:
            return None
        # The first member of a window's struct is the name of its start, the second the start.
        node = below[1] if simple_name(node) == "CreateNamedStruct" else below[0]


def _is_event_time_everywhere(
    catalyst: Catalyst, column: Attribute, plan: Plan, event_times: Mapping[str, str]
) -> bool:
    return all(
        found is not None and is_attribute(found) and scan.columns.get(expr_id(found)) == event_times[scan.alias]
        for found, scan in zip(trace(catalyst, column, plan), scans_of(plan), strict=True)
    )
