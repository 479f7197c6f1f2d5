"""Aggregate functions that add floats, and one zero for those that compare them.

Owns both lists of functions. Invariant: a function that is on neither gives the same for any order of its rows. Not here: what
is done about it (`order_independent_aggregates`, `window_functions`).
"""

from __future__ import annotations

from odfabric_engine_spark.spark.catalyst.plan_nodes import Catalyst, Expression, children, simple_name
from odfabric_engine_spark.sql.row_order_dependence import MOMENTS, SUMS, holds_floats

AVERAGES = frozenset({"Average", "TryAverage"})
REPLACED = frozenset({"RegrAvgX", "RegrAvgY", "RegrSXX", "RegrSYY"})
"""Functions that Spark computes as others: averages and sums of squares of the rows that have both values."""

FOLDED = (MOMENTS - REPLACED) | {"RegrReplacement"}
"""Functions that Spark computes value by value from doubles."""

_COMPARING = frozenset({"Min", "Max", "Percentile", "PercentileCont", "PercentileDisc", "Median", "CollectList"})


def is_float_sum(call: Expression) -> bool:
    """Whether an AggregateExpression adds floating point numbers.

    An average that a regression has of decimals is a decimal.
    """
    function = call.aggregateFunction()
    name = simple_name(function)
    if name in REPLACED:
        return str(function.dataType().typeName()) == "double"
    return name in FOLDED or (name in SUMS and holds_floats(children(function)[0]))


def with_one_zero(catalyst: Catalyst, function: Expression) -> Expression:
    """An aggregate function that meets one zero and one NaN where it compares values.

    Others as they are.
    """
    if simple_name(function) not in _COMPARING:
        return function
    value, *rest = children(function)
    normal = one_zero(catalyst, value)
    return function if normal is value else function.withNewChildren(catalyst.seq([normal, *rest]))


def one_zero(catalyst: Catalyst, value: Expression) -> Expression:
    """A value in which -0.0 is 0.0, and NaN has one form.

    What holds no floats is the very same expression.
    """
    if not holds_floats(value):
        return value
    return catalyst.companion("org.apache.spark.sql.catalyst.optimizer.NormalizeFloatingNumbers").normalize(value)
