"""The parts of a stage that end by times of single rows: sessions, look-ups, joins within a span of event times.

Owns what is known of such a part while keys are inferred: which leaves it reads, and when a row of each is final. Invariant: above
a core in its stage each row is mapped alone, and below it too, so a result depends on the rows that the core itself brings
together. Not here: what may be forgotten of it (`forgetting`). Source: rulings on steps, on lateness and on temporal joins.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from odfabric_engine_spark.catalyst import (
    Catalyst,
    Expression,
    Plan,
    expr_id,
    items,
    simple_name,
    without_alias,
)
from odfabric_engine_spark.incremental.trace import substitute
from odfabric_engine_spark.normalise.event_times import WINDOW_END, EventTimes
from odfabric_engine_spark.normalise.waiting_joins import Bound
from odfabric_engine_spark.stages.closings import time_of_look_up
from odfabric_engine_spark.stages.completeness import session_gaps_us
from odfabric_engine_spark.stages.timed import TimedFilter
from odfabric_engine_spark.stages.values import Island, Node, StageLeaf, Tracer, Value

_MAPPING = frozenset({"Project", "Filter", "Generate", "Expand", "Union"})
"""Nodes that map each row alone."""


@dataclass(frozen=True, slots=True)
class PartnerRows:
    """Sides of a join. A row of the first has partners up to `waits_us[0]` later than itself, one of the second up to `waits_us[1]`."""

    sides: tuple[tuple[StageLeaf, ...], tuple[StageLeaf, ...]]
    waits_us: tuple[int, int]


@dataclass(frozen=True, slots=True)
class SessionRows:
    """Rows that are cut into sessions, which end `gap_us` after their last row at most."""

    leaves: tuple[StageLeaf, ...]
    gap_us: int


@dataclass(frozen=True, slots=True)
class VersionRows:
    """Rows that look up versions: of each key the last one before them. Versions that do not pass `conditions` are never found."""

    rows: tuple[StageLeaf, ...]
    versions: StageLeaf
    keys: tuple[Expression, ...]
    conditions: tuple[Expression, ...]


Core = PartnerRows | SessionRows | VersionRows


def cores_of(node: Node) -> list[Core]:
    """The cores of a relation whose results reach it row by row."""
    if node.core is not None:
        return [node.core]
    if node.leaf is not None or simple_name(node.plan) not in _MAPPING:
        return []
    return [core for child in node.children for core in cores_of(child)]


def partner_rows(tracer: Tracer, bounds: tuple[Bound, Bound], left: Value, right: Value) -> PartnerRows | None:
    """The core of a join; None if some row cannot tell when it is final."""
    sides: list[tuple[StageLeaf, ...]] = []
    for bound, value in zip(bounds, (left, right), strict=True):
        finals = tracer.column(bound.instant, value)
        leaves = _leaves(value)
        if finals is None or any(leaf.closes for leaf in leaves) or not _note_finals(finals, leaves):
            return None
        sides.append(leaves)
    return PartnerRows((sides[0], sides[1]), (bounds[0].wait_us, bounds[1].wait_us))


def session_rows(catalyst: Catalyst, timed: TimedFilter, value: Value) -> SessionRows | None:
    """The core of an aggregate by sessions."""
    gaps = session_gaps_us(catalyst, timed.plan)
    leaves = _leaves(value)
    if not gaps or any(len(leaf.closes) != 1 for leaf in leaves):
        return None
    return SessionRows(leaves, max(gaps))


def version_rows(catalyst: Catalyst, plan: Plan, union: Node, value: Value) -> VersionRows | None:
    """The core of a look-up over the union of rows and versions; None if several relations have versions, or some row has no time."""
    rows, versions = (tuple(side.leaves()) for side in union.children)
    conditions = conditions_below(catalyst, union.children[1])
    time = value.columns.get(expr_id(time_of_look_up(plan)), {})
    keys = [value.columns.get(expr_id(key), {}) for key in items(plan.partitionSpec())]
    if len(versions) != 1 or conditions is None or not _note_finals(time, (*rows, *versions)):
        return None
    (leaf,) = versions
    if any(leaf not in key for key in keys):
        return None
    return VersionRows(rows, leaf, tuple(key[leaf] for key in keys), conditions)


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


def _leaves(value: Value) -> tuple[StageLeaf, ...]:
    return tuple(leaf for island in value.islands for leaf in (*island.leaves, *island.wholes))


def _note_finals(finals: Mapping[StageLeaf, Expression], leaves: tuple[StageLeaf, ...]) -> bool:
    """Whether all leaves have a final instant; then each of them that nothing waits for knows it."""
    if any(leaf not in finals or len(leaf.closes) > 1 for leaf in leaves):
        return False
    for leaf in leaves:
        leaf.final = finals[leaf]
    return True


def conditions_below(catalyst: Catalyst, node: Node) -> tuple[Expression, ...] | None:
    """What the rows of a leaf must pass on their way to a relation, over the leaf; None if they are more than passed on."""
    found: list[Expression] = []
    while node.leaf is None:
        name = simple_name(node.plan)
        if name == "Filter":
            found.append(node.plan.condition())
        elif name == "Project":
            named = {expr_id(each): without_alias(each) for each in items(node.plan.projectList())}
            found = [substitute(catalyst, each, named) for each in found]
        else:
            return None
        (node,) = node.children
    return tuple(found)
