"""Expressions that have a value for every row.

Owns the list of them. Invariant: what is on it raises on no row; whether a query may rely on that is decided elsewhere. Not here: which
functions are allowed (`functions`).
"""

from __future__ import annotations

from odfabric_engine_spark.catalyst import Catalyst, Expression, simple_name, walk_expression

_NEVER_FAILING = frozenset(
    [
        "And",
        "AttributeReference",
        "Between",
        "CaseWhen",
        "Coalesce",
        "CommonExpressionDef",
        "CommonExpressionRef",
        "Contains",
        "CreateNamedStruct",
        "EndsWith",
        "EqualNullSafe",
        "EqualTo",
        "GetStructField",
        "GreaterThan",
        "GreaterThanOrEqual",
        "If",
        "In",
        "IsNaN",
        "IsNotNull",
        "IsNull",
        "LambdaFunction",
        "LessThan",
        "LessThanOrEqual",
        "Literal",
        "Lower",
        "NamedLambdaVariable",
        "Not",
        "NullIf",
        "Or",
        "StartsWith",
        "Upper",
        "With",
    ]
)
"""Expressions that have a value for everything."""


def never_fails(catalyst: Catalyst, expression: Expression) -> bool:
    """Whether an expression, with all below it, fails on no row."""
    return all(_has_a_value(catalyst, each) for each in walk_expression(expression))


def _has_a_value(catalyst: Catalyst, node: Expression) -> bool:
    if node.foldable():
        return True  # or it fails whatever the rows are
    if simple_name(node) != "Cast":
        return simple_name(node) in _NEVER_FAILING
    casts = catalyst.companion("org.apache.spark.sql.catalyst.expressions.Cast")
    return bool(casts.canUpCast(node.child().dataType(), node.dataType()))
