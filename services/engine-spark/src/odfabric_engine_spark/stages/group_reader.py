"""Which aggregates run on accumulators, and which must see all rows of their groups again.

Owns the choice. Invariant: floats are added by exact accumulators only, for any other sum of them depends on the order of
rows. Not here: the accumulators themselves (`incremental.accumulators`).
"""

from __future__ import annotations

from odfabric.errors import InvalidQuery
from odfabric_engine_spark.catalyst import Catalyst, Expression, Plan, children, items, simple_name
from odfabric_engine_spark.incremental.aggregates import CallReader
from odfabric_engine_spark.incremental.classify import calls_of
from odfabric_engine_spark.incremental.window import is_session_window, is_window_column
from odfabric_engine_spark.validate.refusal import Refused, refusal, shown, source_text

_FLOATS = frozenset({"float", "double"})
_NESTED = frozenset({"array", "map", "struct", "variant"})
_ADDING = frozenset({"Sum", "Average"})


def can_accumulate(catalyst: Catalyst, aggregate: Plan) -> bool:
    """Whether every function of an aggregate has an exact accumulator and its groups can be told apart by plain columns."""
    for expression in items(aggregate.groupingExpressions()):
        nested = str(expression.dataType().typeName()) in _NESTED
        if is_session_window(expression) or (nested and not is_window_column(expression)):
            return False
    reader = CallReader(catalyst)
    try:
        for call in calls_of(aggregate):
            reader.read(call)
    except Refused:
        return False
    return True


def float_sum_problem(aggregate: Plan) -> InvalidQuery | None:
    """The first sum of floats in an aggregate that does not run on accumulators."""
    for call in calls_of(aggregate):
        function = call.aggregateFunction()
        if simple_name(function) in _ADDING and _is_float(children(function)[0]):
            text = shown(source_text(call) or str(call.sql()))
            return refusal(
                "float-order",
                f"{text} adds floating point numbers beside a function that needs all rows",
                at=call,
                hint="cast to decimal, or aggregate it in a step of its own and join the results",
            )
    return None


def _is_float(expression: Expression) -> bool:
    return str(expression.dataType().typeName()) in _FLOATS
