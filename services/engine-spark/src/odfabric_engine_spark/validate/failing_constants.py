"""Constants that fail: `1 / 0`, or a text that is no number compared with one.

Owns finding those which every row of the result meets, so that a query is refused when it is declared and not when its first row comes. Invariant:
only what is always computed counts: columns of the result and conditions on its rows, down to where something else decides
whether a part is asked. Not here: rows that fail (`incremental.failed_rows`), functions that never fail (`never_failing`).
"""

from __future__ import annotations

from collections.abc import Iterator

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from odfabric.errors import InvalidQuery
from odfabric_engine_spark.catalyst import Expression, Plan, children, conjuncts, items, simple_name
from odfabric_engine_spark.failures import spark_condition
from odfabric_engine_spark.validate.refusal import refusal, text_of
from odfabric_engine_spark.validate.sizes_of_constants import NotComputed, value_of

_ALWAYS_COMPUTED = frozenset(
    {
        *("Alias", "Cast", "Not", "UnaryMinus", "IsNull", "IsNotNull"),
        *("Add", "Subtract", "Multiply", "Divide", "IntegralDivide", "Remainder"),
        *("EqualTo", "EqualNullSafe", "LessThan", "LessThanOrEqual", "GreaterThan", "GreaterThanOrEqual"),
    }
)
"""What computes all its parts for each row, or for each that has a value there."""
_NAMES = frozenset({"SubqueryAlias", "View"})
_FAILURES = frozenset(
    {"DIVIDE_BY_ZERO", "REMAINDER_BY_ZERO", "CAST_INVALID_INPUT", "CAST_OVERFLOW", "ARITHMETIC_OVERFLOW"}
)
"""What values do wrong. Other errors say that a part is not computed in this way."""


def failing_constants(plan: Plan) -> Iterator[InvalidQuery]:
    """A refusal for each constant that fails for all rows of a plan's result."""
    while simple_name(plan) in _NAMES:
        (plan,) = children(plan)
    if simple_name(plan) == "Project":
        for named in items(plan.projectList()):
            yield from _failing(named)
        (plan,) = children(plan)
    while simple_name(plan) in _NAMES:
        (plan,) = children(plan)
    if simple_name(plan) == "Filter":
        yield from _failing(conjuncts(plan.condition())[0])


def _failing(expression: Expression) -> Iterator[InvalidQuery]:
    if expression.foldable():
        problem = _failure(expression)
        if problem is not None:
            hint = "no row can help: write another constant, or let it be null by try_cast(..) or try_divide(..)"
            yield refusal("constant", f"{text_of(expression)} fails for every row: {problem}", at=expression, hint=hint)
        return
    if simple_name(expression) in _ALWAYS_COMPUTED:
        for part in children(expression):
            yield from _failing(part)


def _failure(constant: Expression) -> str | None:
    try:
        value_of(constant)
    except (Py4JError, PySparkException) as error:
        condition, message = spark_condition(error)
        # What follows is advice about the value of a row.
        return message.partition(". ")[0].rstrip(".") if condition in _FAILURES else None
    except NotComputed:
        return None
    return None
