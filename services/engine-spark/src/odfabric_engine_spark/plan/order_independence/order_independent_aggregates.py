"""Rewrite aggregates whose result would depend on the order of rows.

Owns their exact meaning: sums, averages and moments of floating point numbers take the values in ascending order, functions that
compare know one zero and one NaN, ties are broken (`tie_breaking`). Invariant: the result is a function of the multiset of values, bit
by bit, so any slicing and any number of cores gives the same. Not here: the order of rows in windows (`window_functions`),
accumulators (`plan.aggregates.aggregate_calls`). Source: docs/engine.md#operator-classes; docs/engine.md#exact-aggregates.
"""

from __future__ import annotations

from odfabric_engine_spark.plan.aggregates.accumulable import can_accumulate
from odfabric_engine_spark.plan.order_independence.float_functions import (
    AVERAGES,
    FOLDED,
    REPLACED,
    is_float_sum,
    one_zero,
    with_one_zero,
)
from odfabric_engine_spark.plan.order_independence.ordered_folds import folded
from odfabric_engine_spark.plan.order_independence.range_frames import (
    AVERAGE_OF_LIST,
    SUM_OF_LIST,
    with_values_in_order,
)
from odfabric_engine_spark.plan.order_independence.tie_breaking import without_ties
from odfabric_engine_spark.plan.order_independence.whole_number_sums import adds_longs, exact_longs, with_exact_longs
from odfabric_engine_spark.spark.catalyst.plan_nodes import Catalyst, Expression, Plan, children, simple_name
from odfabric_engine_spark.spark.catalyst.plan_rebuild import map_expressions, with_children
from odfabric_engine_spark.spark.catalyst.sql_templates import from_template

_SORTED = "sort_array(collect_list({distinct}cast(value as double)))"


def with_exact_aggregates(catalyst: Catalyst, plan: Plan) -> Plan:
    """The plan with order-free aggregates."""
    node = with_children(catalyst, plan, [with_exact_aggregates(catalyst, child) for child in children(plan)])
    name = simple_name(node)
    if name == "Aggregate":
        if can_accumulate(node):
            return node
        return map_expressions(catalyst, node, lambda part: _exact(catalyst, part))
    if name == "Window":
        node = map_expressions(catalyst, node, lambda part: _over_rows(catalyst, part))
        ordered = with_values_in_order(catalyst, node)
        if ordered is node:
            return with_exact_longs(catalyst, node)
        return with_children(catalyst, ordered, [with_exact_longs(catalyst, children(ordered)[0])])
    return node


def _exact(catalyst: Catalyst, part: Expression) -> Expression | None:
    """What an aggregate function becomes in a group, None for what is none."""
    if simple_name(part) != "AggregateExpression":
        return None
    if simple_name(part.aggregateFunction()) in REPLACED:
        part = _with_function(catalyst, part, part.aggregateFunction().replacement())
    if adds_longs(part):
        return exact_longs(catalyst, part)
    if not is_float_sum(part):
        return _over_rows(catalyst, part)
    function = part.aggregateFunction()
    condition = part.filter().get() if part.filter().isDefined() else None
    if simple_name(function) in FOLDED:
        inputs = [one_zero(catalyst, each) for each in children(function)]
        function = function.withNewChildren(catalyst.seq(inputs))
        return folded(catalyst, function, condition=condition, distinct=bool(part.isDistinct()))
    value = children(function)[0]
    if condition is not None:
        value = catalyst.expressions.If(condition, value, catalyst.null_literal(value.dataType()))
    values = _SORTED.format(distinct="distinct " if part.isDistinct() else "")
    text = AVERAGE_OF_LIST if simple_name(function) in AVERAGES else SUM_OF_LIST
    return from_template(catalyst, text.replace("{values}", values), {"value": value})


def _over_rows(catalyst: Catalyst, part: Expression) -> Expression | None:
    """An aggregate function over ordered rows, or one that does not add."""
    if simple_name(part) != "AggregateExpression":
        return None
    function = part.aggregateFunction()
    changed = without_ties(catalyst, with_one_zero(catalyst, function))
    return part if changed is function else _with_function(catalyst, part, changed)


def _with_function(catalyst: Catalyst, call: Expression, function: Expression) -> Expression:
    return call.withNewChildren(catalyst.seq([function, *children(call)[1:]]))
