"""Interval joins: when rows of each side are final.

Owns what is known of such a join while keys are inferred: which scans it reads, and when a row of each is final. Invariant: above it
in its stage each row is mapped alone, and below it too. Not here: what may be removed of it (`state_expiry`)."""

from __future__ import annotations

from odfabric_engine_spark.plan.joins.outer_interval_join import Bound
from odfabric_engine_spark.plan.partitioning.partition_keys import (
    IntervalJoinRows,
    StageScan,
    Tracer,
    Value,
    note_finals,
)


def interval_join_rows(
    tracer: Tracer, bounds: tuple[Bound, Bound], left: Value, right: Value
) -> IntervalJoinRows | None:
    """The time-bounded part of a join; None if some row cannot tell when it is final."""
    sides: list[tuple[StageScan, ...]] = []
    for bound, value in zip(bounds, (left, right), strict=True):
        finals = tracer.column(bound.instant, value)
        scans = value.all_scans
        if finals is None or any(scan.closes for scan in scans) or not note_finals(finals, scans):
            return None
        sides.append(scans)
    return IntervalJoinRows((sides[0], sides[1]), (bounds[0].wait_us, bounds[1].wait_us))
