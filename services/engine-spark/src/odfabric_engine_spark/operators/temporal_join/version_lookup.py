"""Inputs of temporal (as-of) joins: rows, versions, and what they can meet.

Owns recognising that rows below a temporal join are each mapped alone, and at which time versions are that they meet. Invariant: a row takes
the last version that is not later than itself, so a version changes nothing of rows that are earlier. Not here: what a temporal join is
(`plan.joins.lateral_temporal_join`), which rows are looked up for a transaction (`old_rows`, `as_of_state`).
"""

from __future__ import annotations

from odfabric_engine_spark.operators.expiry.finality import time_of_temporal_join
from odfabric_engine_spark.operators.temporal_join.version_finality import conditions_below
from odfabric_engine_spark.plan.partitioning.partition_keys import Component, JoinedVersions, Node, StageScan, Value
from odfabric_engine_spark.spark.catalyst.plan_nodes import Catalyst, Plan, expr_id, items, simple_name


class TemporalJoinSides:
    """Both sides of a temporal join, and what is noted on their scans.

    It is noted as long as rows of their scans are known to be mapped alone.

    `below` is the union of rows and versions, perhaps under projections, and `value` what is known of it.
    """

    def __init__(self, catalyst: Catalyst, look_up: Plan, below: Node, value: Value) -> None:
        self.below = below
        self._linear: list[StageScan] = []
        self._versions: StageScan | None = None
        self._looking_up: list[StageScan] = []
        union = below
        while simple_name(union.plan) == "Project" and union.scan is None:
            (union,) = union.children
        if simple_name(union.plan) != "Union" or union.scan is not None or len(union.children) != 2:
            return
        rows, versions = (side.scans() for side in union.children)
        self._linear = [scan for scan in rows if scan.linear]
        time = value.columns.get(expr_id(time_of_temporal_join(look_up)), {})
        # A version that is made of rows of several scans changes with each of them, at a time that only one of them gives.
        if len(versions) == 1 and versions[0].linear and versions[0] in time:
            (self._versions,) = versions
            self._time = time[self._versions]
            self._looking_up = [scan for scan in self._linear if self._closes_at(scan, time)]
            self._whole = len(self._looking_up) == len(rows)
            keys = [value.columns.get(expr_id(key), {}).get(self._versions) for key in items(look_up.partitionSpec())]
            self._keys = tuple(key for key in keys if key is not None)
            self._conditions = conditions_below(catalyst, union.children[1])
            self._whole = self._whole and len(self._keys) == len(keys)

    def note(self) -> None:
        """Note again what a window has taken from the scans below it.

        It is true of rows of a temporal join nevertheless.
        """
        for scan in self._linear:
            scan.linear = True
        if self._versions is None:
            return
        for scan in self._looking_up:
            scan.joins_versions[self._versions] = self._time
        if self._whole and self._conditions is not None:
            self._versions.version_side = JoinedVersions(
                tuple(self._looking_up), self._keys, self._time, self._conditions
            )

    def _closes_at(self, scan: StageScan, time: Component) -> bool:
        """Whether rows of a scan close at the times by which they look up versions.

        Both must be of one type.
        """
        own = time.get(scan)
        if own is None or len(scan.closes) != 1 or scan.joins_versions:
            return False
        (closes,) = scan.closes
        same = closes.semanticEquals(own) or (simple_name(closes) == "Cast" and closes.child().semanticEquals(own))
        return bool(same and own.dataType().sameType(self._time.dataType()))
