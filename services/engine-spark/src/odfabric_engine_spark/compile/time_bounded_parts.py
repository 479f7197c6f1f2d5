"""Time-bounded parts of a stage: sessions, temporal joins, interval joins.

Owns what is known of such a part while keys are inferred: which scans it reads, and when a row of each is final. Invariant: above
a time-bounded part in its stage each row is mapped alone, and below it too, so a result depends on the rows that the time-bounded part itself brings
together. Not here: what may be removed of it (`state_expiry`). Source: docs/engine.md#temporal-joins;
docs/engine.md#lateness-and-state-expiry; docs/engine.md#steps-and-slicing.
"""

from __future__ import annotations

from odfabric_engine_spark.plan.partitioning.partition_keys import (
    Node,
    StageScan,
    Subplan,
    TimeBoundedPart,
)
from odfabric_engine_spark.plan.time.event_times import WINDOW_END, EventTimes
from odfabric_engine_spark.spark.catalyst.plan_nodes import (
    Catalyst,
    Expression,
    simple_name,
)

_MAPPING = frozenset({"Project", "Filter", "Generate", "Expand", "Union"})
"""Nodes that map each row alone."""


def bounded_parts_of(node: Node) -> list[TimeBoundedPart]:
    """The time-bounded parts of a relation whose results reach it row by row."""
    if node.bounded_part is not None:
        return [node.bounded_part]
    if node.scan is not None or simple_name(node.plan) not in _MAPPING:
        return []
    return [bounded_part for child in node.children for bounded_part in bounded_parts_of(child)]


def note_times_of_key(catalyst: Catalyst, times: EventTimes, subplan: Subplan) -> None:
    """Note times that are part of the key: rows without waiters are final by them."""
    if subplan.wholes or any(scan.ends for scan in subplan.scans):
        return
    for component in subplan.components or ():
        found = {scan: _time_of_key(catalyst, times, component[scan], scan) for scan in subplan.scans}
        if all(each is not None for each in found.values()):
            for scan, instant in found.items():
                scan.final = instant
            return


def _time_of_key(catalyst: Catalyst, times: EventTimes, key: Expression, scan: StageScan) -> Expression | None:
    if times.is_event_time(key, scan.plan):
        return key
    return catalyst.member(key, WINDOW_END) if times.is_timed_window(key, scan.plan) else None
