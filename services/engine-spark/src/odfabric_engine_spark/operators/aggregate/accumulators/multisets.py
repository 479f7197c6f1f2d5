"""Statistics whose values are kept one by one beside their groups.

Owns which statistics these are. Not here: what groups keep of them (`min_and_max`, `count_distinct`, `percentile`), where the values lie (`value_state`).
"""

from __future__ import annotations

from odfabric_engine_spark.operators.aggregate.accumulators.count_and_sum import (
    Multiset,
    Statistic,
    StatisticValue,
    Values,
)
from odfabric_engine_spark.operators.aggregate.accumulators.count_distinct import Distinct, DistinctStatistic
from odfabric_engine_spark.operators.aggregate.accumulators.min_and_max import Extremes, ExtremeStatistic
from odfabric_engine_spark.operators.aggregate.accumulators.percentile import PercentileStatistic, Ranked


def multiset_statistic(statistic: Statistic) -> Multiset | None:
    """The values that are kept one by one for a statistic, if it has such."""
    return (
        statistic.multiset
        if isinstance(statistic, DistinctStatistic | ExtremeStatistic | PercentileStatistic)
        else None
    )


def multiset_of(value: StatisticValue) -> Values | None:
    """Those of a statistic's value that are in hand."""
    return value.values if isinstance(value, Distinct | Extremes | Ranked) else None
