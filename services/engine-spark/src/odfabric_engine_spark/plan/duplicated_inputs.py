"""Inputs that a rewritten plan reads several times, and the query once.

Owns which they are: Spark's rules take the values for which a subquery is computed from a copy of the relation outside of it. Invariant: copies
have the columns of the use that they are of, by id, as far as they read them. Not here: making them (`decorrelation`), what holds for all of
them (`operators.expiry.finality`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from odfabric_engine_spark.plan.column_lineage import Scan, scans_of
from odfabric_engine_spark.spark.catalyst.plan_nodes import Plan, children, expressions_of, inner_plan, walk_expression


@dataclass(frozen=True, slots=True)
class DuplicatedInputs:
    """`numbers` has these uses' columns by id, equal for all copies of one.

    `repeated` are the numbers of uses that stand in several places of the query itself, as those of a name in WITH do.
    """

    numbers: Mapping[int, int]
    repeated: frozenset[int]

    @classmethod
    def of(cls, query: Plan, plain: Plan) -> DuplicatedInputs:
        """Of a query, and its plan with the subqueries taken apart."""
        before, after = (Counter(frozenset(scan.columns) for scan in _all_scans(plan)) for plan in (query, plain))
        copied = [use for use, count in before.items() if after[use] > count]
        numbers = {column: min(use) for use in copied for column in use}
        return cls(numbers, frozenset(min(use) for use in copied if before[use] > 1))


NO_DUPLICATES = DuplicatedInputs({}, frozenset())


def _all_scans(plan: Plan) -> Iterator[Scan]:
    """Of a plan and of all plans in its expressions."""
    yield from scans_of(plan)
    stack = [plan]
    while stack:
        node = stack.pop()
        stack.extend(children(node))
        for expression in expressions_of(node):
            for part in walk_expression(expression):
                inner = inner_plan(part)
                if inner is not None:
                    yield from _all_scans(inner)
