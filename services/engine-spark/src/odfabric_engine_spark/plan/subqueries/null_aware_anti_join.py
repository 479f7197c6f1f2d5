"""IN and NOT IN over nullable values as null-aware semi and anti joins.

Owns what a null means: `x NOT IN (..)` holds if there are no rows, or if x is none of their values and no null is among all of
these. Invariant: what leaves here asks twice at most, whether something is surely a member and whether it surely is none, each true
or false, as Spark asks it: in conditions null and false are the same, and a column of IN is false, never null. Where a null would be
read as a value - in functions, comparisons, IS NULL - what Spark answers depends on its optimizer, and it is refused.
One row holds of an uncorrelated subquery what a row asks of all its values, so only a change of that answer touches all rows.
Not here: how EXISTS becomes a join (`decorrelation`). Source: docs/engine.md#where-naive-rules-are-wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from odfabric.errors import InvalidQuery
from odfabric_engine_spark.plan.join_keys import MATCHED, join_kind
from odfabric_engine_spark.spark.catalyst.plan_nodes import (
    Catalyst,
    Expression,
    Plan,
    children,
    conjuncts,
    items,
    output_of,
    simple_name,
    walk_expression,
)
from odfabric_engine_spark.spark.catalyst.plan_rebuild import map_expressions
from odfabric_engine_spark.spark.catalyst.sql_templates import from_template
from odfabric_engine_spark.sql.refusal import Refused, refusal, text_of

_CONDITIONS = frozenset({"Filter", "Join"})
_CHOICES = frozenset({"If", "CaseWhen"})
_OPPOSITE = {"And": "Or", "Or": "And"}
_NULLS = "case when count(if(x is null, 1, null)) > 0 then 2 when count(1) > 0 then 1 else 0 end"
"""What stands in the way of NOT IN: 0 nothing, as there are no rows, 1 a null that is asked for, 2 any question."""
_PASSES = "nulls < if(x is null, 1, 2)"


class NullAwareJoins:
    """Rewrites IN and NOT IN in one node whose inner plans are plain."""

    def __init__(self, catalyst: Catalyst, node: Plan) -> None:
        self._catalyst = catalyst
        self._node = node
        self._in_outer_join = simple_name(node) == "Join" and join_kind(node) not in MATCHED
        self._known = conjuncts(node.condition()) if simple_name(node) == "Filter" else []

    def settled(self) -> Plan:
        """The node with NOT beside IN, wherever that changes no answer. Raises Refused."""
        return map_expressions(self._catalyst, self._node, self._root)

    def with_nulls(self) -> Plan:
        """The settled node, with null checks of all rows for uncorrelated NOT IN."""
        if simple_name(self._node) in _CONDITIONS:
            return map_expressions(self._catalyst, self._node, self._conditions_with_nulls)
        return map_expressions(self._catalyst, self._node, self._with_nulls)

    def as_exists(self, part: Expression) -> Expression | None:
        """A NOT IN with its correlation as NOT EXISTS of an equal or unknown row, or None."""
        if not is_not_in(part):
            return None
        values, query = items(part.child().values()), part.child().query()
        pairs = list(zip(values, output_of(query.plan()), strict=False))
        whole = len(pairs) == 1 and query.outerAttrs().isEmpty()
        make = self._catalyst.expressions
        conditions: list[Expression] = []
        for value, column in pairs:
            equal = make.EqualTo(value, column)
            certain = whole or (self._is_present(value) and _never_null(self._catalyst, column, _inside(query)))
            conditions.append(equal if certain else make.Or(equal, make.IsNull(equal)))
        conditions = [*items(query.joinCond()), *conditions]
        exists = make.Exists(
            query.plan(), query.outerAttrs(), query.exprId(), self._catalyst.seq(conditions), query.hint()
        )
        return make.Not(exists)

    def _root(self, expression: Expression) -> Expression:
        if simple_name(expression) == "Alias":
            value = expression.child()
            new = self._asked(value, negative=False)
            return expression if new is value else expression.withNewChildren(self._catalyst.seq([new]))
        return self._asked(expression, negative=False)

    def _asked(self, expression: Expression, *, negative: bool) -> Expression:
        """An expression, or its opposite, of which only the truth matters."""
        make = self._catalyst.expressions
        name = simple_name(expression)
        if not _holds_in_predicate(expression):
            return make.Not(expression) if negative else expression
        if name == "Not":
            return self._asked(expression.child(), negative=not negative)
        if name in _OPPOSITE and negative:
            sides = [self._asked(side, negative=True) for side in children(expression)]
            return getattr(make, _OPPOSITE[name])(*sides)
        if name in _OPPOSITE:
            return self._over(expression, [self._asked(side, negative=False) for side in children(expression)])
        if name in _CHOICES:
            conditions = _conditions_of(expression)
            below = [
                self._asked(child, negative=negative and position not in conditions)
                for position, child in enumerate(children(expression))
            ]
            return self._over(expression, below)
        if name == "InSubquery":
            if negative and self._in_outer_join and not self.is_two_valued(expression):
                raise Refused(
                    [_unclear(expression, "in a join that keeps rows without a partner Spark takes it for true")]
                )
            plain = self._over(expression, [self._value(child) for child in children(expression)])
        else:
            plain = self._value(expression)
        return make.Not(plain) if negative else plain

    def _value(self, expression: Expression) -> Expression:
        """An expression whose null is a value of its own."""
        if not _holds_in_predicate(expression):
            return expression
        if simple_name(expression) == "InSubquery" and not self.is_two_valued(expression):
            raise Refused([_unclear(expression, "here a null is not the same as false")])
        conditions = _conditions_of(expression)
        below = [
            self._asked(child, negative=False) if position in conditions else self._value(child)
            for position, child in enumerate(children(expression))
        ]
        return self._over(expression, below)

    def _over(self, expression: Expression, below: Sequence[Expression]) -> Expression:
        if all(one is other for one, other in zip(below, children(expression), strict=True)):
            return expression
        return expression.withNewChildren(self._catalyst.seq(below))

    def _conditions_with_nulls(self, condition: Expression) -> Expression:
        """Conditions with those about whole relations last, after all others."""
        found: list[Expression] = []
        last: list[Expression] = []
        for part in conjuncts(condition):
            passes = self._passes(part)
            found.append(self._with_nulls(part) if passes is None else part)
            last += [] if passes is None else [passes]
        return self._catalyst.all_of([*found, *last])

    def _with_nulls(self, expression: Expression) -> Expression:
        passes = self._passes(expression)
        if passes is not None:
            return self._catalyst.expressions.And(expression, passes)
        if not _holds_in_predicate(expression):
            return expression
        return self._over(expression, [self._with_nulls(child) for child in children(expression)])

    def _passes(self, part: Expression) -> Expression | None:
        """What NOT IN asks of all rows of an uncorrelated subquery, or None."""
        if not is_not_in(part):
            return None
        in_predicate = part.child()
        values, query = items(in_predicate.values()), in_predicate.query()
        if len(values) > 1 or not query.outerAttrs().isEmpty() or self.is_two_valued(in_predicate):
            return None
        (value,), column = values, output_of(query.plan())[0]
        nulls = self._catalyst.named(from_template(self._catalyst, _NULLS, {"x": column}), "nulls")
        none = self._catalyst.companion("scala.None")
        one_row = self._catalyst.logical.Aggregate(
            self._catalyst.seq([]), self._catalyst.seq([nulls]), query.plan(), none
        )
        ids = self._catalyst.companion("org.apache.spark.sql.catalyst.expressions.NamedExpression")
        nothing = self._catalyst.seq([])
        single = self._catalyst.expressions.ScalarSubquery(one_row, nothing, ids.newExprId(), nothing, none, none, none)
        return from_template(self._catalyst, _PASSES, {"nulls": single, "x": value})

    def is_two_valued(self, in_predicate: Expression) -> bool:
        values, query = items(in_predicate.values()), in_predicate.query()
        inside = _inside(query)
        return all(
            self._is_present(value) and _never_null(self._catalyst, column, inside)
            for value, column in zip(values, output_of(query.plan()), strict=False)
        )

    def _is_present(self, value: Expression) -> bool:
        return _never_null(self._catalyst, value, [*self._known, *self._below])

    @cached_property
    def _below(self) -> list[Expression]:
        """What the rows of the node's children are known to obey."""
        return [each for child in children(self._node) for each in items(child.constraints().toSeq())]


def _unclear(in_predicate: Expression, why: str) -> InvalidQuery:
    return refusal(
        "not-in",
        f"{text_of(in_predicate)} is null where nulls leave it open, and {why}",
        at=in_predicate,
        hint="ask for it in WHERE or CASE WHEN .. THEN true ELSE false END, or keep nulls out: where .. is not null",
    )


def is_not_in(part: Expression) -> bool:
    """Whether an expression is a NOT IN of a settled node."""
    return simple_name(part) == "Not" and simple_name(part.child()) == "InSubquery"


def _holds_in_predicate(expression: Expression) -> bool:
    return any(simple_name(part) == "InSubquery" for part in walk_expression(expression))


def _conditions_of(expression: Expression) -> range:
    """The positions of the children of which only the truth matters."""
    below = len(children(expression))
    match simple_name(expression):
        case "CaseWhen":
            return range(0, below - 1, 2)
        case "If" | "CountIf":
            return range(1)
        case "AggregateExpression":
            return range(1, below)
        case "Coalesce" if _is_literal(children(expression)[-1], "False"):
            return range(below - 1)
        case "EqualNullSafe" if _is_literal(children(expression)[1], "True"):
            return range(1)
        case _:
            return range(0)


def _is_literal(expression: Expression, text: str) -> bool:
    return simple_name(expression) == "Literal" and str(expression.value()) == text


def _inside(query: Expression) -> list[Expression]:
    return items(query.plan().constraints().toSeq())


def _never_null(catalyst: Catalyst, value: Expression, known: list[Expression]) -> bool:
    if not value.nullable():
        return True
    if _keeps_non_null(catalyst, value) and _never_null(catalyst, value.child(), known):
        return True
    required = catalyst.expressions.IsNotNull(value)
    return any(each.semanticEquals(required) for each in known)


def _keeps_non_null(catalyst: Catalyst, value: Expression) -> bool:
    """Whether a cast makes null of null only: TRY_CAST and JSON casts do not."""
    if simple_name(value) != "Cast":
        return False
    non_null = catalyst.expressions.BoundReference(0, value.child().dataType(), False)
    return not value.withNewChildren(catalyst.seq([non_null])).nullable()
