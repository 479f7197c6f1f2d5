"""Timed filters: recognised, and evaluated at a watermark.

Owns recognising them and putting an instant in the place of the watermark. Invariant: while there is no watermark nothing
passes that waits for it. Not here: where they stand (`plan`). Source: docs/engine.md#late-data-and-finality.
"""

from __future__ import annotations

from dataclasses import dataclass

from odfabric_engine_spark.plan.column_lineage import substitute
from odfabric_engine_spark.plan.time.event_times import WINDOW_END
from odfabric_engine_spark.plan.time.tumbling_and_hopping_windows import is_session_window
from odfabric_engine_spark.plan.time.wait_for_watermark import is_timed_filter, waiting_part
from odfabric_engine_spark.spark.catalyst.plan_nodes import (
    Catalyst,
    Expression,
    Plan,
    expr_id,
    is_attribute,
    items,
    references,
    simple_name,
    without_alias,
)


@dataclass(frozen=True, slots=True)
class TimedFilter:
    """Passes rows whose `instant`, over its child's rows, the watermark has reached."""

    plan: Plan
    instant: Expression

    def below(self, catalyst: Catalyst, aggregate: Plan) -> Expression:
        """The instant over the rows below the aggregate that the filter stands on."""
        known = {expr_id(named): without_alias(named) for named in items(aggregate.aggregateExpressions())}
        return substitute(catalyst, self.instant, known)

    def closes_groups(self, catalyst: Catalyst, aggregate: Plan) -> bool:
        """Whether it waits for ends of grouped windows, not for a time of its rows."""
        end = self.below(catalyst, aggregate)
        if simple_name(end) != "GetStructField" or end.ordinal() != WINDOW_END:
            return False
        return any(end.child().semanticEquals(without_alias(each)) for each in items(aggregate.groupingExpressions()))

    def position_of_window(self, catalyst: Catalyst, aggregate: Plan) -> int:
        """Which grouping column of the aggregate has the instant."""
        used = {expr_id(column) for column in references(self.below(catalyst, aggregate))}
        grouping = items(aggregate.groupingExpressions())
        return next(index for index, each in enumerate(grouping) if is_attribute(each) and expr_id(each) in used)


def timed_filter(plan: Plan) -> TimedFilter | None:
    """A filter as timed filter, None if it is an ordinary one."""
    part = waiting_part(plan.condition()) if is_timed_filter(plan) else None
    return None if part is None else TimedFilter(plan, part.left())


def at_watermark(catalyst: Catalyst, plan: Plan, watermark_us: int | None) -> Plan:
    """A timed filter with an instant in place of the watermark."""
    condition = plan.condition()
    part = waiting_part(condition)
    assert part is not None, "only timed filters wait for the watermark"
    if watermark_us is None:
        reached = catalyst.parse_expression("false")
    else:
        reached = catalyst.expressions.LessThanOrEqual(part.left(), catalyst.instant(watermark_us))
    if simple_name(condition) == "Or":
        reached = catalyst.expressions.Or(condition.left(), reached)
    return catalyst.logical.Filter(_of_whole_sessions(catalyst, reached, plan.child()), plan.child())


def _of_whole_sessions(catalyst: Catalyst, reached: Expression, plan: Plan) -> Expression:
    """Refuse a condition left above session merging: it would split sessions.

    It would take later rows of a session for another.
    """
    while simple_name(plan) == "Filter":
        plan = plan.child()
    if simple_name(plan) != "Aggregate" or not any(map(is_session_window, items(plan.groupingExpressions()))):
        return reached
    # Always true, and not to be moved, for it counts as uncertain.
    here = catalyst.expressions.SparkPartitionID()
    stays = catalyst.expressions.GreaterThanOrEqual(here, catalyst.parse_expression("0"))
    return catalyst.expressions.If(stays, reached, catalyst.parse_expression("false"))
