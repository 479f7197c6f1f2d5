"""Expressions that have a value for every row.

Owns the list of them. Invariant: what is on it raises on no row; whether a query may rely on that is decided elsewhere. Not here: which
functions are allowed (`allowed_functions`).
"""

from __future__ import annotations

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from odfabric_engine_spark.spark.catalyst.plan_nodes import Catalyst, Expression, simple_name, walk_expression
from odfabric_engine_spark.sql.constants.constant_sizes import NotComputed, value_of

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
        "KnownFloatingPointNormalized",
        "LambdaFunction",
        "LessThan",
        "LessThanOrEqual",
        "Literal",
        "Lower",
        "NamedLambdaVariable",
        "NormalizeNaNAndZero",
        "Not",
        "NullIf",
        "Or",
        "StartsWith",
        "Upper",
        "With",
        "XxHash64",
    ]
)
"""Expressions that have a value for everything."""


def never_fails(catalyst: Catalyst, expression: Expression) -> bool:
    """Whether an expression, with all below it, fails on no row."""
    return all(_has_a_value(catalyst, each) for each in walk_expression(expression))


def _has_a_value(catalyst: Catalyst, node: Expression) -> bool:
    name = simple_name(node)
    if name in _NEVER_FAILING or (name == "Cast" and _keeps_every_value(catalyst, node)):
        return True
    return bool(node.foldable()) and _can_be_folded(node)


def _keeps_every_value(catalyst: Catalyst, cast: Expression) -> bool:
    """Whether a cast is to a type that holds every value.

    Of times Spark takes that to be so of days that have none.
    """
    given, wanted = cast.child().dataType(), cast.dataType()
    casts = catalyst.companion("org.apache.spark.sql.catalyst.expressions.Cast")
    return bool(casts.canUpCast(given, wanted)) and str(given.typeName()) != "date"


def _can_be_folded(constant: Expression) -> bool:
    """Whether a constant has a value.

    One that has none fails on the rows that come to it: in a branch perhaps on some only.
    """
    try:
        value_of(constant)
    except (PySparkException, Py4JError, NotComputed):
        return False
    return True
