"""Compaction: which runs of a state are merged when a new one comes.

Owns the choice. Invariant: it depends on the sizes of runs alone, merges neighbours only, so that the newest stays the newest,
and leaves fewer than `FAN_OUT` runs a tier; a row is copied once for each tier that it climbs. Not here: how runs are merged
(`net_rows`, `group_runs`).
"""

from __future__ import annotations

from collections.abc import Sequence

FAN_OUT = 8
FIRST_TIER_ROWS = 1 << 12
"""Runs up to this size are of tier 0; each tier holds `FAN_OUT` times more."""


def tier_of(rows: int) -> int:
    """The tier of a run."""
    tier = 0
    while rows > FIRST_TIER_ROWS * FAN_OUT**tier:
        tier += 1
    return tier


def merges(rows: Sequence[int]) -> list[range]:
    """Merges of runs of these sizes, oldest first: a range for each new run.

    Most of them are of a single old run.
    """
    groups: list[tuple[range, int]] = []
    for position, count in enumerate(rows):
        groups.append((range(position, position + 1), count))
        while (first := _first_to_merge([tier_of(size) for _, size in groups])) is not None:
            merged = range(groups[first][0].start, position + 1)
            groups[first:] = [(merged, sum(size for _, size in groups[first:]))]
    return [group for group, _ in groups]


def _first_to_merge(tiers: Sequence[int]) -> int | None:
    """From where on runs become one with the last; None if they stay."""
    last = tiers[-1]
    tail = len(tiers)
    while tail and tiers[tail - 1] <= last:
        tail -= 1
    lower = next((at for at in range(tail, len(tiers)) if tiers[at] < last), None)
    if lower is not None:
        return lower
    return tail if len(tiers) - tail >= FAN_OUT else None
