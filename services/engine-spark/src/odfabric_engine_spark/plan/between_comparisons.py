"""BETWEEN as two comparisons.

Owns taking Spark's own form of it apart in conditions. Until a query runs, Spark keeps what is compared twice as one value beside the
comparisons, and its rules do not move such a condition as they move comparisons: one of a join would stay above the join, where
nothing reads it. Invariant: what is compared is small, so a condition grows by a constant. Not here: moving
conditions (`predicate_pushdown`), what comparisons say of times (`outer_interval_join`).
"""

from __future__ import annotations

from itertools import islice

from odfabric_engine_spark.spark.catalyst.plan_nodes import (
    Catalyst,
    Expression,
    Plan,
    children,
    simple_name,
    walk_expression,
)
from odfabric_engine_spark.spark.catalyst.plan_rebuild import map_expression, map_expressions, with_children

_HOLDERS = frozenset({"Filter", "Join"})
_COMPARED_NODES_MAX = 16
"""Most nodes of what is compared: a column, or a time with an interval. Of BETWEEN within BETWEEN each level would double the text."""


def with_plain_comparisons(catalyst: Catalyst, plan: Plan) -> Plan:
    """The plan whose conditions say `a >= b AND a <= c` for `a BETWEEN b AND c`."""
    node = with_children(catalyst, plan, [with_plain_comparisons(catalyst, child) for child in children(plan)])
    if simple_name(node) not in _HOLDERS:
        return node
    return map_expressions(catalyst, node, lambda part: _plain(catalyst, part))


def _plain(catalyst: Catalyst, part: Expression) -> Expression | None:
    if simple_name(part) != "Between":
        return None
    (whole,) = children(part)
    if simple_name(whole) == "With":
        comparisons, *compared = children(whole)
        if any(_is_large(each.child()) for each in compared):
            return None
        known = {each.id().hashCode(): each.child() for each in compared}
        whole = map_expression(catalyst, comparisons, lambda each: _compared(each, known))
    return map_expression(catalyst, whole, lambda each: _plain(catalyst, each))


def _compared(part: Expression, known: dict[int, Expression]) -> Expression | None:
    return known[part.id().hashCode()] if simple_name(part) == "CommonExpressionRef" else None


def _is_large(expression: Expression) -> bool:
    return next(islice(walk_expression(expression), _COMPARED_NODES_MAX, None), None) is not None
