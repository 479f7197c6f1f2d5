"""Constants that fail for every row, such as `1 / 0`.

Owns finding those which every row of the result meets, so that a query is refused when it is declared and not when its first row comes. Invariant:
only what is always computed counts: columns of the result and of what they are made of, keys of groups, and conditions on rows, down to
where something else decides whether a part is asked. Not here: rows that fail (`rows.failing_rows`), functions that never fail
(`never_failing`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from py4j.protocol import Py4JError
from pyspark.errors import IllegalArgumentException, PySparkException

from odfabric.errors import InvalidData, InvalidQuery
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
    simple_name,
    walk_plan,
    without_alias,
)
from odfabric_engine_spark.spark.failures import fails_by_value, spark_condition
from odfabric_engine_spark.sql.constants.constant_sizes import NotComputed, value_of
from odfabric_engine_spark.sql.refusal import data_problem, refusal, source_text, text_of

_ALWAYS_COMPUTED = frozenset({"Alias", "Cast", "EqualNullSafe", "Concat"})
"""What computes all its parts for each row, besides what gives null for null: that does so for each row with values there."""
_FOLDS = frozenset({"Sum", "Average", "Min", "Max"})
"""Aggregate functions that compute their argument for each row that they see."""

_OF_TIMES = frozenset({"DateFormatClass", "GetTimestamp", "UnixTimestamp", "ToUnixTimestamp", "FromUnixTime"})
"""Functions with a pattern of times."""
_SUBJECTS: Mapping[str, int] = {
    **dict.fromkeys(_OF_TIMES, 0),
    **dict.fromkeys(("FormatNumber", "Like", "LikeAny", "LikeAll", "NotLikeAny", "NotLikeAll", "RLike"), 0),
    **dict.fromkeys(("StringSplit", "StringToMap", "ElementAt", "Slice", "StructsToCsv"), 0),
    **dict.fromkeys(("FromUTCTimestamp", "ToUTCTimestamp"), 0),
    "ConvertTimezone": 2,
}
"""Functions that read or write a part, by its position, as the others say, which have to be constants."""
_BY_NAME: Mapping[str, int] = {"Encode": 0, "StringDecode": 0, "StructsToJson": 1}
"""The same of those that Spark puts a call of Java in the place of."""
_OF_EXPRESSIONS = frozenset({"RegExpReplace", "RegExpExtract", "RegExpExtractAll", "RegExpInStr"})
"""Functions with a regular expression as their second part, which may ask for a group where something is found."""
_PATTERN_FAILURES = frozenset(
    {
        *("INVALID_PARAMETER_VALUE", "INVALID_INDEX_OF_ZERO", "INVALID_REGEXP_REPLACE", "INVALID_FORMAT"),
        *("INCONSISTENT_BEHAVIOR_CROSS_VERSION", "INVALID_DATETIME_PATTERN", "INVALID_TIMEZONE"),
    }
)
"""What such constants do wrong whatever the rest is; Java's own complaints about patterns come without a condition."""
_SHIELDS = frozenset({"TryEval"})
"""What gives null for a part that fails, though it is said to give null for null only."""
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
        named = items(plan.aggregateExpressions()) if name == "Aggregate" else named
        if name == "Filter":
            self._always.append(conjuncts(plan.condition())[0])
        if name == "Aggregate":
            # A constant distinguishes no groups, and is not computed.
            self._always += [each for each in items(plan.groupingExpressions()) if not each.foldable()]
        if name == "Generate":
            self._always += children(plan.generator())
        self._made_by |= {expr_id(each): without_alias(each) for each in named if simple_name(each) == "Alias"}
        self._always += named if read else []
        for child in children(plan):
            self._add(child, read=read and name in (*_PASSED, "Filter", "Union"))

    def failing(self) -> Iterator[InvalidQuery]:
        for expression in self._always:
            yield from self._failing(expression, at=expression)

    def _failing(self, expression: Expression, *, at: Expression) -> Iterator[InvalidQuery]:
        """`at` is what the query wrote: an expression, or one that was replaced.

        What the optimizer puts another one in place of.
        """
        if self._catalyst.is_replaceable(expression):
            yield from self._failing(expression.replacement(), at=expression)
        elif is_attribute(expression):
            yield from self._made(expr_id(expression))
        elif expression.foldable():
            if (problem := _failure(expression)) is not None:
                at = _innermost(expression) or at
                hint = "no row can help: write another constant, or let it be null by try_cast(..), try_divide(..) or try_parse_json(..)"
                if "BOOLEAN" in problem and "||" in text_of(at):
                    hint = "|| joins texts: write OR"
                yield refusal("constant", f"{text_of(at)} fails for every row: {problem}", at=at, hint=hint)
        elif (problem := self._pattern_failure(expression, at)) is not None:
            message = f"{text_of(at)} fails for every row with a value there: {problem}"
            of_times = simple_name(expression) in _OF_TIMES
            hint = (
                "write patterns of times as yyyy-MM-dd HH:mm:ss"
                if of_times
                else "no row can help: write another constant"
            )
            yield refusal("constant", message, at=at, hint=hint)
        elif _computes_all(expression):
            for part in children(expression):
                yield from self._failing(part, at=part if source_text(part) else at)

    def _made(self, column: int) -> Iterator[InvalidQuery]:
        """Looks at what makes a column, the first time that it is read."""
        made_by = self._made_by.pop(column, None)
        if made_by is not None:
            yield from self._failing(made_by, at=made_by)

    def _pattern_failure(self, function: Expression, written: Expression) -> str | None:
        """Errors of a function's constants, found with a dummy in place of its input."""
        name, parts = simple_name(function), children(function)
        if name in _OF_EXPRESSIONS:
            sample = self._matching(parts[1])
        elif name == "FormatString":
            sample = self._with_samples(function, parts, range(1, len(parts)))
        else:
            subject = _SUBJECTS.get(name, _BY_NAME.get(simple_name(written)))
            sample = None if subject is None else self._with_samples(function, parts, [subject])
        return None if sample is None else _failure(sample, of_patterns=True)

    def _matching(self, pattern: Expression) -> Expression | None:
        """Whether a text fits a regular expression."""
        return self._catalyst.expressions.RLike(self._sample(pattern), pattern) if pattern.foldable() else None

    def _with_samples(
        self, function: Expression, parts: list[Expression], subjects: Collection[int]
    ) -> Expression | None:
        """A function with other values for its subjects.

        None if any other part is no constant.
        """
        if not all(part.foldable() or at in subjects for at, part in enumerate(parts)):
            return None
        try:
            sampled = [self._sample(part) if at in subjects else part for at, part in enumerate(parts)]
            return function.withNewChildren(self._catalyst.seq(sampled))
        except (Py4JError, PySparkException):
            return None  # a type that has no such value

    def _sample(self, part: Expression) -> Expression:
        literals = self._catalyst.companion("org.apache.spark.sql.catalyst.expressions.Literal")
        return literals.default(part.dataType())


def _computes_all(expression: Expression) -> bool:
    """Whether an expression always computes all its parts."""
    name = simple_name(expression)
    if name == "AggregateExpression":
        return expression.filter().isEmpty() and simple_name(expression.aggregateFunction()) in _FOLDS
    return name in _ALWAYS_COMPUTED | _FOLDS or (expression.nullIntolerant() and name not in _SHIELDS)


def at_failing_constant(error: BaseException, catalyst: Catalyst, plan: Plan) -> BaseException:
    """As `data_problem`; without Spark's place, that of a constant failing alike."""
    problem = data_problem(error)
    if not isinstance(problem, InvalidData) or problem.place.line is not None or problem is error:
        return problem
    wanted = spark_condition(error)
    for constant in _constants(catalyst, plan):
        try:
            value_of(constant.replacement() if catalyst.is_replaceable(constant) else constant)
        except (Py4JError, PySparkException) as found:
            if spark_condition(found) == wanted:
                place = refusal("constant", "", hint=None, at=constant).place
                return InvalidData(problem.message, place=replace(place, rule=None), hint=problem.hint)
        except NotComputed:
            continue
    return problem


def _constants(catalyst: Catalyst, plan: Plan) -> Iterator[Expression]:
    """The largest constants that a plan has written, in subqueries too."""
    plans = [plan]
    while plans:
        expressions = [each for node in walk_plan(plans.pop()) for each in expressions_of(node)]
        while expressions:
            each = expressions.pop()
            inside = inner_plan(each, simple_name(each))
            if inside is not None:
                plans.append(inside)
            if each.resolved() and each.foldable() and source_text(each):
                yield each
            else:
                expressions += children(each)


def _innermost(constant: Expression) -> Expression | None:
    """The smallest part of a constant that fails which the query has written.

    None if only the whole does.
    """
    failing = [part for part in children(constant) if part.foldable() and _failure(part) is not None]
    if not failing:
        return constant if source_text(constant) else None
    return _innermost(failing[0]) or (constant if source_text(constant) else None)


def _failure(constant: Expression, *, of_patterns: bool = False) -> str | None:
    """What is wrong with a constant, or with the patterns in it, if something is."""
    try:
        value_of(constant)
    except (Py4JError, PySparkException) as error:
        condition, message = spark_condition(error)
        # Other errors say that a part is not computed in this way.
        counts = condition in _PATTERN_FAILURES if of_patterns else fails_by_value(error)
        if of_patterns and condition is None:
            counts = isinstance(error, IllegalArgumentException)
        # What follows is advice about the value of a row.
        return message.partition(". ")[0].rstrip(".") if counts else None
    except NotComputed:
        return None
    return None
