"""Slots whose values are kept one by one beside their groups.

Owns which slots these are. Not here: what groups keep of them (`min_and_max`, `count_distinct`, `percentile`), where the values lie (`value_state`).
"""

from __future__ import annotations

from odfabric_engine_spark.operators.aggregate.accumulators.count_and_sum import Multiset, Slot, SlotValue, Values
from odfabric_engine_spark.operators.aggregate.accumulators.count_distinct import Distinct, DistinctSlot
from odfabric_engine_spark.operators.aggregate.accumulators.min_and_max import Extremes, ExtremeSlot
from odfabric_engine_spark.operators.aggregate.accumulators.percentile import Ranked, RankedSlot


def multiset_slot(slot: Slot) -> Multiset | None:
    """The values that are kept one by one for a slot, if it has such."""
    return slot.multiset if isinstance(slot, DistinctSlot | ExtremeSlot | RankedSlot) else None


def multiset_of(value: SlotValue) -> Values | None:
    """Those of a slot's value that are in hand."""
    return value.values if isinstance(value, Distinct | Extremes | Ranked) else None
