"""Decorrelation: subqueries in expressions as joins.

Owns taking them apart, one node at a time from the inside out: correlated ones by Spark's own rules, single values by a join
with a plan that has one row, LATERAL by a join with all that its rows have beside them. Invariant: no node that leaves here
holds a plan in an expression. Not here: what nulls mean to IN (`null_aware_anti_join`), LATERAL of the row itself and temporal joins (`lateral_temporal_join`).
Source: docs/engine.md#where-naive-rules-are-wrong.
"""

from __future__ import annotations

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from odfabric.errors import InvalidQuery
from odfabric_engine_spark.plan.join_keys import MATCHED, join_kind
from odfabric_engine_spark.plan.order_independence.window_functions import window
from odfabric_engine_spark.plan.subqueries.correlation_domains import with_equalities_hidden, with_equalities_shown
from odfabric_engine_spark.plan.subqueries.null_aware_anti_join import NullAwareJoins, is_not_in
from odfabric_engine_spark.plan.subqueries.scalar_subqueries import with_single_values
from odfabric_engine_spark.spark.catalyst.plan_nodes import (
    Catalyst,
    Expression,
    Plan,
    children,
    conjuncts,
    expr_id,
    expressions_of,
    inner_plan,
    is_attribute,
    items,
    output_of,
    simple_name,
    walk_expression,
    without_alias,
)
from odfabric_engine_spark.spark.catalyst.plan_rebuild import (
    map_expression,
    map_expressions,
    subqueries_of,
    with_children,
)
from odfabric_engine_spark.sql.refusal import Refused, refusal, text_of

_OPTIMIZER = "org.apache.spark.sql.catalyst.optimizer"
_HOLDERS = frozenset({"Project", "Filter", "Join", "Aggregate"})


class Subqueries:
    """Decorrelates subqueries of nodes whose children and inner plans have none."""

    def __init__(self, catalyst: Catalyst) -> None:
        self._catalyst = catalyst

    def joined(self, node: Plan) -> Plan:
        """The node, or joins and the node without subqueries.

        Raises Refused naming the subquery.
        """
        found = subqueries_of(self._catalyst, node)
        if not found:
            return node
        if simple_name(node) == "Generate":
            return self._below_generate(node)
        if simple_name(node) not in _HOLDERS:
            raise Refused([_not_here(found[0])])
        if simple_name(node) == "Join" and join_kind(node) in MATCHED:
            return self.joined(self._as_filter(node))
        node = self._over_columns(node)
        node = NullAwareJoins(self._catalyst, with_single_values(self._catalyst, node)).settled()
        if simple_name(node) == "Aggregate":
            return self._around_aggregate(node)
        node = NullAwareJoins(self._catalyst, node).with_nulls()
        alone = self._without_single_values(node)
        left = subqueries_of(self._catalyst, alone)
        plan = self._without_correlated(alone, left[0]) if left else alone
        if alone is node or simple_name(node) == "Project":
            return plan
        # The values that were joined are columns of what a filter or a join gives.
        return self._catalyst.logical.Project(node.output(), plan)

    def _as_filter(self, join: Plan) -> Plan:
        """What an inner join asks of subqueries, asked of what it gives."""
        parts = [(part, self._holds_plan(part)) for part in conjuncts(join.condition().get())]
        some = self._catalyst.companion("scala.Option").apply
        kept = some(self._catalyst.all_of([part for part, holds in parts if not holds]))
        below = self._catalyst.logical.Join(*children(join), join.joinType(), kept, join.hint())
        return self._catalyst.logical.Filter(self._catalyst.all_of([part for part, holds in parts if holds]), below)

    def beside(self, node: Plan) -> Plan:
        """A join for a LateralJoin. Raises Refused."""
        try:
            plan = self._apply("PullupCorrelatedPredicates", with_equalities_hidden(self._catalyst, node))
            plan = self._apply("RewriteLateralSubquery", plan)
        except (Py4JError, PySparkException):
            raise Refused([_too_correlated(node.right())]) from None
        if simple_name(plan) == "LateralJoin":
            raise Refused([_too_correlated(node.right())])
        return self._plain(plan, set(children(node)), node.right())

    def _without_single_values(self, node: Plan) -> Plan:
        """Each uncorrelated single value is a column that a join with its one row adds."""
        plans: list[Plan] = []

        def replace(part: Expression) -> Expression | None:
            if not _is_single_value(part):
                return None
            column = output_of(part.plan())[0]
            value = self._catalyst.named(column, str(column.name()))
            plans.append(self._catalyst.logical.Project(self._catalyst.seq([value]), part.plan()))
            return value.toAttribute()

        node = map_expressions(self._catalyst, node, replace)
        if not plans:
            return node
        first, *others = children(node)
        for plan in plans:
            first = self._join(first, plan)
        return node.withNewChildren(self._catalyst.seq([first, *others]))

    def _join(self, left: Plan, one_row: Plan) -> Plan:
        outer = self._catalyst.companion("org.apache.spark.sql.catalyst.plans.LeftOuter")
        always = self._catalyst.companion("scala.Option").apply(self._catalyst.literal_true())
        hint = self._catalyst.companion("org.apache.spark.sql.catalyst.plans.logical.JoinHint").NONE()
        return self._catalyst.logical.Join(left, one_row, outer, always, hint)

    def _without_correlated(self, node: Plan, at: Expression) -> Plan:
        try:
            plan = self._apply("PullupCorrelatedPredicates", with_equalities_hidden(self._catalyst, node))
            plan = map_expressions(self._catalyst, plan, NullAwareJoins(self._catalyst, plan).as_exists)
            plan = map_expressions(self._catalyst, plan, lambda part: self._as_correlated(part, children(node)[0]))
            plan = self._apply("RewriteCorrelatedScalarSubquery", plan)
            plan = self._apply("RewritePredicateSubquery", plan)
        except (Py4JError, PySparkException):
            raise Refused([_too_correlated(at)]) from None
        done = set(children(node))
        if self._is_unfinished(plan, done):
            raise Refused([_too_correlated(at)])
        return self._plain(plan, done, at)

    def _plain(self, plan: Plan, done: set[Plan], at: Expression) -> Plan:
        """What Spark's rules have made above plans that are done. Raises Refused.

        The rules compare the values that a subquery reads, which Spark cannot do with maps; the plan is then not resolved. And the rules may take the values for which a subquery is computed from a copy of the relation outside of it. If that reads a row
        further outside, the copy is joined with that row too, and on the side of an outer join where it has nulls.
        """
        if not plan.resolved() or any(_asks_outside(each) and _times(each, plan) > 1 for each in done):
            raise Refused([_too_correlated(at)])
        return self._with_plain_nodes(with_equalities_shown(self._catalyst, plan, done), done)

    def _with_plain_nodes(self, plan: Plan, done: set[Plan]) -> Plan:
        """Spark's rule lists columns among the functions of a window.

        A copy of such a plan would name columns that it has not.

        It joins a value so that a second row would be an error, unless it sees that there is one at most: here there always is.
        """
        if plan in done:
            return plan
        below = [self._with_plain_nodes(child, done) for child in children(plan)]
        if simple_name(plan) == "Join" and join_kind(plan) == "LeftSingle":
            outer = self._catalyst.companion("org.apache.spark.sql.catalyst.plans.LeftOuter")
            return self._catalyst.logical.Join(*below, outer, plan.condition(), plan.hint())
        if simple_name(plan) != "Window":
            return with_children(self._catalyst, plan, below)
        named = [each for each in items(plan.windowExpressions()) if not is_attribute(each)]
        return window(self._catalyst, named, items(plan.partitionSpec()), items(plan.orderSpec()), below[0])

    def _is_unfinished(self, plan: Plan, done: set[Plan]) -> bool:
        """Whether a subquery is left above plans that are done."""
        if plan in done:
            return False
        return bool(subqueries_of(self._catalyst, plan)) or any(
            self._is_unfinished(child, done) for child in children(plan)
        )

    def _apply(self, rule: str, plan: Plan) -> Plan:
        return self._catalyst.companion(f"{_OPTIMIZER}.{rule}").apply(plan)

    def _over_columns(self, node: Plan) -> Plan:
        """The node over relations with columns, which SELECT without FROM lacks.

        A test for a partner needs a column.
        """
        below = [child if output_of(child) else self._with_column(child) for child in children(node)]
        return with_children(self._catalyst, node, below)

    def _with_column(self, plan: Plan) -> Plan:
        some = self._catalyst.named(self._catalyst.literal_true(), "row")
        return self._catalyst.logical.Project(self._catalyst.seq([some]), plan)

    def _as_correlated(self, part: Expression, below: Plan) -> Expression | None:
        """Spark's rule joins what reads a column of the row.

        The others are asked to, with any column.
        """
        if simple_name(part) != "Exists" or not part.outerAttrs().isEmpty():
            return None
        any_column = self._catalyst.seq(output_of(below)[:1])
        return self._catalyst.expressions.Exists(part.plan(), any_column, part.exprId(), part.joinCond(), part.hint())

    def _below_generate(self, node: Plan) -> Plan:
        """Subqueries of what makes several rows of one move into a selection below."""
        below: list[Expression] = []
        plan = map_expressions(self._catalyst, node, lambda part: self._to_column(part, below))
        return self._catalyst.logical.Project(node.output(), self._over_selection(plan, below))

    def _around_aggregate(self, node: Plan) -> Plan:
        """Move subqueries in functions and groups to a selection below, others above."""
        below: list[Expression] = []
        node = self._pulled_below(node, below)
        node = self._over_selection(node, below) if below else node
        return self._pulled_above(node) if subqueries_of(self._catalyst, node) else node

    def _over_selection(self, node: Plan, more: list[Expression]) -> Plan:
        """A node over a selection of more columns, which hold subqueries."""
        (child,) = children(node)
        project = self._catalyst.logical.Project(self._catalyst.seq([*output_of(child), *more]), child)
        return node.withNewChildren(self._catalyst.seq([self.joined(project)]))

    def _to_column(self, part: Expression, below: list[Expression]) -> Expression | None:
        """The column that has the value of a subquery, None for anything else."""
        if inner_plan(part) is None and simple_name(part) != "InSubquery" and not is_not_in(part):
            return None
        value = self._catalyst.named(part, "subquery")
        below.append(value)
        return value.toAttribute()

    def _pulled_below(self, node: Plan, below: list[Expression]) -> Plan:
        groups = [each for each in items(node.groupingExpressions()) if self._holds_plan(each)]

        def to_column(part: Expression) -> Expression | None:
            return self._to_column(part, below)

        def replace(part: Expression) -> Expression | None:
            if simple_name(part) == "AggregateExpression" and self._holds_plan(part):
                return part.withNewChildren(
                    self._catalyst.seq([map_expression(self._catalyst, each, to_column) for each in children(part)])
                )
            for index, group in enumerate(groups):
                if part.semanticEquals(group):
                    return columns[index].toAttribute()
            return None

        columns = [self._catalyst.named(group, f"group{index}") for index, group in enumerate(groups)]
        below.extend(columns)
        return map_expressions(self._catalyst, node, replace)

    def _pulled_above(self, node: Plan) -> Plan:
        """An aggregate of plain parts, and above it the selection that puts them together.

        A column that is grouped by keeps its id, by which subqueries know it.
        """
        groups = items(node.groupingExpressions())
        columns = {expr_id(each): each for each in groups if is_attribute(each)}.values()
        parts: list[Expression] = []

        def replace(part: Expression) -> Expression | None:
            if is_attribute(part):
                return None
            if simple_name(part) == "AggregateExpression" or any(part.semanticEquals(group) for group in groups):
                known = next((each for each in parts if each.child().semanticEquals(part)), None)
                if known is None:
                    known = self._catalyst.named(part, f"part{len(parts)}")
                    parts.append(known)
                return known.toAttribute()
            return None

        named = []
        for each in items(node.aggregateExpressions()):
            if is_attribute(each):
                named.append(each)
                continue
            value = map_expression(self._catalyst, without_alias(each), replace)
            named.append(self._catalyst.named(value, str(each.name()), like=each))
        none = self._catalyst.companion("scala.None")
        plain = self._catalyst.logical.Aggregate(
            node.groupingExpressions(), self._catalyst.seq([*columns, *parts]), children(node)[0], none
        )
        return self.joined(self._catalyst.logical.Project(self._catalyst.seq(named), plain))

    def _holds_plan(self, expression: Expression) -> bool:
        return any(inner_plan(part) is not None for part in walk_expression(expression))


def _asks_outside(plan: Plan) -> bool:
    """Whether a plan reads an outer row's columns: it is in a subquery itself."""
    own = (part for each in expressions_of(plan) for part in walk_expression(each))
    return any(simple_name(part) == "OuterReference" for part in own) or any(map(_asks_outside, children(plan)))


def _times(part: Plan, plan: Plan) -> int:
    """How often a plan is part of another."""
    return 1 if plan == part else sum(_times(part, child) for child in children(plan))


def _is_single_value(part: Expression) -> bool:
    """Whether an expression is a single value that is the same for all rows."""
    return simple_name(part) == "ScalarSubquery" and bool(part.outerAttrs().isEmpty())


def _not_here(part: Expression) -> InvalidQuery:
    return refusal(
        "subquery", f"a subquery is not allowed here: {text_of(part)}", at=part, hint="use it in a step before"
    )


def _too_correlated(part: Expression) -> InvalidQuery:
    return refusal(
        "subquery",
        f"the subquery cannot be written as a join: {text_of(part)}",
        at=inner_plan(part) or part,
        hint="write it as a join, or compute it in a step of its own",
    )
