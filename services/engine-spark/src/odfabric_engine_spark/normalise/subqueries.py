"""Subqueries in expressions as joins.

Owns taking them apart, one node at a time from the inside out: correlated ones by Spark's own rules, single values by a join
with a plan that has one row, LATERAL by a join with all that its rows have beside them. Invariant: no node that leaves here holds a plan in an expression. NOT IN is a question about
nulls of the whole relation (one null, and no row passes), so it needs columns that are never null. Not here: LATERAL
of the row itself and look-ups (`temporal`). Source: ruling on the traps of incremental queries.
"""

from __future__ import annotations

from collections.abc import Iterator

from py4j.protocol import Py4JError

from odfabric.errors import InvalidQuery
from odfabric_engine_spark.catalyst import (
    Catalyst,
    Expression,
    Plan,
    children,
    expr_id,
    expressions_of,
    inner_plan,
    is_attribute,
    items,
    simple_name,
    walk_expression,
    without_alias,
)
from odfabric_engine_spark.normalise.comma_joins import conjuncts
from odfabric_engine_spark.normalise.first_rows import takes_one
from odfabric_engine_spark.normalise.rebuild import map_expression, map_expressions, subqueries_of, with_children
from odfabric_engine_spark.normalise.window_functions import window
from odfabric_engine_spark.validate.refusal import Refused, refusal, shown, source_text

_OPTIMIZER = "org.apache.spark.sql.catalyst.optimizer"
_HOLDERS = frozenset({"Project", "Filter", "Join", "Aggregate"})
_ROW_KEEPING = frozenset({"Project", "Filter"})


class Subqueries:
    """Takes apart the subqueries of plan nodes whose children and inner plans hold none any more."""

    def __init__(self, catalyst: Catalyst) -> None:
        self._catalyst = catalyst

    def joined(self, node: Plan) -> Plan:
        """The node, or joins and the node without subqueries. Raises Refused naming the subquery."""
        found = subqueries_of(self._catalyst, node)
        if not found:
            return node
        if simple_name(node) not in _HOLDERS:
            raise Refused([_not_here(found[0])])
        if simple_name(node) == "Aggregate":
            return self._around_aggregate(node)
        self._check(node)
        alone = self._without_single_values(node)
        left = subqueries_of(self._catalyst, alone)
        plan = self._without_correlated(alone, left[0]) if left else alone
        if alone is node or simple_name(node) == "Project":
            return plan
        # The values that were joined are columns of what a filter or a join gives.
        return self._catalyst.logical.Project(node.output(), plan)

    def beside(self, node: Plan) -> Plan:
        """A join for a LateralJoin. Raises Refused."""
        try:
            plan = self._apply("PullupCorrelatedPredicates", node)
            plan = self._apply("RewriteLateralSubquery", plan)
        except Py4JError:
            raise Refused([_too_correlated(node.right())]) from None
        if simple_name(plan) == "LateralJoin":
            raise Refused([_too_correlated(node.right())])
        return self._with_plain_windows(plan, set(children(node)))

    def _check(self, node: Plan) -> None:
        problems = [*_value_problems(self._catalyst, node), *_membership_problems(self._catalyst, node)]
        if problems:
            raise Refused(problems)

    def _without_single_values(self, node: Plan) -> Plan:
        """Each uncorrelated single value is a column that a join with its one row adds."""
        plans: list[Plan] = []

        def replace(part: Expression) -> Expression | None:
            if not _is_single_value(part):
                return None
            column = items(part.plan().output())[0]
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
            plan = self._apply("PullupCorrelatedPredicates", node)
            plan = map_expressions(self._catalyst, plan, self._without_not_in)
            plan = map_expressions(self._catalyst, plan, lambda part: self._as_correlated(part, children(node)[0]))
            plan = self._apply("RewriteCorrelatedScalarSubquery", plan)
            plan = self._apply("RewritePredicateSubquery", plan)
        except Py4JError:
            raise Refused([_too_correlated(at)]) from None
        done = set(children(node))
        if self._is_unfinished(plan, done):
            raise Refused([_too_correlated(at)])
        return self._with_plain_windows(plan, done)

    def _with_plain_windows(self, plan: Plan, done: set[Plan]) -> Plan:
        """Spark's rule lists columns among the functions of a window; a copy of such a plan would name columns that it has not."""
        if plan in done:
            return plan
        below = [self._with_plain_windows(child, done) for child in children(plan)]
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

    def _without_not_in(self, part: Expression) -> Expression | None:
        """Without nulls, NOT IN asks that no equal row exists."""
        if simple_name(part) != "Not" or simple_name(part.child()) != "InSubquery":
            return None
        values, query = items(part.child().values()), part.child().query()
        columns = items(query.plan().output())[: len(values)]
        equalities = [
            self._catalyst.expressions.EqualTo(value, column) for value, column in zip(values, columns, strict=True)
        ]
        exists = self._catalyst.expressions.Exists(
            query.plan(),
            query.outerAttrs(),
            query.exprId(),
            self._catalyst.seq([*items(query.joinCond()), *equalities]),
            query.hint(),
        )
        return self._catalyst.expressions.Not(exists)

    def _as_correlated(self, part: Expression, below: Plan) -> Expression | None:
        """Spark's rule joins what reads a column of the row; the others are told to, with any column."""
        if simple_name(part) != "Exists" or not part.outerAttrs().isEmpty():
            return None
        any_column = self._catalyst.seq(items(below.output())[:1])
        return self._catalyst.expressions.Exists(part.plan(), any_column, part.exprId(), part.joinCond(), part.hint())

    def _around_aggregate(self, node: Plan) -> Plan:
        """Subqueries within functions and groups move into a selection below, others into one above."""
        below: list[Expression] = []
        (child,) = children(node)
        node = self._pulled_below(node, below)
        if below:
            project = self._catalyst.logical.Project(self._catalyst.seq([*items(child.output()), *below]), child)
            node = node.withNewChildren(self._catalyst.seq([self.joined(project)]))
        return self._pulled_above(node) if subqueries_of(self._catalyst, node) else node

    def _pulled_below(self, node: Plan, below: list[Expression]) -> Plan:
        groups = [each for each in items(node.groupingExpressions()) if self._holds_plan(each)]

        def to_column(part: Expression) -> Expression | None:
            if inner_plan(part) is None and simple_name(part) != "InSubquery":
                return None
            value = self._catalyst.named(part, "subquery")
            below.append(value)
            return value.toAttribute()

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


def _is_single_value(part: Expression) -> bool:
    """Whether an expression is a single value that is the same for all rows."""
    return simple_name(part) == "ScalarSubquery" and bool(part.outerAttrs().isEmpty())


def _value_problems(catalyst: Catalyst, node: Plan) -> Iterator[InvalidQuery]:
    for part in subqueries_of(catalyst, node):
        if simple_name(part) == "ScalarSubquery" and not _has_one_row(part.plan()):
            yield refusal(
                "subquery-rows",
                f"{_text(part)} can have more than one row",
                at=part,
                hint="aggregate it: (select max(..) from ..), or take one: (select .. order by .. limit 1)",
            )


def _has_one_row(plan: Plan) -> bool:
    """Whether a plan has at most one row by construction."""
    if takes_one(plan):
        return True
    while simple_name(plan) in _ROW_KEEPING:
        (plan,) = children(plan)
    if simple_name(plan) == "Aggregate":
        return bool(plan.groupingExpressions().isEmpty())
    return simple_name(plan) == "OneRowRelation"


def _membership_problems(catalyst: Catalyst, node: Plan) -> Iterator[InvalidQuery]:
    """Uses of IN in which a null would be neither true nor false to what is above."""
    known: list[Expression] = []
    if simple_name(node) == "Filter":
        known = conjuncts(node.condition())
    for expression in expressions_of(node):
        positive = simple_name(node) in ("Filter", "Join")
        for part, is_positive in _memberships(expression, positive=positive):
            if not is_positive and not _is_two_valued(catalyst, part, node, known):
                text = _text(part)
                yield refusal(
                    "not-in",
                    f"{text} asks for nulls in the whole relation: with one of them, no row passes NOT IN",
                    at=part,
                    hint="write not exists (select 1 from .. where ..), or keep nulls out: where .. is not null",
                )


def _memberships(expression: Expression, *, positive: bool) -> Iterator[tuple[Expression, bool]]:
    """Each IN, and whether null means the same as false there."""
    name = simple_name(expression)
    if name == "InSubquery":
        yield expression, positive
    below = positive and name in ("And", "Or")
    for child in children(expression):
        yield from _memberships(child, positive=below)


def _is_two_valued(catalyst: Catalyst, membership: Expression, node: Plan, known: list[Expression]) -> bool:
    values, query = items(membership.values()), membership.query().plan()
    below = [constraint for child in children(node) for constraint in items(child.constraints().toSeq())]
    inside = items(query.constraints().toSeq())
    pairs = zip(values, items(query.output()), strict=False)
    return all(
        _never_null(catalyst, value, [*known, *below]) and _never_null(catalyst, column, inside)
        for value, column in pairs
    )


def _never_null(catalyst: Catalyst, value: Expression, known: list[Expression]) -> bool:
    if not value.nullable():
        return True
    if _keeps_non_null(catalyst, value) and _never_null(catalyst, value.child(), known):
        return True
    required = catalyst.expressions.IsNotNull(value)
    return any(each.semanticEquals(required) for each in known)


def _keeps_non_null(catalyst: Catalyst, value: Expression) -> bool:
    """Whether an expression is a cast that makes null of null only: TRY_CAST and casts of JSON, for instance, do not."""
    if simple_name(value) != "Cast":
        return False
    non_null = catalyst.expressions.BoundReference(0, value.child().dataType(), False)
    return not value.withNewChildren(catalyst.seq([non_null])).nullable()


def _not_here(part: Expression) -> InvalidQuery:
    return refusal(
        "subquery", f"a subquery is not allowed here: {_text(part)}", at=part, hint="use it in a step before"
    )


def _too_correlated(part: Expression) -> InvalidQuery:
    return refusal(
        "subquery",
        f"the subquery cannot be written as a join: {_text(part)}",
        at=part,
        hint="write it as a join, or compute it in a step of its own",
    )


def _text(part: Expression) -> str:
    return shown(source_text(part) or str(part.sql()))
