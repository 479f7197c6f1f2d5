"""Aggregates of floating point numbers that do not depend on the order of rows.

Owns their exact meaning: sums, averages and variances take the values in ascending order, and least and greatest know one
zero and one NaN. Invariant: the result is a function of the multiset of values, bit by bit, so any slicing and any number of cores
gives the same. Not here: aggregates over windows (`window_functions`), accumulators (`incremental.aggregates`).
Source: semantics of transforms, section 3; ruling on float aggregates.
"""

from __future__ import annotations

from odfabric_engine_spark.catalyst import Catalyst, Expression, Plan, children, simple_name
from odfabric_engine_spark.incremental.accumulable import can_accumulate
from odfabric_engine_spark.normalise.rebuild import map_expressions, with_children
from odfabric_engine_spark.normalise.template import from_template

FLOATS = frozenset({"float", "double"})
FLOAT_SUMS = frozenset({"Sum", "Average", "TrySum", "TryAverage"})
_EXTREMES = frozenset({"Min", "Max"})
_SORTED = "sort_array(collect_list({distinct}cast(value as double)))"
_SUM = "aggregate({values}, cast(null as double), (total, each) -> coalesce(total + each, each))"
_AVERAGE = _SUM + " / nullif(size({values}), 0)"
_VARIANCE = """aggregate(
    {values},
    named_struct('n', 0D, 'mean', 0D, 'squares', 0D),
    (a, e) -> named_struct(
        'n', a.n + 1,
        'mean', a.mean + (e - a.mean) / (a.n + 1),
        'squares', a.squares + (e - a.mean) * (e - a.mean - (e - a.mean) / (a.n + 1))),
    a -> {result})"""
_VARIANCES = {
    "VariancePop": "if(a.n > 0, a.squares / a.n, null)",
    "VarianceSamp": "if(a.n > 1, a.squares / (a.n - 1), null)",
    "StddevPop": "if(a.n > 0, sqrt(a.squares / a.n), null)",
    "StddevSamp": "if(a.n > 1, sqrt(a.squares / (a.n - 1)), null)",
}
"""Functions of the sum of squared distances from the mean, which is kept value by value."""


def with_exact_aggregates(catalyst: Catalyst, plan: Plan) -> Plan:
    """The plan with order-free aggregates of floating point numbers."""
    node = with_children(catalyst, plan, [with_exact_aggregates(catalyst, child) for child in children(plan)])
    name = simple_name(node)
    if name == "Aggregate":
        if can_accumulate(catalyst, node):
            return node
        return map_expressions(catalyst, node, lambda part: _exact(catalyst, part))
    return map_expressions(catalyst, node, lambda part: _one_zero(catalyst, part)) if name == "Window" else node


def is_float_sum(call: Expression) -> bool:
    """Whether an AggregateExpression adds floating point numbers."""
    function = call.aggregateFunction()
    name = simple_name(function)
    return name in _VARIANCES or (name in FLOAT_SUMS and _has_floats(function))


def _exact(catalyst: Catalyst, part: Expression) -> Expression | None:
    if simple_name(part) != "AggregateExpression" or not is_float_sum(part):
        return _one_zero(catalyst, part)
    function = part.aggregateFunction()
    value = children(function)[0]
    if part.filter().isDefined():
        value = catalyst.expressions.If(part.filter().get(), value, catalyst.null_literal(value.dataType()))
    values = _SORTED.format(distinct="distinct " if part.isDistinct() else "")
    text = _text_of(simple_name(function))
    return from_template(catalyst, text.replace("{values}", values), {"value": value})


def _text_of(name: str) -> str:
    if name in _VARIANCES:
        return _VARIANCE.replace("{result}", _VARIANCES[name])
    return _SUM if name in ("Sum", "TrySum") else _AVERAGE


def _one_zero(catalyst: Catalyst, part: Expression) -> Expression | None:
    if simple_name(part) != "AggregateExpression":
        return None
    function = part.aggregateFunction()
    if simple_name(function) not in _EXTREMES or not _has_floats(function):
        return None
    normal = function.withNewChildren(catalyst.seq([_normal_float(catalyst, children(function)[0])]))
    return part.withNewChildren(catalyst.seq([normal, *children(part)[1:]]))


def _normal_float(catalyst: Catalyst, value: Expression) -> Expression:
    package = catalyst.jvm.org.apache.spark.sql.catalyst.optimizer
    return package.NormalizeNaNAndZero(value)


def _has_floats(function: Expression) -> bool:
    return any(str(child.dataType().typeName()) in FLOATS for child in children(function))
