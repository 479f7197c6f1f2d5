"""Sums and averages of long integers, independent of the order of rows.

Owns their exact form: a sum as a decimal that no number of rows overflows, made a bigint or divided once at the end. Spark adds
longs as longs, which may overflow on the way to a sum that fits, and averages them as doubles, which may not hold them. Invariant:
the result is a function of the multiset of values, in groups and over the frames of windows, and a sum overflows if the total
does, as accumulators have it. Not here: shorter whole numbers, whose sums fit; floats (`order_independent_aggregates`).
"""

from __future__ import annotations

from odfabric_engine_spark.plan.order_independence.float_functions import AVERAGES
from odfabric_engine_spark.plan.order_independence.window_functions import window
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
from odfabric_engine_spark.sql.refusal import text_of
from odfabric_engine_spark.sql.row_order_dependence import SUMS

_TOTAL = "sum({distinct}cast(value as decimal(28, 0)))"
_COUNT = "count({distinct}value)"
_AVERAGE = "cast(total as double) / nullif(number, 0)"
_LENIENT_SUM = "try_cast(total as bigint)"
_SUM = f"if(total is not null and {_LENIENT_SUM} is null, raise_error(message), {_LENIENT_SUM})"


def adds_longs(call: Expression) -> bool:
    """Whether an AggregateExpression is a sum or an average of longs."""
    function = call.aggregateFunction()
    return simple_name(function) in SUMS and str(children(function)[0].dataType().typeName()) == "long"


def exact_longs(catalyst: Catalyst, call: Expression) -> Expression:
    """A sum or an average of longs in a group."""
    return _result(catalyst, call, _parts(catalyst, call, _chosen(catalyst, call)))


def with_exact_longs(catalyst: Catalyst, node: Plan) -> Plan:
    """A Window node with exact sums and averages of longs, made results above it."""
    (below,) = children(node)
    all_named = items(node.windowExpressions())
    if not any(_adds_longs_over_rows(named.child()) for named in all_named):
        return node
    computed: list[Expression] = []
    chosen: list[Expression] = []
    columns: list[Expression] = [*output_of(below)]
    for named in all_named:
        if not _adds_longs_over_rows(named.child()):
            computed.append(named)
            columns.append(named.toAttribute())
            continue
        call, spec = named.child().windowFunction(), named.child().windowSpec()
        value = _chosen(catalyst, call)
        if call.filter().isDefined():  # a column, so that it is seen which ones a window reads
            chosen.append(catalyst.named(value, "chosen"))
            value = chosen[-1].toAttribute()
        parts = _parts(catalyst, call, value)
        over = {
            name: catalyst.named(catalyst.expressions.WindowExpression(part, spec), name)
            for name, part in parts.items()
        }
        computed += over.values()
        result = _result(catalyst, call, {name: each.toAttribute() for name, each in over.items()})
        columns.append(catalyst.named(result, str(named.name()), like=named))
    read = catalyst.logical.Project(catalyst.seq([*output_of(below), *chosen]), below) if chosen else below
    over_rows = window(catalyst, computed, items(node.partitionSpec()), items(node.orderSpec()), read)
    return catalyst.logical.Project(catalyst.seq(columns), over_rows)


def _adds_longs_over_rows(call: Expression) -> bool:
    function = call.windowFunction()
    return simple_name(function) == "AggregateExpression" and adds_longs(function)


def _chosen(catalyst: Catalyst, call: Expression) -> Expression:
    """What a call adds of each row: null where its FILTER does not hold."""
    (value,) = children(call.aggregateFunction())
    if not call.filter().isDefined():
        return value
    return catalyst.expressions.If(call.filter().get(), value, catalyst.null_literal(value.dataType()))


def _parts(catalyst: Catalyst, call: Expression, value: Expression) -> dict[str, Expression]:
    """The aggregates that a result is made of."""
    wanted = {"total": _TOTAL}
    if simple_name(call.aggregateFunction()) in AVERAGES:
        wanted["number"] = _COUNT
    distinct = "distinct " if call.isDistinct() else ""
    return {
        name: from_template(catalyst, text.format(distinct=distinct), {"value": value}) for name, text in wanted.items()
    }


def _result(catalyst: Catalyst, call: Expression, parts: dict[str, Expression]) -> Expression:
    function = call.aggregateFunction()
    if simple_name(function) in AVERAGES:
        return from_template(catalyst, _AVERAGE, parts)
    if str(function.prettyName()).startswith("try_"):
        return from_template(catalyst, _LENIENT_SUM, parts)
    message = f"{text_of(call)} overflows bigint"
    told = catalyst.companion("org.apache.spark.sql.catalyst.expressions.Literal").apply(message)
    return from_template(catalyst, _SUM, {**parts, "message": told})
