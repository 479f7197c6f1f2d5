"""Semi-join pruning: skip rows whose key has no row in another input.

Owns which scans a scan needs as partners, by the joins above it, and which keys have them. Invariant: a stage's plan gives the same, and
fails on the same rows, whether rows of keys without a partner are bound or not: what stands between them and the join fails on none.
Of a long table to which few rows refer so most rows never go to Spark. Not here: which keys are touched (`recompute_run`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from odfabric_engine_spark.arrays.array_types import Hashes
from odfabric_engine_spark.operators.expiry.finality import is_temporal_join
from odfabric_engine_spark.plan.input_tables import scan_alias
from odfabric_engine_spark.plan.join_keys import LEFT_KEPT, RIGHT_KEPT, join_kind
from odfabric_engine_spark.plan.partitioning.partition_keys import StageScan
from odfabric_engine_spark.plan.partitioning.stages import RowsStage
from odfabric_engine_spark.spark.catalyst.plan_nodes import (
    Catalyst,
    Expression,
    Plan,
    children,
    items,
    simple_name,
    without_alias,
)
from odfabric_engine_spark.sql.constants.never_failing import never_fails
from odfabric_engine_spark.state.row_state import RowState
from odfabric_engine_spark.state.run import distinct

SemiJoinPruning = Mapping[StageScan, frozenset[StageScan]]
"""For some scans those of which each must have a row of a key, or nothing comes of their own rows of it."""

_Relation = tuple[set[StageScan], set[StageScan]]
"""Scans without a row of which there is none of a relation, and those whose rows nothing on the way to it can fail on."""
_Mask = npt.NDArray[np.bool_]
_NOTHING_OF_NOTHING = frozenset({"Project", "Filter", "Generate", "Expand", "Window"})
_RIGHT_NEEDED = RIGHT_KEPT | {"LeftSemi"}
"""Kinds of joins that give nothing without a row of the right side."""


def semi_joins_of(catalyst: Catalyst, stage: RowsStage) -> SemiJoinPruning:
    """The partners of a stage's scans, as far as scans share keys."""
    found: dict[StageScan, set[StageScan]] = {scan: set() for scan in stage.scans}
    _Reading(catalyst, iter(stage.scans), found).of(stage.plan)
    keyed = [set(subplan.scans) for subplan in stage.subplans if subplan.components is not None and not subplan.always]
    own = {scan: frozenset(found[scan] & scans - {scan}) for scans in keyed for scan in scans}
    return {scan: semi_joins for scan, semi_joins in own.items() if semi_joins}


class _Reading:
    """Reads a plan from its scans up, and notes what each scan needs.

    The scans come in the order of the plan.
    """

    def __init__(
        self, catalyst: Catalyst, scans: Iterator[StageScan], found: Mapping[StageScan, set[StageScan]]
    ) -> None:
        self._catalyst = catalyst
        self._scans = scans
        self._found = found

    def of(self, plan: Plan) -> _Relation:
        """A relation."""
        if scan_alias(plan) is not None:
            scan = next(self._scans)
            return {scan}, {scan}
        if is_temporal_join(plan):
            return self._look_up(plan)
        below = [self.of(child) for child in children(plan)]
        name = simple_name(plan)
        if name == "Join":
            return self._join(plan, *below)
        if name == "Union":
            return set.intersection(*(needed for needed, _ in below)), set().union(*(plain for _, plain in below))
        if not below:
            return set(), set()
        ((needed, plain),) = below
        keeps_nothing = name in _NOTHING_OF_NOTHING or (
            name == "Aggregate" and not plan.groupingExpressions().isEmpty()
        )
        return needed if keeps_nothing else set(), plain if self._is_plain(plan, name) else set()

    def _join(self, join: Plan, left: _Relation, right: _Relation) -> _Relation:
        kind, condition = join_kind(join), join.condition()
        plain = not condition.isDefined() or never_fails(self._catalyst, condition.get())
        return self._together(left, right, is_needed=(kind in LEFT_KEPT, kind in _RIGHT_NEEDED), plain=plain)

    def _look_up(self, window: Plan) -> _Relation:
        """Rows with their versions, over the union of both; versions are left out above."""
        below, plain = window.child(), True
        while simple_name(below) == "Project":
            below, plain = below.child(), plain and self._is_plain(below, "Project")
        if simple_name(below) != "Union":
            return self.of(window.child())
        rows, versions = map(self.of, children(below))
        return self._together(rows, versions, is_needed=(True, False), plain=plain)

    def _together(self, left: _Relation, right: _Relation, *, is_needed: tuple[bool, bool], plain: bool) -> _Relation:
        """A relation of two sides that gives nothing without a needed row."""
        needed: set[StageScan] = set()
        for is_one_needed, one, other in zip(is_needed, (left, right), (right, left), strict=True):
            if is_one_needed:
                needed |= one[0]
                for scan in other[1] if plain else ():
                    self._found[scan].update(one[0])
        return needed, left[1] | right[1] if plain else set()

    def _is_plain(self, plan: Plan, name: str) -> bool:
        if name == "Filter":
            return never_fails(self._catalyst, plan.condition())
        return name == "Project" and all(never_fails(self._catalyst, without_alias(each)) for each in _listed(plan))


def _listed(project: Plan) -> Sequence[Expression]:
    return items(project.projectList())


class KeysPresent:
    """Of which keys scans have rows, new ones or old ones."""

    def __init__(self, incoming: Mapping[StageScan, Hashes], known: Mapping[StageScan, RowState]) -> None:
        """`incoming` are the keys of new rows, ascending."""
        self._incoming = incoming
        self._known = known

    def with_all(self, scans: frozenset[StageScan], hashes: Hashes) -> _Mask:
        """Which of some keys, ascending and distinct, all these scans have rows of."""
        found = np.ones(len(hashes), dtype=bool)
        for scan in scans:
            own = is_among(hashes, distinct(self._incoming[scan]))
            state = self._known.get(scan)
            if state is not None and not own.all():
                own |= state.counts(hashes) > 0
            found &= own
        return found


def is_among(hashes: Hashes, others: Hashes) -> _Mask:
    """Which of some hashes are among others, which ascend."""
    if not len(others):
        return np.zeros(len(hashes), dtype=bool)
    places = np.minimum(np.searchsorted(others, hashes), len(others) - 1)
    found: _Mask = others[places] == hashes
    return found
