"""Which aggregates run on accumulators, and which must see all rows of their groups again.

Owns the choice. Not here: the accumulators themselves (`accumulators`), functions that see all rows (`stages`).
"""

from __future__ import annotations

from odfabric_engine_spark.catalyst import Catalyst, Plan, items
from odfabric_engine_spark.incremental.aggregates import CallReader
from odfabric_engine_spark.incremental.classify import calls_of
from odfabric_engine_spark.incremental.group_keys import has_bytes
from odfabric_engine_spark.incremental.window import is_session_window, is_window_column
from odfabric_engine_spark.validate.refusal import Refused

_NESTED = frozenset({"array", "struct"})


def can_accumulate(catalyst: Catalyst, aggregate: Plan) -> bool:
    """Whether every function of an aggregate has an exact accumulator and its groups can be told apart by plain columns."""
    for expression in items(aggregate.groupingExpressions()):
        nested = str(expression.dataType().typeName()) in _NESTED
        if is_session_window(expression) or (nested and not is_window_column(expression)) or not has_bytes(expression):
            return False
    reader = CallReader(catalyst)
    try:
        for call in calls_of(aggregate):
            reader.read(call)
    except Refused:
        return False
    return True
