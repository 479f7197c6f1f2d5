"""Sums and lists over RANGE frames, such as the last hour.

Owns the exact form of sums, averages and moments of floating point numbers, and of lists: the values of a frame as a list, put in ascending
order above the window. Invariant: the result is a function of the multiset of values in the frame, bit by bit.
Not here: frames of rows and sums from the first row on, which take the rows in the window's order (`window_functions`); groups
(`order_independent_aggregates`).
"""

from __future__ import annotations

from collections.abc import Callable

from odfabric_engine_spark.plan.order_independence.float_functions import AVERAGES, FOLDED, REPLACED, one_zero
from odfabric_engine_spark.plan.order_independence.ordered_folds import folded_list, listed
from odfabric_engine_spark.plan.order_independence.window_functions import folds_frame, window
from odfabric_engine_spark.spark.catalyst.plan_nodes import (
    Catalyst,
    Expression,
    Plan,
    children,
    items,
    output_of,
    simple_name,
)
from odfabric_engine_spark.spark.catalyst.sql_templates import from_template
from odfabric_engine_spark.sql.row_order_dependence import LISTS

_SORTED = "sort_array(value)"
_LIST = "collect_list(cast(value as double))"
SUM_OF_LIST = "aggregate({values}, cast(null as double), (total, each) -> coalesce(total, 0D) + each)"
"""From zero on, as Spark has it: what adds up to -0.0 is 0.0."""
AVERAGE_OF_LIST = SUM_OF_LIST + " / nullif(size({values}), 0)"


def with_values_in_order(catalyst: Catalyst, node: Plan) -> Plan:
    """A Window node that lists such frames' values, and their results above it."""
    all_named = items(node.windowExpressions())
    if not any(folds_frame(named.child()) for named in all_named):
        return node
    (below,) = children(node)
    computed: list[Expression] = []
    columns: list[Expression] = [*output_of(below)]
    for named in all_named:
        if not folds_frame(named.child()):
            computed.append(named)
            columns.append(named.toAttribute())
            continue
        values, fold = _listed(catalyst, named.child().windowFunction())
        over = catalyst.expressions.WindowExpression(values, named.child().windowSpec())
        computed.append(catalyst.named(over, "values"))
        columns.append(catalyst.named(fold(computed[-1].toAttribute()), str(named.name()), like=named))
    over_rows = window(catalyst, computed, items(node.partitionSpec()), items(node.orderSpec()), below)
    return catalyst.logical.Project(catalyst.seq(columns), over_rows)


def _listed(catalyst: Catalyst, call: Expression) -> tuple[Expression, Callable[[Expression], Expression]]:
    """The function that lists what a call adds or lists, and the list's result."""
    function = call.aggregateFunction()
    if simple_name(function) in LISTS:
        return call, lambda members: from_template(catalyst, _SORTED, {"value": members})
    if simple_name(function) in REPLACED:
        function = function.replacement()
    condition = call.filter().get() if call.filter().isDefined() else None
    if simple_name(function) in FOLDED:
        function = function.withNewChildren(catalyst.seq([one_zero(catalyst, each) for each in children(function)]))
        values = listed(catalyst, function, condition=condition, distinct=False)
        return values, lambda members: folded_list(catalyst, function, members)
    (value,) = children(function)
    if condition is not None:
        value = catalyst.expressions.If(condition, value, catalyst.null_literal(value.dataType()))
    text = AVERAGE_OF_LIST if simple_name(function) in AVERAGES else SUM_OF_LIST
    added = text.replace("{values}", _SORTED)
    values = from_template(catalyst, _LIST, {"value": value})
    return values, lambda members: from_template(catalyst, added, {"value": members})
