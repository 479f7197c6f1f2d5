"""Output watermark: up to which event time the output is complete.

Owns the least event time that a window which has not been emitted can carry. Source:
docs/engine.md#late-data-and-finality; docs/engine.md#output-watermark.
"""

from __future__ import annotations

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from odfabric.model.instant import Instant
from odfabric_engine_spark.operators.aggregate.aggregate_plan import GroupPlan
from odfabric_engine_spark.plan.column_lineage import substitute
from odfabric_engine_spark.rows.block_steps import micros
from odfabric_engine_spark.spark.catalyst.plan_nodes import (
    Catalyst,
    Expression,
    Plan,
    children,
    constant_us,
    expr_id,
    is_attribute,
    is_time,
    items,
    output_of,
    simple_name,
    walk_expression,
    without_alias,
)

_NANOS_PER_MICRO = 1_000


def open_group_from(plan: GroupPlan, event_time: str, watermark: Instant | None) -> Instant | None:
    """The least event time that a group can have which still waits.

    The inputs' least watermark if none waits.
    """
    if watermark is None or plan.window is None:
        return watermark
    least_us = _least_open_us(plan, event_time, micros(watermark) or 0)
    return min(watermark, Instant(least_us * _NANOS_PER_MICRO))


def _least_open_us(plan: GroupPlan, event_time: str, watermark_us: int) -> int:
    """The event time of the earliest window that is still open.

    An event time is computed for it, of its bounds and of aggregates of event times, which lie in it: at its start at least.
    """
    assert plan.window is not None
    start_us, end_us = plan.window.bounds_us(watermark_us)
    expression = _event_time_of(plan, event_time)
    key = plan.columns[plan.window.index].expression
    if expression is None or not is_time(expression):
        return start_us
    least = _at_window(plan.catalyst, expression, key, start_us, end_us)
    if any(is_attribute(part) or simple_name(part) == "AggregateExpression" for part in walk_expression(least)):
        return start_us
    try:
        found = constant_us(least)
    except (Py4JError, PySparkException):
        return start_us  # a time beyond all that there are
    return start_us if found is None else found


def _event_time_of(plan: GroupPlan, event_time: str) -> Expression | None:
    """The output's event time in terms of the aggregate's keys and functions."""
    definitions: list[dict[int, Expression]] = []
    node: Plan = plan.stage.above
    column = next(output for output in output_of(node) if str(output.name()) == event_time)
    while simple_name(node) != "Aggregate":
        if simple_name(node) == "Project":
            definitions.append({expr_id(named): without_alias(named) for named in items(node.projectList())})
        (node,) = children(node)
    definitions.append({expr_id(named): without_alias(named) for named in items(node.aggregateExpressions())})
    expression = column
    for known in definitions:
        expression = substitute(plan.catalyst, expression, known)
    return expression


def _is_member(expression: Expression, key: Expression) -> bool:
    return simple_name(expression) == "GetStructField" and bool(expression.child().semanticEquals(key))


def _at_window(catalyst: Catalyst, expression: Expression, key: Expression, start_us: int, end_us: int) -> Expression:
    if simple_name(expression) == "AggregateExpression" and is_time(expression):
        return catalyst.instant(start_us, like=expression)
    if _is_member(expression, key):
        at_us = start_us if int(expression.ordinal()) == 0 else end_us
        return catalyst.expressions.MicrosToTimestamp(catalyst.parse_expression(f"{at_us}L"))
    below = children(expression)
    if not below:
        return expression
    replaced = [_at_window(catalyst, child, key, start_us, end_us) for child in below]
    return expression.withNewChildren(catalyst.seq(replaced))
