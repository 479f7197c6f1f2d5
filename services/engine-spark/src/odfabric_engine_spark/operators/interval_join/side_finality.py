"""Interval joins: when rows of each side are final.

Owns what is known of such a join while keys are inferred: which leaves it reads, and when a row of each is final. Invariant: above it
in its stage each row is mapped alone, and below it too. Not here: what may be forgotten of it (`state_expiry`)."""

from __future__ import annotations

from odfabric_engine_spark.plan.joins.outer_interval_join import Bound
from odfabric_engine_spark.plan.partitioning.partition_keys import (
    PartnerRows,
    StageLeaf,
    Tracer,
    Value,
    note_finals,
)


def partner_rows(tracer: Tracer, bounds: tuple[Bound, Bound], left: Value, right: Value) -> PartnerRows | None:
    """The core of a join; None if some row cannot tell when it is final."""
    sides: list[tuple[StageLeaf, ...]] = []
    for bound, value in zip(bounds, (left, right), strict=True):
        finals = tracer.column(bound.instant, value)
        leaves = value.all_leaves
        if finals is None or any(leaf.closes for leaf in leaves) or not note_finals(finals, leaves):
            return None
        sides.append(leaves)
    return PartnerRows((sides[0], sides[1]), (bounds[0].wait_us, bounds[1].wait_us))
