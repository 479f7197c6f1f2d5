"""Leaves whose rows look up versions, and what they can meet.

Owns recognising that rows below a look-up are each mapped alone, and at which time versions are that they meet. Invariant: a row takes
the last version that is not later than itself, so a version changes nothing of rows that are earlier. Not here: what a look-up is
(`normalise.temporal`), which rows are looked up for a transaction (`old_rows`).
"""

from __future__ import annotations

from odfabric_engine_spark.catalyst import Expression, Plan, expr_id, simple_name
from odfabric_engine_spark.stages.closings import time_of_look_up
from odfabric_engine_spark.stages.values import Component, Node, StageLeaf, Value


def looking_up_leaves(look_up: Plan, below: Node, value: Value) -> dict[StageLeaf, dict[StageLeaf, Expression]]:
    """Leaves below a look-up of which each row is mapped alone, with the leaves that have the versions, if these tell when their rows are.

    `below` is the union of rows and versions, perhaps under projections, and `value` what is known of it.
    """
    while simple_name(below.plan) == "Project" and below.leaf is None:
        (below,) = below.children
    if simple_name(below.plan) != "Union" or below.leaf is not None or len(below.children) != 2:
        return {}
    rows, versions = (side.leaves() for side in below.children)
    time = value.columns.get(expr_id(time_of_look_up(look_up)), {})
    found = {leaf: time[leaf] for leaf in versions if leaf in time and leaf.linear}
    # A version that is made of rows of several leaves changes with each of them, at a time that only one of them tells.
    timed = found if len(versions) == len(found) == 1 else {}
    return {leaf: timed if _closes_at(leaf, time, timed) else {} for leaf in rows if leaf.linear}


def _closes_at(leaf: StageLeaf, time: Component, versions: dict[StageLeaf, Expression]) -> bool:
    """Whether the instants at which rows of a leaf close are the times by which they look up versions, of one type with theirs."""
    own = time.get(leaf)
    if own is None or len(leaf.closes) != 1 or leaf.looks_up:
        return False
    (closes,) = leaf.closes
    same = closes.semanticEquals(own) or (simple_name(closes) == "Cast" and closes.child().semanticEquals(own))
    return same and all(own.dataType().sameType(each.dataType()) for each in versions.values())
