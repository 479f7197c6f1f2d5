"""Sums and averages of floating point numbers over frames of values, such as the last hour.

Owns their exact form: the values of a frame as a list, added in ascending order above the window. Invariant: the result is a function
of the multiset of values in the frame, bit by bit. Not here: frames of rows and sums from the first row on, which take the rows in
the window's order (`window_functions`); groups (`float_aggregates`).
"""

from __future__ import annotations

from odfabric_engine_spark.catalyst import Catalyst, Expression, Plan, children, items, output_of, simple_name
from odfabric_engine_spark.normalise.floats import AVERAGES
from odfabric_engine_spark.normalise.template import from_template
from odfabric_engine_spark.normalise.window_functions import folds_frame, window

_LIST = "collect_list(cast(value as double))"
SUM_OF_LIST = "aggregate({values}, cast(null as double), (total, each) -> coalesce(total + each, each))"
AVERAGE_OF_LIST = SUM_OF_LIST + " / nullif(size({values}), 0)"


def with_sums_of_frames(catalyst: Catalyst, node: Plan) -> Plan:
    """A Window node that lists the values of such frames, and above it what they come to."""
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
        call, spec = named.child().windowFunction(), named.child().windowSpec()
        values = from_template(catalyst, _LIST, {"value": _counted(catalyst, call)})
        listed = catalyst.named(catalyst.expressions.WindowExpression(values, spec), "values")
        computed.append(listed)
        text = AVERAGE_OF_LIST if simple_name(call.aggregateFunction()) in AVERAGES else SUM_OF_LIST
        result = from_template(catalyst, text.replace("{values}", "sort_array(value)"), {"value": listed.toAttribute()})
        columns.append(catalyst.named(result, str(named.name()), like=named))
    over_rows = window(catalyst, computed, items(node.partitionSpec()), items(node.orderSpec()), below)
    return catalyst.logical.Project(catalyst.seq(columns), over_rows)


def _counted(catalyst: Catalyst, call: Expression) -> Expression:
    """The value that is added, null for rows that a FILTER leaves out."""
    (value,) = children(call.aggregateFunction())
    if not call.filter().isDefined():
        return value
    return catalyst.expressions.If(call.filter().get(), value, catalyst.null_literal(value.dataType()))
