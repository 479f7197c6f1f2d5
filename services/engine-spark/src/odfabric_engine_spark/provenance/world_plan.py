"""One plan for many worlds: every row carries the number of its world.

A world is a set of input records over which a query runs. Owns the rewriting of a normal plan so that one run serves many worlds.
Invariant: the result's rows of a world are those of the normal plan over the rows of that world alone, whatever other worlds there are and
also where it has no rows. So the number is one more key of every group, window and join; constants are there once for each world; an
aggregate of all rows has a row for each world, that over no rows where the world has none. Every node of a normal plan has an entry.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from odfabric_engine_spark.plan.column_lineage import substitute
from odfabric_engine_spark.plan.input_tables import scan_alias
from odfabric_engine_spark.provenance.circuit.builder import CONSTANTS
from odfabric_engine_spark.spark.catalyst.plan_nodes import (
    OWN_PREFIX,
    Attribute,
    Catalyst,
    Expression,
    Plan,
    children,
    expr_id,
    items,
    output_of,
    simple_name,
    with_elements,
    without_alias,
)
from odfabric_engine_spark.spark.catalyst.plan_rebuild import map_expression

WORLD = f"{OWN_PREFIX}world"
"""The column of rows of several worlds that says of which."""
_NUMBERS = f"{OWN_PREFIX}worlds"


def world_plan(catalyst: Catalyst, plan: Plan) -> Plan:
    """The plan for worlds of a normal plan, without rows.

    Its scans have the number of the world as their last column, and so has its result.
    """
    found = Rewriting(catalyst).of(plan)
    return catalyst.logical.Project(catalyst.seq([*output_of(plan), found.number]), found.plan)


def lists_worlds(plan: Plan) -> bool:
    """Whether a node stands for the numbers of all worlds, in its one column."""
    if simple_name(plan) != "LocalRelation":
        return False
    columns = output_of(plan)
    return len(columns) == 1 and str(columns[0].name()) == _NUMBERS


@dataclass(frozen=True, slots=True)
class Numbered:
    """A plan, and its column with the number of the world, which is never null."""

    plan: Plan
    number: Attribute


class Rewriting:
    """Puts the number of the world into a plan, from the scans up."""

    def __init__(self, catalyst: Catalyst) -> None:
        self.catalyst = catalyst

    def of(self, plan: Plan) -> Numbered:
        """A node with all below it. Raises KeyError for one that no normal plan has."""
        if scan_alias(plan) is not None:
            number = self.fresh(WORLD)
            return Numbered(self.catalyst.local_relation(self.catalyst.seq([*output_of(plan), number])), number)
        if simple_name(plan) in CONSTANTS:
            return self._in_each_world(plan)
        return OPERATORS[simple_name(plan)](self, plan)

    def fresh(self, name: str) -> Attribute:
        """A new column of numbers."""
        return self.catalyst.named(self.catalyst.parse_expression("0L"), name).toAttribute()

    def numbers(self) -> Numbered:
        """All worlds, each once."""
        number = self.fresh(_NUMBERS)
        return Numbered(self.catalyst.local_relation(self.catalyst.seq([number])), number)

    def joined(self, left: Plan, right: Plan, kind: str, condition: Expression | None) -> Plan:
        """A join of a plain kind."""
        option = self.catalyst.companion("scala.Option").apply(condition)
        hint = self.catalyst.companion("org.apache.spark.sql.catalyst.plans.logical.JoinHint").NONE()
        join_type = self.catalyst.companion(f"org.apache.spark.sql.catalyst.plans.{kind}")
        return self.catalyst.logical.Join(left, right, join_type, option, hint)

    def _in_each_world(self, plan: Plan) -> Numbered:
        numbers = self.numbers()
        pairs = self.joined(plan, numbers.plan, "Inner", None)
        return Numbered(pairs, numbers.number)


def _project(rewriting: Rewriting, plan: Plan) -> Numbered:
    below = rewriting.of(children(plan)[0])
    catalyst = rewriting.catalyst
    values = catalyst.seq([*items(plan.projectList()), below.number])
    return Numbered(catalyst.logical.Project(values, below.plan), below.number)


def _filter(rewriting: Rewriting, plan: Plan) -> Numbered:
    below = rewriting.of(children(plan)[0])
    return Numbered(plan.withNewChildren(rewriting.catalyst.seq([below.plan])), below.number)


def _generate(rewriting: Rewriting, plan: Plan) -> Numbered:
    """Its child's columns keep their positions, by which it names those that it drops."""
    (child,) = children(plan)
    below = rewriting.of(child)
    catalyst = rewriting.catalyst
    rows = catalyst.logical.Project(catalyst.seq([*output_of(child), below.number]), below.plan)
    return Numbered(plan.withNewChildren(catalyst.seq([rows])), below.number)


def _expand(rewriting: Rewriting, plan: Plan) -> Numbered:
    below = rewriting.of(children(plan)[0])
    catalyst = rewriting.catalyst
    number = below.number.newInstance()
    copies = [catalyst.seq([*items(each), below.number]) for each in items(plan.projections())]
    columns = catalyst.seq([*output_of(plan), number])
    return Numbered(catalyst.logical.Expand(catalyst.seq(copies), columns, below.plan), number)


def _union(rewriting: Rewriting, plan: Plan) -> Numbered:
    catalyst = rewriting.catalyst
    branches = []
    for child in children(plan):
        below = rewriting.of(child)
        values = [catalyst.named(column, str(column.name())) for column in output_of(child)]
        numbered = catalyst.seq([*values, catalyst.named(below.number, WORLD)])
        branches.append(catalyst.logical.Project(numbered, below.plan))
    united = catalyst.logical.Union(catalyst.seq(branches), False, False)
    *have, last = output_of(united)
    columns = output_of(plan)
    number = catalyst.named(last, WORLD)
    values = items(catalyst.as_columns(have, columns)) if columns else []
    return Numbered(catalyst.logical.Project(catalyst.seq([*values, number]), united), number.toAttribute())


def _join(rewriting: Rewriting, plan: Plan) -> Numbered:
    """Rows meet those of their own world only."""
    catalyst = rewriting.catalyst
    left, right = (rewriting.of(child) for child in children(plan))
    same = catalyst.expressions.EqualTo(left.number, right.number)
    condition = catalyst.expressions.And(same, plan.condition().get()) if plan.condition().isDefined() else same
    option = catalyst.companion("scala.Option").apply(condition)
    node = catalyst.logical.Join(left.plan, right.plan, plan.joinType(), option, plan.hint())
    kind = str(plan.joinType().toString()).split("(")[0]
    if kind in ("LeftSemi", "LeftAnti"):
        return Numbered(node, left.number)
    number = right.number if kind == "RightOuter" else left.number
    if kind == "FullOuter":
        either = catalyst.named(catalyst.expressions.Coalesce(catalyst.seq([left.number, right.number])), WORLD)
        values = catalyst.seq([*output_of(plan), either])
        return Numbered(catalyst.logical.Project(values, node), either.toAttribute())
    return Numbered(catalyst.logical.Project(catalyst.seq([*output_of(plan), number]), node), number)


def _aggregate(rewriting: Rewriting, plan: Plan) -> Numbered:
    below = rewriting.of(children(plan)[0])
    catalyst = rewriting.catalyst
    grouping, results = items(plan.groupingExpressions()), items(plan.aggregateExpressions())
    if grouping:
        groups, values = catalyst.seq([*grouping, below.number]), catalyst.seq([*results, below.number])
        return Numbered(catalyst.logical.Aggregate(groups, values, below.plan, plan.hint()), below.number)
    return _of_all_rows(rewriting, plan, below, results)


def _of_all_rows(rewriting: Rewriting, plan: Plan, below: Numbered, results: Sequence[Expression]) -> Numbered:
    """An aggregate without keys: worlds without rows have what it gives over none."""
    catalyst = rewriting.catalyst
    none = catalyst.seq([])
    values = [catalyst.named(without_alias(each), str(each.name())) for each in results]
    grouped = catalyst.logical.Aggregate(
        catalyst.seq([below.number]), catalyst.seq([*values, below.number]), below.plan, plan.hint()
    )
    # Without metadata: a relation with that of a scan would be taken for one.
    unmarked = catalyst.companion("org.apache.spark.sql.types.Metadata").empty()
    columns = {expr_id(each): each.newInstance().withMetadata(unmarked) for each in output_of(children(plan)[0])}
    without_rows = [
        catalyst.named(substitute(catalyst, without_alias(each), columns), str(each.name())) for each in results
    ]
    over_nothing = catalyst.logical.Aggregate(
        none, catalyst.seq(without_rows), catalyst.local_relation(catalyst.seq(columns.values())), plan.hint()
    )
    numbers = rewriting.numbers()
    every = rewriting.joined(numbers.plan, over_nothing, "Inner", None)
    same = catalyst.expressions.EqualTo(numbers.number, below.number)
    found = rewriting.joined(every, grouped, "LeftOuter", same)
    has_rows = catalyst.expressions.IsNotNull(below.number)
    shown = [
        catalyst.named(
            catalyst.expressions.If(has_rows, value.toAttribute(), nothing.toAttribute()),
            str(column.name()),
            like=column,
        )
        for column, value, nothing in zip(output_of(plan), values, without_rows, strict=True)
    ]
    return Numbered(catalyst.logical.Project(catalyst.seq([*shown, numbers.number]), found), numbers.number)


def _window(rewriting: Rewriting, plan: Plan) -> Numbered:
    below = rewriting.of(children(plan)[0])
    catalyst = rewriting.catalyst

    def within_world(part: Expression) -> Expression | None:
        if simple_name(part) != "WindowSpecDefinition":
            return None
        return with_elements(part, {0: catalyst.seq([*items(part.partitionSpec()), below.number])})

    functions = [map_expression(catalyst, each, within_world) for each in items(plan.windowExpressions())]
    partition = catalyst.seq([*items(plan.partitionSpec()), below.number])
    node = catalyst.logical.Window(catalyst.seq(functions), partition, plan.orderSpec(), below.plan, plan.hint())
    return Numbered(node, below.number)


OPERATORS: Mapping[str, Callable[[Rewriting, Plan], Numbered]] = {
    "Project": _project,
    "Filter": _filter,
    "Generate": _generate,
    "Expand": _expand,
    "Union": _union,
    "Join": _join,
    "Aggregate": _aggregate,
    "Window": _window,
}
