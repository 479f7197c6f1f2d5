"""Plans made again with other expressions or other children.

Owns the copying of plan nodes of any class. Invariant: a node of which nothing changes stays the very same object, and a copy
keeps its place in the SQL text. Not here: what is replaced by what (the other modules of this folder).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from odfabric_engine_spark.spark.catalyst.plan_nodes import (
    Catalyst,
    Expression,
    Plan,
    children,
    elements_of,
    expressions_of,
    inner_plan,
    items,
    walk_expression,
    with_elements,
)
from odfabric_engine_spark.spark.catalyst.tree_reader import Kind, KnownObject


def with_children(catalyst: Catalyst, node: Plan, below: Sequence[Plan]) -> Plan:
    """A node over other children."""
    old = children(node)
    if all(new is known or new.fastEquals(known) for new, known in zip(below, old, strict=True)):
        return node
    return node.withNewChildren(catalyst.seq(below))


def map_expression(
    catalyst: Catalyst, expression: Expression, replace: Callable[[Expression], Expression | None]
) -> Expression:
    """An expression with parts replaced, those on top first.

    None leaves a part and looks below it.
    """
    new = replace(expression)
    if new is not None:
        return new
    below = children(expression)
    mapped = [map_expression(catalyst, child, replace) for child in below]
    if all(one is other for one, other in zip(mapped, below, strict=True)):
        return expression
    return expression.withNewChildren(catalyst.seq(mapped))


def map_expressions(catalyst: Catalyst, node: Plan, replace: Callable[[Expression], Expression | None]) -> Plan:
    """A plan node with parts of its own expressions replaced; its children stay."""
    arguments = elements_of(node)
    mapped = [_map_argument(catalyst, argument, replace) for argument in arguments]
    if all(one is other for one, other in zip(mapped, arguments, strict=True)):
        return node
    changed = {at: new for at, (new, old) in enumerate(zip(mapped, arguments, strict=True)) if new is not old}
    return with_elements(node, changed)


def subqueries_of(catalyst: Catalyst, node: Plan) -> list[Expression]:
    """The expressions of this node itself that hold a plan."""
    pattern = catalyst.companion("org.apache.spark.sql.catalyst.trees.TreePattern").PLAN_EXPRESSION()
    found = [each for each in expressions_of(node) if each.containsPattern(pattern)]
    return [part for each in found for part in walk_expression(each) if inner_plan(part) is not None]


def map_inner_plans(catalyst: Catalyst, node: Plan, change: Callable[[Expression, Plan], Plan]) -> Plan:
    """A plan node with changed plans in its expressions, by expression and plan."""

    def replace(expression: Expression) -> Expression | None:
        inside = inner_plan(expression)
        if inside is None:
            return None
        changed = change(expression, inside)
        with _at_place(catalyst, expression):
            return expression.withNewPlan(changed)

    return map_expressions(catalyst, node, replace) if subqueries_of(catalyst, node) else node


@contextmanager
def _at_place(catalyst: Catalyst, expression: Expression) -> Iterator[None]:
    """What is made within has the place in the text that an expression has."""
    current = catalyst.companion("org.apache.spark.sql.catalyst.trees.CurrentOrigin")
    current.set(expression.origin())
    try:
        yield
    finally:
        current.reset()


def _map_argument(catalyst: Catalyst, argument: object, replace: Callable[[Expression], Expression | None]) -> object:
    if isinstance(argument, str | int | float | bool | None):
        return argument
    kind = argument.kind if isinstance(argument, KnownObject) else None
    if kind is Kind.EXPRESSION:
        return map_expression(catalyst, argument, replace)
    if kind is Kind.SEQ:
        known = items(argument)
        mapped = [_map_argument(catalyst, each, replace) for each in known]
        unchanged = all(one is other for one, other in zip(mapped, known, strict=True))
        return argument if unchanged else catalyst.seq(mapped)
    if kind is Kind.SOME:
        (known_value,) = elements_of(argument)
        value = _map_argument(catalyst, known_value, replace)
        return argument if value is known_value else catalyst.companion("scala.Option").apply(value)
    return argument
