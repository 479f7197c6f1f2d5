"""Scalar subqueries: one value, and an error for a second row.

Owns the form of a value whose subquery may find several rows: an aggregate of its rows, and an error where the value is read, if
they are several. Invariant: what leaves here has one row at most by construction, and none but a row that reads the value can
fail for it: the error gives a value of that row, so no rule of Spark can compute it before rows have met. It is the data that
is wrong then, as in a plain query. Not here: how the aggregate is joined (`decorrelation`).
"""

from __future__ import annotations

from collections.abc import Iterator

from odfabric.errors import InvalidQuery
from odfabric_engine_spark.plan.limit_offset import takes_one
from odfabric_engine_spark.plan.order_independence.window_functions import unordered_columns
from odfabric_engine_spark.spark.catalyst.plan_nodes import (
    Catalyst,
    Expression,
    Plan,
    children,
    conjuncts,
    expr_id,
    is_attribute,
    items,
    output_of,
    simple_name,
    walk_expression,
    without_alias,
)
from odfabric_engine_spark.spark.catalyst.plan_rebuild import map_expressions, subqueries_of
from odfabric_engine_spark.spark.catalyst.sql_templates import from_template
from odfabric_engine_spark.sql.refusal import Refused, refusal, text_of

_ROW_KEEPING = frozenset({"Project", "Filter"})
_FOUND = "if(count(1) = 0, null, named_struct('value', max(value), 'number', count(1)))"
"""Null without rows, as the value is: Spark joins such an aggregate without asking for its value there."""
_VALUE = "if(found.number > 1, raise_error({message}), found.value)"
_MESSAGE = "concat(told, coalesce(name || cast(row as string), ''))"


def with_single_values(catalyst: Catalyst, node: Plan) -> Plan:
    """The node, in which values of subqueries have one row at most.

    Raises Refused for values that cannot be compared.
    """
    problems = list(_problems(catalyst, node))
    if problems:
        raise Refused(problems)

    def replace(part: Expression) -> Expression | None:
        return _checked(catalyst, part) if _may_have_several(part) else None

    return map_expressions(catalyst, node, replace)


def _checked(catalyst: Catalyst, part: Expression) -> Expression:
    """A value that fails where it is read and the subquery has found several rows."""
    column = output_of(part.plan())[0]
    found = catalyst.named(from_template(catalyst, _FOUND, {"value": column}), str(column.name()))
    none = catalyst.companion("scala.None")
    one_row = catalyst.logical.Aggregate(catalyst.seq([]), catalyst.seq([found]), part.plan(), none)
    literal = catalyst.companion("org.apache.spark.sql.catalyst.expressions.Literal").apply
    operands = {"found": part.withNewPlan(one_row), "told": literal(f"more than one row in {text_of(part)}")}
    if part.outerAttrs().isEmpty():
        return from_template(catalyst, _VALUE.format(message="told"), operands)
    row = items(part.outerAttrs())[0]
    operands |= {"row": row, "name": literal(f", for {row.name()} = ")}
    return from_template(catalyst, _VALUE.format(message=_MESSAGE), operands)


def _may_have_several(part: Expression) -> bool:
    return simple_name(part) == "ScalarSubquery" and not _has_one_row(part.plan())


def _problems(catalyst: Catalyst, node: Plan) -> Iterator[InvalidQuery]:
    for part in subqueries_of(catalyst, node):
        if _may_have_several(part) and unordered_columns(catalyst, part.plan()):
            yield refusal(
                "subquery-rows",
                f"{text_of(part)} can have more than one row, and its values cannot be compared",
                at=part,
                hint="take one: (select .. order by .. limit 1)",
            )


def _has_one_row(plan: Plan) -> bool:
    """Whether a plan has at most one row by construction."""
    if takes_one(plan):
        return True
    while simple_name(plan) in _ROW_KEEPING:
        (plan,) = children(plan)
    if simple_name(plan) == "Aggregate":
        (below,) = children(plan)
        return all(_is_one_value(group, below) for group in items(plan.groupingExpressions()))
    return simple_name(plan) == "OneRowRelation"


def _is_one_value(column: Expression, plan: Plan) -> bool:
    """Whether a plan's column has one value per outer row, that of the outside."""
    while simple_name(plan) in _ROW_KEEPING and is_attribute(column):
        if simple_name(plan) == "Filter" and any(_fixes(part, column) for part in conjuncts(plan.condition())):
            return True
        if simple_name(plan) == "Project":
            named = next((each for each in items(plan.projectList()) if expr_id(each) == expr_id(column)), column)
            column = without_alias(named)
        (plan,) = children(plan)
    return bool(column.foldable())


def _fixes(condition: Expression, column: Expression) -> bool:
    """Whether a condition equates a column with nothing of its own relation."""
    if simple_name(condition) not in ("EqualTo", "EqualNullSafe"):
        return False
    sides = children(condition)
    return any(
        one.semanticEquals(column) and not any(is_attribute(part) for part in walk_expression(other))
        for one, other in (sides, sides[::-1])
    )
