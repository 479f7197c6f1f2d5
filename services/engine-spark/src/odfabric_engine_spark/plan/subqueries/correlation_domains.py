"""Correlated aggregates over ranges: for which outer values they are computed.

Owns what Spark's own rules take for these values. Of `b.k = a.k AND b.x < a.v` they take the values of v alone and look at each row
of b for each of them, whatever its k. Here the values are the pairs of k and v, so rows meet within a key. Invariant: the subquery
says the same of each row. Not here: which subqueries there are (`decorrelation`).
"""

from __future__ import annotations

from odfabric_engine_spark.spark.catalyst.plan_nodes import (
    Catalyst,
    Expression,
    Plan,
    children,
    conjuncts,
    simple_name,
    walk_expression,
)
from odfabric_engine_spark.spark.catalyst.plan_rebuild import map_expressions, map_inner_plans, with_children

_EQUAL = frozenset({"EqualTo", "EqualNullSafe"})
_VALUES = frozenset({"ScalarSubquery", "LateralSubquery"})


def with_equalities_hidden(catalyst: Catalyst, node: Plan) -> Plan:
    """A node whose subqueries' outer equalities are marked, where others exist.

    Other conditions on the row outside.

    Spark takes the columns of every condition that it does not know as an equality.
    """

    def hidden(expression: Expression, inner: Plan) -> Plan:
        if simple_name(expression) not in _VALUES or not _has_range(inner):
            return inner
        return _hidden(catalyst, inner)

    return map_inner_plans(catalyst, node, hidden)


def with_equalities_shown(catalyst: Catalyst, plan: Plan, done: set[Plan]) -> Plan:
    """The plan that Spark's rules have made above plans that are done, without marks."""
    if plan in done:
        return plan
    plan = with_children(catalyst, plan, [with_equalities_shown(catalyst, child, done) for child in children(plan)])
    if simple_name(plan) not in ("Filter", "Join"):
        return plan
    return map_expressions(catalyst, plan, lambda part: part.left() if _is_marked(catalyst, part) else None)


def _hidden(catalyst: Catalyst, plan: Plan) -> Plan:
    plan = with_children(catalyst, plan, [_hidden(catalyst, child) for child in children(plan)])
    if simple_name(plan) != "Filter":
        return plan
    parts = conjuncts(plan.condition())
    marked = [_marked(catalyst, part) if _is_equality(part) else part for part in parts]
    return catalyst.logical.Filter(catalyst.all_of(marked), children(plan)[0])


def _marked(catalyst: Catalyst, equality: Expression) -> Expression:
    """It says the same as a condition."""
    return catalyst.expressions.EqualNullSafe(equality, catalyst.literal_true())


def _is_marked(catalyst: Catalyst, part: Expression) -> bool:
    if simple_name(part) != "EqualNullSafe" or simple_name(part.left()) not in _EQUAL:
        return False
    return bool(part.right().semanticEquals(catalyst.literal_true()))


def _has_range(plan: Plan) -> bool:
    """Whether an equality with the row outside stands beside another condition on it."""
    parts = [part for part in _conditions(plan) if _is_outer(part)]
    return any(_is_equality(part) for part in parts) and not all(_is_equality(part) for part in parts)


def _conditions(plan: Plan) -> list[Expression]:
    own = conjuncts(plan.condition()) if simple_name(plan) == "Filter" else []
    return [*own, *(part for child in children(plan) for part in _conditions(child))]


def _is_outer(part: Expression) -> bool:
    return any(simple_name(each) == "OuterReference" for each in walk_expression(part))


def _is_equality(part: Expression) -> bool:
    """Whether a condition is that something equals a column of the row outside."""
    if simple_name(part) not in _EQUAL:
        return False
    one, other = (_is_outer(side) for side in children(part))
    return one != other
