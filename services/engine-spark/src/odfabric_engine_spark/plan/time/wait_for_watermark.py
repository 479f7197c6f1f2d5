"""Insert filters that wait for the watermark.

Owns the condition `e <= watermark`, perhaps behind `.. OR`: where it stands and the column that stands for the watermark. Invariant: below such a
condition the plan is over all rows, above it over those that no row in time can change any more. Not here: what an event time
is (`event_times`), the watermark's value (the stages put it in). Source: docs/engine.md#late-data-and-finality.
"""

from __future__ import annotations

from odfabric_engine_spark.plan.time.event_times import WINDOW_END, EventTimes
from odfabric_engine_spark.spark.catalyst.plan_nodes import (
    Catalyst,
    Expression,
    Plan,
    children,
    items,
    output_of,
    simple_name,
)
from odfabric_engine_spark.spark.catalyst.plan_rebuild import with_children

WATERMARK = "__odf_watermark"
_WINDOW_END = "__odf_window_end"


def watermark_column(catalyst: Catalyst) -> Expression:
    """The column that no plan has and that the watermark takes the place of."""
    timestamp = catalyst.companion("org.apache.spark.sql.types.TimestampType")
    empty = catalyst.companion("org.apache.spark.sql.types.Metadata").empty()
    new_id = catalyst.companion("org.apache.spark.sql.catalyst.expressions.NamedExpression").newExprId()
    return catalyst.expressions.AttributeReference(WATERMARK, timestamp, True, empty, new_id, catalyst.seq([]))


def is_timed_filter(node: Plan) -> bool:
    """Whether a node lets pass only what the watermark has passed."""
    return simple_name(node) == "Filter" and waiting_part(node.condition()) is not None


def waiting_part(condition: Expression) -> Expression | None:
    """The part `e <= watermark` of a condition, which stands alone or behind an OR.

    None if there is none.
    """
    if simple_name(condition) == "Or":
        condition = condition.right()
    if simple_name(condition) != "LessThanOrEqual":
        return None
    right = condition.right()
    is_watermark = simple_name(right) == "AttributeReference" and str(right.name()) == WATERMARK
    return condition if is_watermark else None


def wait_for(catalyst: Catalyst, time: Expression, plan: Plan, *, unless: Expression | None = None) -> Plan:
    """The rows of a plan whose time the watermark has passed, or which do not wait."""
    passed = catalyst.expressions.LessThanOrEqual(time, watermark_column(catalyst))
    return catalyst.logical.Filter(passed if unless is None else catalyst.expressions.Or(unless, passed), plan)


def with_timed_windows(catalyst: Catalyst, plan: Plan, times: EventTimes) -> Plan:
    """The plan whose event-time aggregates give closed windows only."""
    node = with_children(catalyst, plan, [with_timed_windows(catalyst, child, times) for child in children(plan)])
    if simple_name(node) != "Aggregate":
        return node
    (below,) = children(node)
    windows = [each for each in items(node.groupingExpressions()) if times.is_timed_window(each, below)]
    return _closed(catalyst, node, windows) if windows else node


def has_timed_filter(plan: Plan) -> bool:
    """Whether anything in a plan waits for the watermark."""
    return is_timed_filter(plan) or any(has_timed_filter(child) for child in children(plan))


def _closed(catalyst: Catalyst, aggregate: Plan, windows: list[Expression]) -> Plan:
    output = output_of(aggregate)
    ends = [catalyst.named(catalyst.member(window, WINDOW_END), _WINDOW_END) for window in windows]
    named = [*items(aggregate.aggregateExpressions()), *ends]
    (below,) = children(aggregate)
    wide = catalyst.logical.Aggregate(
        aggregate.groupingExpressions(), catalyst.seq(named), below, catalyst.companion("scala.None")
    )
    for end in ends:
        wide = wait_for(catalyst, end.toAttribute(), wide)
    return catalyst.logical.Project(catalyst.seq(output), wide)
