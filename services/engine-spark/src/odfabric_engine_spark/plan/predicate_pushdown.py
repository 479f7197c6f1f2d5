"""Predicate pushdown: move conditions as far down as Spark would.

Owns moving filters down before a plan is cut. A stage is computed for all its keys, also those that a filter above would drop, so
without this an expression could fail, or cost, for rows that the query keeps away from it. The moves are Spark's own rules, so a
condition is asked of the rows of which plain Spark asks it. Invariant: nothing passes a filter that waits for the watermark: what is
below it stays over all rows. Not here: which conditions there are.
"""

from __future__ import annotations

from odfabric_engine_spark.plan.aggregates.result_projection import with_results_apart
from odfabric_engine_spark.plan.empty_union_branches import without_dead_branches
from odfabric_engine_spark.plan.input_tables import marked_scan
from odfabric_engine_spark.plan.time.wait_for_watermark import is_timed_filter
from odfabric_engine_spark.spark.catalyst.plan_nodes import (
    Catalyst,
    Expression,
    Plan,
    children,
    expr_id,
    is_attribute,
    items,
    output_of,
    simple_name,
)
from odfabric_engine_spark.spark.catalyst.plan_rebuild import map_expressions, with_children
from odfabric_engine_spark.sql.constants.current_time_texts import check_special_times

_RULES = ("EliminateOuterJoin", "BooleanSimplification", "PushDownPredicates", "ReorderJoin")
"""An outer join whose rows without a partner are filtered out is an inner one, which lets conditions pass to both sides. What all
parts of an OR demand is a condition of its own. Of several inner joins each meets a relation with which it has a condition, if there
is one: in FROM a, b, c the first two may have none, and a join without a key touches everything."""


def with_filters_pushed(catalyst: Catalyst, plan: Plan) -> Plan:
    """The same rows, filtered as early as Spark would filter them.

    Raises Refused if a condition reads the clock down there.
    """
    waiting: dict[int, Plan] = {}
    plan = _with_columns_for_conditions(catalyst, with_results_apart(catalyst, plan))
    pushed = without_dead_branches(catalyst, catalyst.settled(_set_apart(catalyst, plan, waiting), *_RULES))
    check_special_times(catalyst, pushed)
    return _put_back(catalyst, pushed, waiting) if waiting else pushed


def _with_columns_for_conditions(catalyst: Catalyst, node: Plan) -> Plan:
    """The plan in which conditions that are grouped by are columns of what is grouped.

    Else the rules make one condition of NOT and the group below it, and nothing says any more that it is one of the group.
    """
    node = with_children(catalyst, node, [_with_columns_for_conditions(catalyst, child) for child in children(node)])
    if simple_name(node) != "Aggregate":
        return node
    groups = [each for each in items(node.groupingExpressions()) if _is_condition(each)]
    if not groups:
        return node
    columns = [catalyst.named(group, f"condition{index}") for index, group in enumerate(groups)]

    def replace(part: Expression) -> Expression | None:
        if simple_name(part) == "AggregateExpression":
            return part
        known = (column for column, group in zip(columns, groups, strict=True) if part.semanticEquals(group))
        column = next(known, None)
        return None if column is None else column.toAttribute()

    (below,) = children(node)
    grouped = map_expressions(catalyst, node, replace)
    return grouped.withNewChildren(
        catalyst.seq([catalyst.logical.Project(catalyst.seq([*output_of(below), *columns]), below)])
    )


def _is_condition(group: Expression) -> bool:
    return not is_attribute(group) and not group.foldable() and str(group.dataType().typeName()) == "boolean"


def _set_apart(catalyst: Catalyst, node: Plan, waiting: dict[int, Plan]) -> Plan:
    """The plan with a scan in the place of each filter that waits.

    These, done below, by the first column of the scan.
    """
    if is_timed_filter(node):
        scan = marked_scan(catalyst, output_of(node))
        below = [with_filters_pushed(catalyst, child) for child in children(node)]
        waiting[expr_id(scan.output().head())] = with_children(catalyst, node, below)
        return scan
    return with_children(catalyst, node, [_set_apart(catalyst, child, waiting) for child in children(node)])


def _put_back(catalyst: Catalyst, node: Plan, waiting: dict[int, Plan]) -> Plan:
    below = children(node)
    if not below and not node.output().isEmpty():
        return waiting.get(expr_id(node.output().head()), node)
    return with_children(catalyst, node, [_put_back(catalyst, child, waiting) for child in below])
