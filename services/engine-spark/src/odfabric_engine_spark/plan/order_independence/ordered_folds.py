"""Statistical moments of floats as folds over sorted values.

Owns the way from an aggregate function that Spark computes value by value - variances, skewness, correlation, regression - to the
same computation over a sorted list: initial values, update and result are Spark's own expressions. Invariant: the result is a
function of the multiset of values, bit by bit, and is Spark's wherever Spark would see one partition in that order.
Not here: sums and averages, which functions are folded (`order_independent_aggregates`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from odfabric_engine_spark.spark.catalyst.plan_nodes import (
    Attribute,
    Catalyst,
    Expression,
    children,
    expr_id,
    is_attribute,
    items,
    simple_name,
)
from odfabric_engine_spark.spark.catalyst.plan_rebuild import map_expression
from odfabric_engine_spark.spark.catalyst.sql_templates import from_template

_TOTAL, _EACH = "total", "each"
_NAMES = frozenset({"UnresolvedAttribute", "UnresolvedNamedLambdaVariable"})
"""What the parser makes of a name, outside and inside of a lambda function."""


def folded(catalyst: Catalyst, function: Expression, *, condition: Expression | None, distinct: bool) -> Expression:
    """A function as a fold over its inputs that pass its FILTER."""
    return folded_list(catalyst, function, listed(catalyst, function, condition=condition, distinct=distinct))


def listed(catalyst: Catalyst, function: Expression, *, condition: Expression | None, distinct: bool) -> Expression:
    """The aggregate function that lists inputs passing a condition, as structs."""
    inputs = {f"x{position}": each for position, each in enumerate(children(function))}
    members = ", ".join(f"'{name}', {name}" for name in inputs)
    row = f"named_struct({members})"
    if condition is not None:
        row, inputs = f"if(counted, {row}, null)", {**inputs, "counted": condition}
    return from_template(catalyst, f"collect_list({'distinct ' if distinct else ''}{row})", inputs)


def folded_list(catalyst: Catalyst, function: Expression, values: Expression) -> Expression:
    """A function as a fold over what `listed` makes of its inputs."""
    inputs = children(function)
    names = [f"x{position}" for position in range(len(inputs))]
    columns = [_column(catalyst, name, each) for name, each in zip(names, inputs, strict=True)]
    fold = function.withNewChildren(catalyst.seq(columns))
    of_row = {expr_id(column): [_EACH, name] for column, name in zip(columns, names, strict=True)}
    buffer = items(fold.aggBufferAttributes())
    of_total = {expr_id(each): [_TOTAL, f"b{position}"] for position, each in enumerate(buffer)}
    parts = {f"i{position}": each for position, each in enumerate(items(fold.initialValues()))}
    for position, update in enumerate(items(fold.updateExpressions())):
        parts[f"u{position}"] = _of_variables(catalyst, update, {**of_row, **of_total})
    parts["result"] = _of_variables(catalyst, fold.evaluateExpression(), of_total)
    unresolved = map_expression(
        catalyst, catalyst.parse_expression(fold_text(len(buffer))), lambda part: _of_parts(part, parts)
    )
    return from_template(catalyst, unresolved, {"values": values})


def fold_text(width: int) -> str:
    start = ", ".join(f"'b{position}', i{position}" for position in range(width))
    update = ", ".join(f"'b{position}', u{position}" for position in range(width))
    return (
        f"aggregate(sort_array(values), named_struct({start}), "
        f"({_TOTAL}, {_EACH}) -> named_struct({update}), {_TOTAL} -> result)"
    )


def _column(catalyst: Catalyst, name: str, like: Expression) -> Attribute:
    return catalyst.named(catalyst.null_literal(like.dataType()), name).toAttribute()


def _of_variables(catalyst: Catalyst, expression: Expression, variables: Mapping[int, Sequence[str]]) -> Expression:
    """An expression with columns read from the variables of a lambda function."""

    def replace(part: Expression) -> Expression | None:
        if not is_attribute(part):
            return None
        return catalyst.expressions.UnresolvedNamedLambdaVariable(catalyst.seq(variables[expr_id(part)]))

    return map_expression(catalyst, expression, replace)


def _of_parts(part: Expression, parts: Mapping[str, Expression]) -> Expression | None:
    return parts.get(str(part.name())) if simple_name(part) in _NAMES else None
