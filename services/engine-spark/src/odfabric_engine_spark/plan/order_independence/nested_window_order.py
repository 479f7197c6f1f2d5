"""Row order of a window function over another window.

Owns that windows which share an order share what ties in it: Spark sorts once for windows whose partitions are the same and whose orders begin
alike, and the usual sessions (a flag by `lag`, then its running sum) mean the same row by both. Invariant: a place, which numbers the rows of the
lower window, is unique wherever the upper one has ties. Not here: how ties are broken otherwise (`window_functions`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from odfabric_engine_spark.plan.order_independence.window_functions import needs_order, over_rows, source_of, window
from odfabric_engine_spark.spark.catalyst.plan_nodes import (
    Attribute,
    Catalyst,
    Expression,
    Plan,
    children,
    expr_id,
    is_attribute,
    items,
    simple_name,
)

_PASSED = frozenset({"Project", "Filter", "Window"})


@dataclass(frozen=True, slots=True)
class Places:
    """A plan with a column that numbers its rows in the order of its window."""

    plan: Plan
    column: Attribute


@dataclass(frozen=True, slots=True)
class _Key:
    """One of the values by which rows are sorted.

    `column` is where a column comes from, None for anything else.
    """

    column: int | None
    direction: str
    nulls: str


def places_below(catalyst: Catalyst, node: Plan) -> Places | None:
    """A Window node's relation with places by a window that sorts alike, if any."""
    if node.orderSpec().isEmpty() or not needs_order(node):
        return None
    (below,) = children(node)
    finder = _Finder(catalyst, _origins(below))
    wanted = finder.keys(node)
    return finder.placed(below, wanted, wanted)


def _origins(plan: Plan) -> dict[int, int]:
    """The origin of each column through a plan and the windows below it.

    As far as windows and what is between them go.
    """
    found: dict[int, int] = {}
    while simple_name(plan) in _PASSED:
        if simple_name(plan) == "Project":
            pairs = ((each, source_of(each)) for each in items(plan.projectList()))
            found |= {expr_id(each): expr_id(source) for each, source in pairs if expr_id(each) != expr_id(source)}
        (plan,) = children(plan)
    return found


class _Finder:
    """Looks for places in a plan, from above."""

    def __init__(self, catalyst: Catalyst, origins: Mapping[int, int]) -> None:
        self._catalyst = catalyst
        self._origins = origins

    def keys(self, node: Plan) -> list[_Key]:
        """How Spark sorts the rows for a Window node."""
        partition = [_Key(self._column(each), "Ascending", "NullsFirst") for each in items(node.partitionSpec())]
        order = [
            _Key(self._column(each.child()), simple_name(each.direction()), simple_name(each.nullOrdering()))
            for each in items(node.orderSpec())
        ]
        return [*partition, *order]

    def placed(self, plan: Plan, wanted: list[_Key], order: list[_Key]) -> Places | None:
        """The plan with places, if a window in it sorts as wanted and nothing re-sorts.

        `order` is how a window above sorts them, beginning with what is wanted.
        """
        name = simple_name(plan)
        if name not in _PASSED or any(key.column is None for key in order):
            return None
        if name == "Window":
            keys = self.keys(plan)
            if keys[: len(order)] != order:
                return None
            partition = {self._column(each) for each in items(plan.partitionSpec())}
            if needs_order(plan) and partition <= {key.column for key in wanted}:
                return self._numbered(plan)
            order = keys
        below = self.placed(children(plan)[0], wanted, order)
        if below is None:
            return None
        if name == "Project":
            columns = self._catalyst.seq([*items(plan.projectList()), below.column])
            return Places(self._catalyst.logical.Project(columns, below.plan), below.column)
        return Places(plan.withNewChildren(self._catalyst.seq([below.plan])), below.column)

    def _numbered(self, plan: Plan) -> Places:
        """A Window node, the order of which is complete, that numbers its rows too."""
        partition, order, (below,) = items(plan.partitionSpec()), items(plan.orderSpec()), children(plan)
        number = over_rows(self._catalyst, self._catalyst.expressions.RowNumber(), partition, order)
        place = self._catalyst.named(number, "place")
        numbered = window(self._catalyst, [*items(plan.windowExpressions()), place], partition, order, below)
        return Places(numbered, place.toAttribute())

    def _column(self, expression: Expression) -> int | None:
        if not is_attribute(expression):
            return None
        column = expr_id(expression)
        while column in self._origins:
            column = self._origins[column]
        return column
