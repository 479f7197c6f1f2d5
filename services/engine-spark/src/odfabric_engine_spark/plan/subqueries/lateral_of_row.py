"""LATERAL over the row itself: expressions and explodes.

Owns writing them as Project and Generate over the row. Invariant: a row gives the rows that it gave, none added or lost. Not
here: LATERAL that reads a relation (`temporal_join`).
"""

from __future__ import annotations

from odfabric_engine_spark.spark.catalyst.plan_nodes import (
    Catalyst,
    Expression,
    Plan,
    children,
    is_attribute,
    items,
    output_of,
    simple_name,
    without_alias,
)
from odfabric_engine_spark.spark.catalyst.plan_rebuild import map_expression, subqueries_of

_NAMES = frozenset({"SubqueryAlias", "View"})


def over_the_row(catalyst: Catalyst, node: Plan) -> Plan | None:
    """Plain nodes for a LateralJoin that reads no relation, None for one that does."""
    condition = node.condition().get() if node.condition().isDefined() else catalyst.literal_true()
    always = condition.semanticEquals(catalyst.literal_true())
    (left,) = children(node)
    is_outer = str(node.joinType().toString()) == "LeftOuter"
    if is_outer and not always:
        return None
    projects, plan = _projects(node.right().plan())
    if any(subqueries_of(catalyst, project) for project in projects):
        return None
    if simple_name(plan) == "Generate" and simple_name(children(plan)[0]) == "OneRowRelation":
        if is_outer and not all(_is_renaming(each) for project in projects for each in items(project.projectList())):
            return None  # where nothing is exploded, what a selection computes is null
        plan = _generate(catalyst, plan, left, outer=is_outer or bool(plan.outer()))
    elif simple_name(plan) == "OneRowRelation":
        plan = left
    else:
        return None
    for project in reversed(projects):
        named = [own_row(catalyst, each) for each in items(project.projectList())]
        plan = catalyst.logical.Project(catalyst.seq([*output_of(left), *named]), plan)
    return plan if always else catalyst.logical.Filter(condition, plan)


def _projects(plan: Plan) -> tuple[list[Plan], Plan]:
    found: list[Plan] = []
    while simple_name(plan) in ("Project", *_NAMES):
        if simple_name(plan) == "Project":
            found.append(plan)
        (plan,) = children(plan)
    return found, plan


def _generate(catalyst: Catalyst, node: Plan, left: Plan, *, outer: bool) -> Plan:
    return catalyst.logical.Generate(
        own_row(catalyst, node.generator()),
        node.unrequiredChildIndex(),
        outer,
        node.qualifier(),
        node.generatorOutput(),
        left,
    )


def own_row(catalyst: Catalyst, expression: Expression) -> Expression:
    """An expression within LATERAL as one over the row that it stands beside."""
    return map_expression(
        catalyst, expression, lambda part: part.e() if simple_name(part) == "OuterReference" else None
    )


def _is_renaming(named: Expression) -> bool:
    return is_attribute(without_alias(named))
