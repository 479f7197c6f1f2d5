"""The parts of a stage that end by times of single rows: sessions, look-ups, joins within a span of event times.

Owns what is known of such a part while keys are inferred: which leaves it reads, and when a row of each is final. Invariant: above
a core in its stage each row is mapped alone, and below it too, so a result depends on the rows that the core itself brings
together. Not here: what may be forgotten of it (`state_expiry`). Source: rulings on steps, on lateness and on temporal joins.
"""

from __future__ import annotations

from odfabric_engine_spark.plan.partitioning.partition_keys import (
    Core,
    Island,
    Node,
    StageLeaf,
)
from odfabric_engine_spark.plan.time.event_times import WINDOW_END, EventTimes
from odfabric_engine_spark.spark.catalyst.plan_nodes import (
    Catalyst,
    Expression,
    simple_name,
)

_MAPPING = frozenset({"Project", "Filter", "Generate", "Expand", "Union"})
"""Nodes that map each row alone."""


def cores_of(node: Node) -> list[Core]:
    """The cores of a relation whose results reach it row by row."""
    if node.core is not None:
        return [node.core]
    if node.leaf is not None or simple_name(node.plan) not in _MAPPING:
        return []
    return [core for child in node.children for core in cores_of(child)]


def note_times_of_key(catalyst: Catalyst, times: EventTimes, island: Island) -> None:
    """Where a part of the key is a time, rows that nothing waits for are final by that."""
    if island.wholes or any(leaf.ends for leaf in island.leaves):
        return
    for component in island.components or ():
        found = {leaf: _time_of_key(catalyst, times, component[leaf], leaf) for leaf in island.leaves}
        if all(each is not None for each in found.values()):
            for leaf, instant in found.items():
                leaf.final = instant
            return


def _time_of_key(catalyst: Catalyst, times: EventTimes, key: Expression, leaf: StageLeaf) -> Expression | None:
    if times.is_event_time(key, leaf.plan):
        return key
    return catalyst.member(key, WINDOW_END) if times.is_timed_window(key, leaf.plan) else None
