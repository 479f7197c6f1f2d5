"""Equalities of WHERE as conditions of joins.

Owns turning `from a, b where a.k = b.k` into a join on that equality. Invariant: only comparisons of plain columns move, for
they cannot fail on a row that another condition would have kept away. Not here: other conditions, which stay where they are.
"""

from __future__ import annotations

from odfabric_engine_spark.catalyst import (
    Catalyst,
    Expression,
    Plan,
    children,
    expr_id,
    is_attribute,
    items,
    simple_name,
)
from odfabric_engine_spark.normalise.rebuild import with_children

_INNER = frozenset({"Inner", "Cross"})


def conjuncts(condition: Expression) -> list[Expression]:
    """The parts of a condition that must all hold."""
    if simple_name(condition) != "And":
        return [condition]
    return [*conjuncts(condition.left()), *conjuncts(condition.right())]


def all_of(catalyst: Catalyst, conditions: list[Expression]) -> Expression:
    """One condition for all of some; TRUE for none."""
    if not conditions:
        return catalyst.literal_true()
    whole = conditions[0]
    for further in conditions[1:]:
        whole = catalyst.expressions.And(whole, further)
    return whole


def with_join_conditions(catalyst: Catalyst, plan: Plan) -> Plan:
    """The plan with equalities of two columns at the inner join that brings them together."""
    node = with_children(catalyst, plan, [with_join_conditions(catalyst, child) for child in children(plan)])
    if simple_name(node) != "Filter" or not _is_inner_join(children(node)[0]):
        return node
    (below,) = children(node)
    stay: list[Expression] = []
    for condition in conjuncts(node.condition()):
        joined = _joined(catalyst, below, condition) if _is_column_equality(condition) else None
        if joined is None:
            stay.append(condition)
        else:
            below = joined
    if below is children(node)[0]:
        return node
    return catalyst.logical.Filter(all_of(catalyst, stay), below) if stay else below


def _joined(catalyst: Catalyst, join: Plan, equality: Expression) -> Plan | None:
    """The join with an equality that needs both of its sides, or a join below it; None if neither does."""
    left, right = children(join)
    wanted = {expr_id(equality.left()), expr_id(equality.right())}
    for index, side in enumerate((left, right)):
        if wanted <= _ids(side):
            deeper = _joined(catalyst, side, equality) if _is_inner_join(side) else None
            if deeper is None:
                return None
            return with_children(catalyst, join, [deeper, right] if index == 0 else [left, deeper])
    known = [join.condition().get()] if join.condition().isDefined() else []
    inner = catalyst.companion("org.apache.spark.sql.catalyst.plans.Inner")
    some = catalyst.companion("scala.Option").apply(all_of(catalyst, [*known, equality]))
    return catalyst.logical.Join(left, right, inner, some, join.hint())


def _is_inner_join(plan: Plan) -> bool:
    return simple_name(plan) == "Join" and str(plan.joinType().toString()) in _INNER


def _is_column_equality(condition: Expression) -> bool:
    return simple_name(condition) in ("EqualTo", "EqualNullSafe") and all(
        is_attribute(side) for side in children(condition)
    )


def _ids(plan: Plan) -> set[int]:
    return {expr_id(column) for column in items(plan.output())}
