"""Row identity: which new row replaces which old row.

Owns the hidden column that carries the key of the last keyed operator up to the result. Invariant: it changes neither the rows
nor their number, and a query without such a key has none. Source: docs/engine.md#operator-classes; docs/engine.md#row-identity-and-pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from odfabric_engine_spark.plan.join_keys import LEFT_KEPT, RIGHT_KEPT, equal_pairs, join_kind
from odfabric_engine_spark.spark.catalyst.plan_nodes import (
    Attribute,
    Catalyst,
    Expression,
    Plan,
    children,
    items,
    output_of,
    simple_name,
    walk_expression,
)

IDENTITY = "__odf_identity"


@dataclass(frozen=True, slots=True)
class Identified:
    """A plan whose last column is `identity`, or the plan as it was without one."""

    plan: Plan
    identity: Attribute | None


def identified(catalyst: Catalyst, plan: Plan) -> Identified:
    """Adds the column of identities if the query has a last keyed operator."""
    match simple_name(plan):
        case "Project":
            below = identified(catalyst, children(plan)[0])
            if below.identity is None:
                return Identified(plan, None)
            named = [*items(plan.projectList()), below.identity]
            return Identified(catalyst.logical.Project(catalyst.seq(named), below.plan), below.identity)
        case "Filter" | "Generate":
            below = identified(catalyst, children(plan)[0])
            if below.identity is None or simple_name(plan) == "Generate":
                return Identified(plan, None)
            return Identified(plan.withNewChildren(catalyst.seq([below.plan])), below.identity)
        case "Aggregate":
            return _of_aggregate(catalyst, plan)
        case "Window":
            return _beside(catalyst, plan, items(plan.partitionSpec()))
        case "Join":
            return _beside(catalyst, plan, _join_keys(catalyst, plan))
        case "Union":
            return _of_union(catalyst, plan)
        case _:
            return Identified(plan, None)


def _of_aggregate(catalyst: Catalyst, plan: Plan) -> Identified:
    keys = items(plan.groupingExpressions()) or [catalyst.parse_expression("0")]
    if not any(True for _ in _functions(plan)):
        return Identified(plan, None)  # distinct rows are nothing but their key
    identity = catalyst.named(_hash(catalyst, keys), IDENTITY)
    results = [*items(plan.aggregateExpressions()), identity]
    node = catalyst.logical.Aggregate(plan.groupingExpressions(), catalyst.seq(results), children(plan)[0], plan.hint())
    return Identified(node, identity.toAttribute())


def _functions(plan: Plan) -> Sequence[Expression]:
    return [
        part
        for named in items(plan.aggregateExpressions())
        for part in walk_expression(named)
        if simple_name(part) == "AggregateExpression"
    ]


def _beside(catalyst: Catalyst, plan: Plan, keys: Sequence[Expression]) -> Identified:
    if not keys:
        return Identified(plan, None)
    identity = catalyst.named(_hash(catalyst, keys), IDENTITY)
    named = [*output_of(plan), identity]
    return Identified(catalyst.logical.Project(catalyst.seq(named), plan), identity.toAttribute())


def _join_keys(catalyst: Catalyst, plan: Plan) -> list[Expression]:
    kind = join_kind(plan)
    pairs = equal_pairs(plan)
    if kind in LEFT_KEPT:
        return [pair.left for pair in pairs]
    if kind in RIGHT_KEPT:
        return [pair.right for pair in pairs]
    coalesce = catalyst.expressions.Coalesce
    return [coalesce(catalyst.seq([pair.left, pair.right])) for pair in pairs]


def _of_union(catalyst: Catalyst, plan: Plan) -> Identified:
    """Keys of branches are distinguished by the branch.

    Columns may change their ids: they become those of the union.
    """
    branches = [identified(catalyst, child) for child in children(plan)]
    if all(branch.identity is None for branch in branches):
        return Identified(plan, None)
    found: list[Plan] = []
    for number, (child, branch) in enumerate(zip(children(plan), branches, strict=True)):
        own = catalyst.parse_expression(f"{number}L")
        parts = [own] if branch.identity is None else [own, branch.identity]
        value = catalyst.null_literal(own.dataType()) if branch.identity is None else _hash(catalyst, parts)
        named = [*output_of(child), catalyst.named(value, IDENTITY)]
        found.append(catalyst.logical.Project(catalyst.seq(named), branch.plan))
    union = plan.withNewChildren(catalyst.seq(found))
    return Identified(union, output_of(union)[-1])


def _hash(catalyst: Catalyst, parts: Sequence[Expression]) -> Expression:
    """Long hash; a collision only makes false pairs, which change no net row.

    Rows that are no pair, or parts of a pair.
    """
    # The hash passes over nulls: (1, null) and (null, true) would be the same.
    nulls = [catalyst.expressions.IsNull(part) for part in parts if part.nullable()]
    hashed = [*nulls, *(_hashable(catalyst, part) for part in parts)]
    return catalyst.expressions.XxHash64(catalyst.seq(hashed), 42)


def _hashable(catalyst: Catalyst, part: Expression) -> Expression:
    if str(part.dataType().typeName()) in ("float", "double"):
        return catalyst.jvm.org.apache.spark.sql.catalyst.optimizer.NormalizeNaNAndZero(part)
    return part
