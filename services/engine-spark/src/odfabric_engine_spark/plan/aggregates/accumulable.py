"""Which aggregates run on accumulators, and which see all rows again.

Owns the choice. Not here: the accumulators themselves (`aggregate_functions`), functions that see all rows (`operators`).
"""

from __future__ import annotations

from odfabric_engine_spark.plan.aggregates.aggregate_calls import calls_of, has_accumulator
from odfabric_engine_spark.plan.group_keys import has_bytes
from odfabric_engine_spark.plan.time.tumbling_and_hopping_windows import is_session_window, is_window_column
from odfabric_engine_spark.spark.catalyst.plan_nodes import Plan, items

_NESTED = frozenset({"array", "struct"})


def can_accumulate(aggregate: Plan) -> bool:
    """Whether all functions have exact accumulators and groups have plain keys.

    Groups can be distinguished by plain columns.
    """
    for expression in items(aggregate.groupingExpressions()):
        nested = str(expression.dataType().typeName()) in _NESTED
        if is_session_window(expression) or (nested and not is_window_column(expression)) or not has_bytes(expression):
            return False
    return all(map(has_accumulator, calls_of(aggregate)))
