"""Which batches to merge: tiers by how often and how much was merged.

Owns the choice, as a pure function of the list of batches. Invariants: ranges do not overlap; when nothing is chosen any more,
the list is short - a few batches for each tier, and tiers grow with the logarithm of what was written; a row is written again
about once for each tier it climbs. Not here: reading or writing anything. Source: ADR 0017.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from odfabric_persist.state import Batch

TIER_GROWTH = 4
"""By how much the batches of a tier are larger than those of the tier below."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FanOut:
    """How many unmerged runs, and batches of a higher tier, become one."""

    fresh: int = 16
    above: int = 4


@dataclass(frozen=True, slots=True)
class Choice:
    """Batches [start, stop) of the list, to become one of `level`."""

    start: int
    stop: int
    level: int


@dataclass(frozen=True, slots=True)
class _Group:
    """Neighbours that are one batch, or will be (`chosen`).

    `weight` counts against the fan-out.
    """

    start: int
    stop: int
    level: int
    weight: int
    chosen: bool = False


def choose(batches: Sequence[Batch], fan_out: FanOut | None = None) -> list[Choice]:
    """What to merge, oldest first; empty if the list is short enough.

    The list is read like digits of a number: a full tier becomes one of the next, at once as far up as it carries, so that rows
    skip the tiers between. Smaller batches caught between larger ones become one.
    """
    wanted = fan_out or FanOut()
    unit = _fresh_rows(batches)
    stack: list[_Group] = []
    for index, batch in enumerate(batches):
        stack.append(_Group(index, index + 1, _level(batch, unit), max(1, len(batch.runs))))
        _join_caught(stack)
        while _carry(stack, wanted):
            pass
    return [Choice(group.start, group.stop, group.level) for group in stack if group.chosen]


def _fresh_rows(batches: Sequence[Batch]) -> int:
    """Rows of a batch as writers write them: lower median of the unmerged ones."""
    sizes = sorted(batch.rows for batch in batches if not batch.level and batch.rows)
    return sizes[(len(sizes) - 1) // 2] if sizes else 0


def _level(batch: Batch, unit: int) -> int:
    """The tier of a batch: its number of merges, or more if its size says so.

    If it is larger than the merges explain.
    """
    level, size = 0, batch.rows // (FanOut().fresh * unit) if unit else 0
    while size:
        level, size = level + 1, size // TIER_GROWTH
    return max(level, batch.level)


def _join_caught(stack: list[_Group]) -> None:
    """Join smaller groups between the last one and the nearest not smaller one."""
    last = stack[-1]
    start = len(stack) - 1
    while start and stack[start - 1].level < last.level:
        start -= 1
    caught = stack[start:-1]
    if len(caught) > 1:
        level = min(last.level, max(group.level for group in caught) + 1)
        stack[start:] = [_Group(caught[0].start, caught[-1].stop, level, 1, chosen=True), last]


def _carry(stack: list[_Group], fan_out: FanOut) -> bool:
    """Merge the last group's tier and what is smaller if it is full; whether so."""
    level = stack[-1].level
    start, weight = len(stack), 0
    while start and stack[start - 1].level <= level:
        start -= 1
        weight += stack[start].weight if stack[start].level == level else 0
    if weight < (fan_out.above if level else fan_out.fresh):
        return False
    stack[start:] = [_Group(stack[start].start, stack[-1].stop, level + 1, 1, chosen=True)]
    return True
