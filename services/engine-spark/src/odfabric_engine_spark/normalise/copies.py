"""Uses of inputs that a plan has several of, though the query has one.

Owns which they are: Spark's rules take the values for which a subquery is computed from a copy of the relation outside of it. Invariant: copies
have the columns of the use that they are of, by id, as far as they read them. Not here: making them (`subqueries`), what holds for all of
them (`stages.closings`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from odfabric_engine_spark.catalyst import Plan, children, expressions_of, inner_plan, walk_expression
from odfabric_engine_spark.incremental.trace import Leaf, leaves_of


@dataclass(frozen=True, slots=True)
class Copies:
    """`numbers` has the columns of these uses by id, with the same number for all copies of one.

    `repeated` are the numbers of uses that stand in several places of the query itself, as those of a name in WITH do.
    """

    numbers: Mapping[int, int]
    repeated: frozenset[int]

    @classmethod
    def of(cls, query: Plan, numbers: Mapping[int, int]) -> Copies:
        """Of a query before its subqueries were taken apart."""
        if not numbers:
            return cls({}, frozenset())
        uses = Counter(min(leaf.columns) for leaf in _all_leaves(query))
        return cls(numbers, frozenset(number for number in numbers.values() if uses[number] > 1))


def copied_columns(before: list[Plan], after: Plan) -> dict[int, int]:
    """Columns of uses of which a plan has more than the plans that it was made of, by id, with a number for each use."""
    known = Counter(frozenset(leaf.columns) for plan in before for leaf in leaves_of(plan))
    now = Counter(frozenset(leaf.columns) for leaf in leaves_of(after))
    return {column: min(use) for use, count in known.items() if now[use] > count for column in use}


def _all_leaves(plan: Plan) -> Iterator[Leaf]:
    """Of a plan and of all plans in its expressions."""
    yield from leaves_of(plan)
    stack = [plan]
    while stack:
        node = stack.pop()
        stack.extend(children(node))
        for expression in expressions_of(node):
            for part in walk_expression(expression):
                inner = inner_plan(part)
                if inner is not None:
                    yield from _all_leaves(inner)
