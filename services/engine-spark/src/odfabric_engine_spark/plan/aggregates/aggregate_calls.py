"""Aggregate functions as a query states them.

Owns reading `sum(x) FILTER (WHERE ..)` and its like from a plan: function, input, result type; and which of them have exact
accumulators (`aggregate_functions`). All others are computed over the rows of their group. Source: docs/engine.md#exact-aggregates.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from odfabric_engine_spark.arrays.percentile_ranks import Rank
from odfabric_engine_spark.plan.aggregates.percentile_calls import PERCENTILES, has_ranks, ranks_of
from odfabric_engine_spark.plan.arrow_types import arrow_type
from odfabric_engine_spark.plan.group_keys import GroupColumn, can_be_key
from odfabric_engine_spark.plan.time.tumbling_and_hopping_windows import is_window_column
from odfabric_engine_spark.spark.catalyst.plan_nodes import (
    Catalyst,
    Expression,
    Plan,
    children,
    items,
    simple_name,
    walk_expression,
)
from odfabric_engine_spark.sql.refusal import name_of, text_of

_INTEGERS = frozenset({"byte", "short", "integer", "long"})
_FLOATS = frozenset({"float", "double"})
_ORDERED = _INTEGERS | _FLOATS | {"boolean", "string", "binary", "date", "timestamp", "timestamp_ntz"}


class AggregateFunction(Enum):
    """Aggregate functions with exact accumulators."""

    COUNT = "count"
    COUNT_DISTINCT = "count distinct"
    SUM = "sum"
    AVG = "avg"
    MIN = "min"
    MAX = "max"
    PERCENTILE = "percentile"


_FUNCTIONS = {
    "Count": AggregateFunction.COUNT,
    "CountIf": AggregateFunction.COUNT,
    "Sum": AggregateFunction.SUM,
    "Average": AggregateFunction.AVG,
    "Min": AggregateFunction.MIN,
    "Max": AggregateFunction.MAX,
    "BoolAnd": AggregateFunction.MIN,
    "BoolOr": AggregateFunction.MAX,
    "Median": AggregateFunction.PERCENTILE,
    "Percentile": AggregateFunction.PERCENTILE,
    "PercentileCont": AggregateFunction.PERCENTILE,
    "PercentileDisc": AggregateFunction.PERCENTILE,
}


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """One use of a function.

    `input` is its position among the query's inputs, None for a count of rows.

    `lenient`: an overflow gives null (try_sum) instead of failing. `result` is Spark's name of the result type. `ranks` are those of percentiles,
    which are `listed` where a list of them is asked for.
    """

    function: AggregateFunction
    input: int | None
    result: str
    lenient: bool
    text: str
    ranks: tuple[Rank, ...] = ()
    listed: bool = False


class CallReader:
    """Reads calls and gathers their inputs; equal inputs are kept once.

    `rows_alone`: a count of rows has no input. Otherwise it counts a constant, so that a row without inputs is not counted.
    """

    def __init__(self, catalyst: Catalyst, *, rows_alone: bool = True) -> None:
        self._catalyst = catalyst
        self._rows_alone = rows_alone
        self.inputs: list[Expression] = []

    def read(self, expression: Expression) -> AggregateCall:
        """The call of an AggregateExpression that `has_accumulator`."""
        function = expression.aggregateFunction()
        kind = _FUNCTIONS[simple_name(function)]
        if kind is AggregateFunction.COUNT and expression.isDistinct():
            kind = AggregateFunction.COUNT_DISTINCT
        return AggregateCall(
            function=kind,
            input=self._input(expression, function),
            result=str(expression.dataType().json()).strip('"'),
            lenient=str(function.prettyName()).startswith("try_"),
            text=text_of(expression),
            ranks=ranks_of(function) if kind is AggregateFunction.PERCENTILE else (),
            listed=str(expression.dataType().typeName()) == "array",
        )

    def _input(self, expression: Expression, function: Expression) -> int | None:
        """The input, null where the filter excludes the row: functions ignore nulls."""
        make = self._catalyst.expressions
        arguments = children(function)
        conditions = [expression.filter().get()] if expression.filter().isDefined() else []
        if simple_name(function) == "CountIf":
            conditions, arguments = [*conditions, *arguments], []
        elif simple_name(function) == "Count" and expression.isDistinct():
            if len(arguments) > 1:
                conditions += [make.IsNotNull(argument) for argument in arguments if argument.nullable()]
                arguments = [self._catalyst.struct(arguments)]
        elif simple_name(function) == "Count":
            conditions += [make.IsNotNull(argument) for argument in arguments if argument.nullable()]
            arguments = []
        elif simple_name(function) in PERCENTILES:
            arguments = arguments[:1]
        if not conditions and not arguments and self._rows_alone:
            return None
        value = arguments[0] if arguments else self._catalyst.literal_true()
        if conditions:
            condition = conditions[0]
            for further in conditions[1:]:
                condition = make.And(condition, further)
            value = make.If(condition, value, self._catalyst.null_literal(value.dataType()))
        return self._position(value)

    def _position(self, value: Expression) -> int:
        for position, known in enumerate(self.inputs):
            if known.semanticEquals(value):
                return position
        self.inputs.append(value)
        return len(self.inputs) - 1


def has_accumulator(expression: Expression) -> bool:
    """Whether exact statistics keep an AggregateExpression, without its rows."""
    function = expression.aggregateFunction()
    name, arguments = simple_name(function), children(function)
    if name not in _FUNCTIONS:
        return False
    if name == "Count" and expression.isDistinct():
        return _can_be_told_apart(arguments)
    if expression.isDistinct() and name not in ("Min", "Max"):
        return False
    if name in ("Count", "CountIf", "BoolAnd", "BoolOr"):
        return True
    type_name = str(arguments[0].dataType().typeName())
    if name in PERCENTILES:
        return type_name in _INTEGERS | _FLOATS and has_ranks(function)
    known = _INTEGERS | _FLOATS if name in ("Sum", "Average") else _ORDERED
    return type_name in known or type_name.startswith("decimal")


def _can_be_told_apart(values: Sequence[Expression]) -> bool:
    """Whether equal values have equal bytes.

    Several are one struct, in which zeros of both signs are two.
    """
    several = len(values) > 1
    return all(can_be_key(each) and not (several and str(each.dataType().typeName()) in _FLOATS) for each in values)


def calls_of(aggregate: Plan) -> Iterator[Expression]:
    """The uses of aggregate functions in an aggregate, from left to right."""
    for named in items(aggregate.aggregateExpressions()):
        yield from (part for part in walk_expression(named) if simple_name(part) == "AggregateExpression")


def group_columns(aggregate: Plan) -> Iterator[GroupColumn]:
    """The grouping expressions of an aggregate as columns of its groups."""
    for index, expression in enumerate(items(aggregate.groupingExpressions())):
        is_window, nullable = is_window_column(expression), bool(expression.nullable())
        label = "" if expression.foldable() else name_of(expression)
        yield GroupColumn(f"key{index}", arrow_type(expression), is_window, label, expression, nullable)
