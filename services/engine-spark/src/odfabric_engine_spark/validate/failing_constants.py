"""Constants that fail: `1 / 0`, a text that is no number compared with one, a pattern that is none.

Owns finding those which every row of the result meets, so that a query is refused when it is declared and not when its first row comes. Invariant:
only what is always computed counts: columns of the result and of what they are made of, keys of groups, and conditions on rows, down to
where something else decides whether a part is asked. Not here: rows that fail (`incremental.failed_rows`), functions that never fail
(`never_failing`).
"""

from __future__ import annotations

from collections.abc import Iterator

from py4j.protocol import Py4JError
from pyspark.errors import IllegalArgumentException, PySparkException

from odfabric.errors import InvalidQuery
from odfabric_engine_spark.catalyst import (
    Catalyst,
    Expression,
    Plan,
    children,
    conjuncts,
    expr_id,
    is_attribute,
    items,
    simple_name,
    without_alias,
)
from odfabric_engine_spark.failures import spark_condition
from odfabric_engine_spark.validate.refusal import refusal, source_text, text_of
from odfabric_engine_spark.validate.sizes_of_constants import NotComputed, value_of

_ALWAYS_COMPUTED = frozenset({"Alias", "Cast", "IsNull", "IsNotNull", "EqualNullSafe", "Concat"})
"""What computes all its parts for each row, besides what gives null for null: that does so for each row with values there."""
_FAILURES = frozenset(
    {"DIVIDE_BY_ZERO", "REMAINDER_BY_ZERO", "CAST_INVALID_INPUT", "CAST_OVERFLOW", "ARITHMETIC_OVERFLOW"}
)
"""What values do wrong. Other errors say that a part is not computed in this way."""

_PATTERNED = frozenset(
    {
        *("DateFormatClass", "GetTimestamp", "UnixTimestamp", "ToUnixTimestamp", "FromUnixTime", "FormatNumber"),
        *("Like", "LikeAny", "LikeAll", "NotLikeAny", "NotLikeAll", "RLike", "StringSplit", "StringToMap"),
        *("RegExpReplace", "RegExpExtract", "RegExpExtractAll", "RegExpInStr", "FormatString"),
        *("ElementAt", "Elt", "Slice", "ArrayInsert", "FromUTCTimestamp", "ToUTCTimestamp", "ConvertTimezone"),
        *("StaticInvoke", "Invoke", "StructsToCsv"),  # encode, aes_encrypt, to_json and their like
    }
)
"""Functions of which constants say how they read or write the rest."""
_PATTERN_FAILURES = frozenset(
    {
        *("INVALID_PARAMETER_VALUE", "INVALID_INDEX_OF_ZERO", "INVALID_REGEXP_REPLACE", "INVALID_FORMAT"),
        *("INCONSISTENT_BEHAVIOR_CROSS_VERSION", "INVALID_DATETIME_PATTERN", "INVALID_TIMEZONE"),
    }
)
"""What such constants do wrong whatever the rest is; Java's own complaints about patterns come without a condition."""
_PASSED = frozenset({"SubqueryAlias", "View", "PipeOperator", "Sort", "GlobalLimit", "LocalLimit", "Distinct"})
"""What gives the columns of the plan below it."""


def failing_constants(catalyst: Catalyst, plan: Plan) -> Iterator[InvalidQuery]:
    """A refusal for each constant that fails for all rows of a plan."""
    if simple_name(plan) == "WithCTE":
        plan = catalyst.with_inlined_ctes(plan)
    yield from _Computed(catalyst, plan).failing()


class _Computed:
    """What all rows of a plan compute, and what makes the columns that this reads."""

    def __init__(self, catalyst: Catalyst, plan: Plan) -> None:
        self._catalyst = catalyst
        self._made_by: dict[int, Expression] = {}
        self._always: list[Expression] = []
        self._add(plan, read=True)

    def _add(self, plan: Plan, *, read: bool) -> None:
        """Takes a plan in; `read`: all its columns are those of the result."""
        name = simple_name(plan)
        named = items(plan.projectList()) if name == "Project" else []
        if name == "Filter":
            self._always.append(conjuncts(plan.condition())[0])
        if name == "Aggregate":
            self._always += items(plan.groupingExpressions())
        self._made_by |= {expr_id(each): without_alias(each) for each in named if simple_name(each) == "Alias"}
        self._always += named if read else []
        for child in children(plan):
            self._add(child, read=read and name in (*_PASSED, "Filter", "Union"))

    def failing(self) -> Iterator[InvalidQuery]:
        for expression in self._always:
            yield from self._failing(expression, at=expression)

    def _failing(self, expression: Expression, *, at: Expression) -> Iterator[InvalidQuery]:
        """`at` is what the query has written: an expression, or what the optimizer puts another one in place of."""
        if self._catalyst.is_replaceable(expression):
            yield from self._failing(expression.replacement(), at=expression)
        elif is_attribute(expression):
            yield from self._made(expr_id(expression))
        elif expression.foldable():
            if (problem := _failure(expression)) is not None:
                hint = "no row can help: write another constant, or let it be null by try_cast(..) or try_divide(..)"
                yield refusal("constant", f"{text_of(at)} fails for every row: {problem}", at=at, hint=hint)
        elif (problem := self._pattern_failure(expression)) is not None:
            message = f"{text_of(at)} fails for every row with a value there: {problem}"
            yield refusal("constant", message, at=at, hint="no row can help: write another constant")
        elif simple_name(expression) in _ALWAYS_COMPUTED or expression.nullIntolerant():
            for part in children(expression):
                yield from self._failing(part, at=part if source_text(part) else at)

    def _made(self, column: int) -> Iterator[InvalidQuery]:
        """Looks at what makes a column, the first time that it is read."""
        made_by = self._made_by.pop(column, None)
        if made_by is not None:
            yield from self._failing(made_by, at=made_by)

    def _pattern_failure(self, function: Expression) -> str | None:
        """What is wrong with the constants of a function, found by values of no account in the place of all others."""
        if simple_name(function) not in _PATTERNED:
            return None
        parts = children(function)
        literals = self._catalyst.companion("org.apache.spark.sql.catalyst.expressions.Literal")
        try:
            sample = [part if part.foldable() else literals.default(part.dataType()) for part in parts]
            of_no_account = function.withNewChildren(self._catalyst.seq(sample))
        except Py4JError:
            return None  # a type that has no such value
        return _failure(of_no_account, of_patterns=True)


def _failure(constant: Expression, *, of_patterns: bool = False) -> str | None:
    """What is wrong with a constant, or with the patterns in it, if something is."""
    try:
        value_of(constant)
    except (Py4JError, PySparkException) as error:
        condition, message = spark_condition(error)
        counts = condition in (_PATTERN_FAILURES if of_patterns else _FAILURES)
        if of_patterns and condition is None:
            counts = isinstance(error, IllegalArgumentException)
        # What follows is advice about the value of a row.
        return message.partition(". ")[0].rstrip(".") if counts else None
    except NotComputed:
        return None
    return None
