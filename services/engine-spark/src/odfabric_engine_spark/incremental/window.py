"""The window of a timed query: which group it is, when it closes.

Owns the recognition of `window(event_time, ..)` among grouping columns and its bounds at an instant. A window over another
column is an ordinary key, for no watermark says anything of it. Source: semantics of transforms, section 4.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from odfabric_engine_spark.catalyst import (
    Catalyst,
    Expression,
    Plan,
    children,
    expr_id,
    is_attribute,
    items,
    simple_name,
    walk_expression,
)
from odfabric_engine_spark.incremental.trace import Leaf, leaves_of, trace

WINDOW_MARK = "spark.timeWindow"


@dataclass(frozen=True, slots=True)
class TimedWindow:
    """`index` is the position of the window among the grouping columns; `expression` gives it for an event time."""

    index: int
    expression: Expression
    catalyst: Catalyst

    def bounds_us(self, instant_us: int) -> tuple[int, int]:
        """Start and end of the window that contains an instant, in microseconds since the epoch."""
        at = self.catalyst.expressions.MicrosToTimestamp(self.catalyst.parse_expression(f"{instant_us}L"))
        row: Any = _at(self.catalyst, self.expression, at).eval(None)
        return int(row.getLong(0)), int(row.getLong(1))


def is_window_column(expression: Expression) -> bool:
    """Whether a grouping expression is the result of `window(..)`."""
    return is_attribute(expression) and bool(expression.metadata().contains(WINDOW_MARK))


def find_window(catalyst: Catalyst, aggregate: Plan, event_times: Mapping[str, str]) -> TimedWindow | None:
    """The window over the event time of all inputs that an aggregate groups by, if there is one."""
    (below,) = children(aggregate)
    for index, expression in enumerate(items(aggregate.groupingExpressions())):
        if is_window_column(expression):
            traced = trace(catalyst, expression, below)
            ours = [
                _is_over_event_time(found, leaf, event_times)
                for found, leaf in zip(traced, leaves_of(below), strict=True)
            ]
            if all(ours) and _same_everywhere(catalyst, traced):
                return TimedWindow(index, traced[0], catalyst)
    return None


def _is_over_event_time(expression: Expression | None, leaf: Leaf, event_times: Mapping[str, str]) -> bool:
    if expression is None:
        return False
    sources = [node.child() for node in walk_expression(expression) if _takes_time(node)]
    return bool(sources) and all(_is_event_time(source, leaf, event_times) for source in sources)


def _takes_time(node: Expression) -> bool:
    """The two ends of a window's arithmetic convert back and forth: only the inner one takes a time in."""
    return simple_name(node) == "PreciseTimestampConversion" and str(node.fromType().typeName()) == "timestamp"


def _is_event_time(source: Expression, leaf: Leaf, event_times: Mapping[str, str]) -> bool:
    column = source.child() if simple_name(source) == "Cast" else source
    if not is_attribute(column) or str(column.dataType().typeName()) not in ("date", "timestamp"):
        return False
    return leaf.columns.get(expr_id(column)) == event_times[leaf.alias]


def _same_everywhere(catalyst: Catalyst, traced: list[Expression | None]) -> bool:
    probe = catalyst.expressions.MicrosToTimestamp(catalyst.parse_expression("0L"))
    first, *others = [_at(catalyst, expression, probe) for expression in traced]
    return all(first.semanticEquals(other) for other in others)


def _at(catalyst: Catalyst, expression: Expression, instant: Expression) -> Expression:
    if _takes_time(expression):
        return expression.withNewChildren(catalyst.seq([instant]))
    below = children(expression)
    if not below:
        return expression
    return expression.withNewChildren(catalyst.seq([_at(catalyst, child, instant) for child in below]))
