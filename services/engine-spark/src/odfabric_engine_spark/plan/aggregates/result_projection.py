"""Split an aggregate into functions and a projection of their results.

Owns taking `sum(x) / sum(y)` out of an aggregate whose groups a condition chooses. Spark computes results of an aggregate where they are
used, behind the condition, so `HAVING sum(y) <> 0` guards the division. An aggregate that is a stage, or whose groups are at hand, gives
rows for all groups: what it computes itself would fail for those that the condition drops. Invariant: the rows are the same. Not here:
moving the condition (`predicate_pushdown`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from odfabric_engine_spark.spark.catalyst.plan_nodes import (
    Attribute,
    Catalyst,
    Expression,
    Plan,
    children,
    conjuncts,
    expr_id,
    is_attribute,
    items,
    output_of,
    simple_name,
    walk_expression,
    without_alias,
)
from odfabric_engine_spark.spark.catalyst.plan_rebuild import map_expression, with_children


def with_results_apart(catalyst: Catalyst, node: Plan, *, chosen: bool = False) -> Plan:
    """The plan in which aggregates below conditions give keys and functions only.

    `chosen`: there is a condition above.
    """
    name = simple_name(node)
    below_chosen = name != "Aggregate" and (chosen or name == "Filter" or (name == "Join" and _chooses(node)))
    below = [with_results_apart(catalyst, child, chosen=below_chosen) for child in children(node)]
    node = with_children(catalyst, node, below)
    if name != "Aggregate" or not chosen:
        return node
    return _apart(catalyst, node)


def _chooses(join: Plan) -> bool:
    """Whether a part of a join's condition is about one side only."""
    if join.condition().isEmpty():
        return False
    sides = [{expr_id(column) for column in output_of(child)} for child in children(join)]
    parts = conjuncts(join.condition().get())
    columns = [{expr_id(each) for each in walk_expression(part) if is_attribute(each)} for part in parts]
    return any(part <= side for part in columns for side in sides)


def _apart(catalyst: Catalyst, aggregate: Plan) -> Plan:
    groups = items(aggregate.groupingExpressions())
    results = items(aggregate.aggregateExpressions())
    if all(_is_given(without_alias(each), groups) for each in results):
        return aggregate
    given: list[tuple[Expression, Attribute]] = []
    inner: list[Expression] = []

    def column_of(part: Expression) -> Expression | None:
        if is_attribute(part):
            inner.extend([part] if all(not part.semanticEquals(each) for each in inner) else [])
            return part
        if not _is_own(part, groups):
            return None
        for known, column in given:
            if part.semanticEquals(known):
                return column
        named = catalyst.named(part, f"part{len(given)}")
        inner.append(named)
        given.append((part, named.toAttribute()))
        return given[-1][1]

    outer = [_shown(catalyst, each, column_of) for each in results]
    if not inner:
        return aggregate
    split = catalyst.logical.Aggregate(
        aggregate.groupingExpressions(), catalyst.seq(inner), aggregate.child(), aggregate.hint()
    )
    return catalyst.logical.Project(catalyst.seq(outer), split)


def _shown(catalyst: Catalyst, named: Expression, column_of: Callable[[Expression], Expression | None]) -> Expression:
    """A result over the columns of the aggregate; its column id stays."""
    value = map_expression(catalyst, without_alias(named), column_of)
    return value if is_attribute(named) else catalyst.named(value, str(named.name()), like=named)


def _is_given(value: Expression, groups: Sequence[Expression]) -> bool:
    """Whether nothing is computed of keys and functions, but for members of structs."""
    while simple_name(value) == "GetStructField":
        (value,) = children(value)
    return is_attribute(value) or bool(value.foldable()) or _is_own(value, groups)


def _is_own(part: Expression, groups: Sequence[Expression]) -> bool:
    return simple_name(part) == "AggregateExpression" or any(part.semanticEquals(group) for group in groups)
