"""Leaves whose rows look up versions, and what they can meet.

Owns recognising that rows below a look-up are each mapped alone, and at which time versions are that they meet. Invariant: a row takes
the last version that is not later than itself, so a version changes nothing of rows that are earlier. Not here: what a look-up is
(`plan.joins.lateral_temporal_join`), which rows are looked up for a transaction (`old_rows`, `as_of_state`).
"""

from __future__ import annotations

from odfabric_engine_spark.operators.expiry.finality import time_of_look_up
from odfabric_engine_spark.operators.temporal_join.version_finality import conditions_below
from odfabric_engine_spark.plan.partitioning.partition_keys import Component, LookedUp, Node, StageLeaf, Value
from odfabric_engine_spark.spark.catalyst.plan_nodes import Catalyst, Plan, expr_id, items, simple_name


class LookUpSides:
    """Both sides of a look-up, as long as rows of their leaves are known to be mapped alone: what is noted on the leaves then.

    `below` is the union of rows and versions, perhaps under projections, and `value` what is known of it.
    """

    def __init__(self, catalyst: Catalyst, look_up: Plan, below: Node, value: Value) -> None:
        self.below = below
        self._linear: list[StageLeaf] = []
        self._versions: StageLeaf | None = None
        self._looking_up: list[StageLeaf] = []
        union = below
        while simple_name(union.plan) == "Project" and union.leaf is None:
            (union,) = union.children
        if simple_name(union.plan) != "Union" or union.leaf is not None or len(union.children) != 2:
            return
        rows, versions = (side.leaves() for side in union.children)
        self._linear = [leaf for leaf in rows if leaf.linear]
        time = value.columns.get(expr_id(time_of_look_up(look_up)), {})
        # A version that is made of rows of several leaves changes with each of them, at a time that only one of them tells.
        if len(versions) == 1 and versions[0].linear and versions[0] in time:
            (self._versions,) = versions
            self._time = time[self._versions]
            self._looking_up = [leaf for leaf in self._linear if self._closes_at(leaf, time)]
            self._whole = len(self._looking_up) == len(rows)
            keys = [value.columns.get(expr_id(key), {}).get(self._versions) for key in items(look_up.partitionSpec())]
            self._keys = tuple(key for key in keys if key is not None)
            self._conditions = conditions_below(catalyst, union.children[1])
            self._whole = self._whole and len(self._keys) == len(keys)

    def note(self) -> None:
        """What a window has taken from leaves below it is true of rows of a look-up nevertheless."""
        for leaf in self._linear:
            leaf.linear = True
        if self._versions is None:
            return
        for leaf in self._looking_up:
            leaf.looks_up[self._versions] = self._time
        if self._whole and self._conditions is not None:
            self._versions.looked_up = LookedUp(tuple(self._looking_up), self._keys, self._time, self._conditions)

    def _closes_at(self, leaf: StageLeaf, time: Component) -> bool:
        """Whether the instants at which rows of a leaf close are the times by which they look up versions, of one type with theirs."""
        own = time.get(leaf)
        if own is None or len(leaf.closes) != 1 or leaf.looks_up:
            return False
        (closes,) = leaf.closes
        same = closes.semanticEquals(own) or (simple_name(closes) == "Cast" and closes.child().semanticEquals(own))
        return bool(same and own.dataType().sameType(self._time.dataType()))
