"""Equalities of joins, and the sides whose rows are always kept.

Owns reading a join's kind and condition. Invariant: a pair found here must hold for every matched row. Source:
docs/engine.md#keys-and-stages.
"""

from __future__ import annotations

from dataclasses import dataclass

from odfabric_engine_spark.spark.catalyst.plan_nodes import Expression, Plan, children, conjuncts, simple_name

MATCHED = frozenset({"Inner", "Cross"})
"""Every row of the result has one of each side."""
LEFT_KEPT = MATCHED | {"LeftOuter", "LeftSemi", "LeftAnti", "ExistenceJoin"}
"""Every row of the result has one of the left side, which is mapped alone."""
RIGHT_KEPT = MATCHED | {"RightOuter"}
"""Every row of the result has one of the right side, which is mapped alone."""
JOINS = LEFT_KEPT | RIGHT_KEPT | {"FullOuter"}


@dataclass(frozen=True, slots=True)
class EqualPair:
    """`left` over the left side equals `right` over the right side.

    `of_nulls`: two nulls are equal too.
    """

    left: Expression
    right: Expression
    of_nulls: bool


def join_kind(join: Plan) -> str:
    """Spark's name of the join type."""
    return str(join.joinType().toString()).split("(", maxsplit=1)[0]


def equal_pairs(join: Plan) -> list[EqualPair]:
    """Equalities between the sides that a join demands."""
    left, right = (child.outputSet() for child in children(join))
    condition = join.condition()
    found: list[EqualPair] = []
    for part in conjuncts(condition.get()) if condition.isDefined() else ():
        name = simple_name(part)
        if name not in ("EqualTo", "EqualNullSafe"):
            continue
        one, other, of_nulls = part.left(), part.right(), name == "EqualNullSafe"
        if one.references().isEmpty() or other.references().isEmpty():
            continue
        if one.references().subsetOf(left) and other.references().subsetOf(right):
            found.append(EqualPair(one, other, of_nulls))
        elif one.references().subsetOf(right) and other.references().subsetOf(left):
            found.append(EqualPair(other, one, of_nulls))
    return found
