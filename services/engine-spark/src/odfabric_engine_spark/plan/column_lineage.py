"""Column lineage: which input columns a column of a plan comes from.

Owns the scans of row-wise plans and the way from an expression over a plan's output to expressions over its scans' rows.
Invariant: scans are distinguished by their position from left to right, for one input used twice may repeat column ids.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from odfabric_engine_spark.plan.input_tables import scan_alias
from odfabric_engine_spark.spark.catalyst.plan_nodes import (
    Catalyst,
    Expression,
    Plan,
    children,
    expr_id,
    expressions_of,
    is_attribute,
    items,
    output_of,
    simple_name,
    walk_expression,
    without_alias,
)


@dataclass(frozen=True, slots=True)
class Scan:
    """One use of an input in a plan."""

    position: int
    alias: str
    columns: Mapping[int, str]
    """Names of the scan's columns by column id."""


def scans_of(plan: Plan) -> tuple[Scan, ...]:
    """The uses of inputs in a plan, from left to right."""
    found: list[Scan] = []
    stack = [plan]
    while stack:
        node = stack.pop()
        alias = scan_alias(node)
        if alias is not None:
            columns = {expr_id(attribute): str(attribute.name()) for attribute in output_of(node)}
            found.append(Scan(len(found), alias, columns))
        stack.extend(reversed(children(node)))
    return tuple(found)


def columns_used(plan: Plan) -> set[int]:
    """Ids of all columns that some node of a plan reads or passes on by name."""
    used: set[int] = set()
    stack = [plan]
    while stack:
        node = stack.pop()
        if scan_alias(node) is not None:
            continue  # a scan holds its columns as expressions, which uses none of them
        for expression in expressions_of(node):
            used.update(expr_id(part) for part in walk_expression(expression) if is_attribute(part))
        stack.extend(children(node))
    return used


def trace(catalyst: Catalyst, expression: Expression, plan: Plan) -> list[Expression | None]:
    """The expression in terms of each scan's row, from left to right.

    None where it is made by an explode.
    """
    name = simple_name(plan)
    if scan_alias(plan) is not None:
        return [expression]
    if name == "Union":
        return _through_union(catalyst, expression, plan)
    (child,) = children(plan)
    if name == "Project":
        defined = {expr_id(named): without_alias(named) for named in items(plan.projectList())}
        return trace(catalyst, substitute(catalyst, expression, defined), child)
    if name == "Generate":
        made = {expr_id(attribute) for attribute in items(plan.generatorOutput())}
        if any(is_attribute(part) and expr_id(part) in made for part in walk_expression(expression)):
            return [None for _ in scans_of(plan)]
    return trace(catalyst, expression, child)


def substitute(catalyst: Catalyst, expression: Expression, values: Mapping[int, Expression]) -> Expression:
    """The expression with columns replaced by id."""
    if is_attribute(expression):
        return values.get(expr_id(expression), expression)
    below = children(expression)
    if not below:
        return expression
    return expression.withNewChildren(catalyst.seq([substitute(catalyst, child, values) for child in below]))


def _through_union(catalyst: Catalyst, expression: Expression, plan: Plan) -> list[Expression | None]:
    found: list[Expression | None] = []
    output = [expr_id(attribute) for attribute in output_of(plan)]
    for child in children(plan):
        own = dict(zip(output, output_of(child), strict=True))
        found += trace(catalyst, substitute(catalyst, expression, own), child)
    return found
