"""Garbage collection: unread versions, and the blobs that only they name.

Owns the only deletion of blobs that a version has named. Invariant: whatever a live version names exists, and the oldest live
version has a rollup of exactly its number; every step may be repeated, by several collectors at once. Source: ADR 0014.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from odfabric_persist import state as transitions
from odfabric_persist.keys import PART, ROLLUP
from odfabric_persist.machine import Machine


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """What one collection did.

    `truncated` is the oldest version that is left, if older ones were removed.
    """

    parts: int = 0
    rollups: int = 0
    truncated: int | None = None
    removed_rollups: tuple[int, ...] = ()


def collect(machine: Machine, to: int) -> Collected:
    """Remove what only versions before the greatest rollup at or before `to` need."""
    newest = machine.newest()
    kept_from = max((seqno for seqno in newest.rollups if seqno <= to), default=None)
    (oldest,) = machine.retried(lambda: machine.consensus.scan(machine.shard, 0, 1))
    if kept_from is None or to < oldest.seqno:
        return Collected()
    parts = rollups = 0
    truncated: int | None = None
    if oldest.seqno < kept_from:
        for key in _named_only_before(machine, kept_from):
            if machine.retried(partial(machine.blob.delete, key)) is not None:
                parts += PART in key
                rollups += ROLLUP in key
        machine.retried(lambda: machine.consensus.truncate(machine.shard, kept_from))
        truncated = kept_from
    before = machine.newest()
    machine.apply(lambda state: transitions.remove_rollups(state, kept_from, now_ms=machine.now_ms()))
    removed = tuple(sorted(seqno for seqno in before.rollups if seqno < kept_from))
    return Collected(parts=parts, rollups=rollups, truncated=truncated, removed_rollups=removed)


def _named_only_before(machine: Machine, seqno: int) -> list[str]:
    """Blobs of live versions before `seqno` that no later version names.

    This version and all after it do without: names never come back.
    """
    named: set[str] = set()
    for state in machine.states_from(0):
        if state.seqno >= seqno:
            return sorted(named - state.blob_keys)
        named |= state.blob_keys
    return []


def link_rollup(machine: Machine) -> int:
    """Write a rollup of the newest version and link it; the version it is of."""
    seqno, key = machine.write_rollup()
    linked = machine.apply(lambda state: transitions.add_rollup(state, seqno, key, now_ms=machine.now_ms()))
    if linked.rollups.get(seqno) != key:
        machine.retried(lambda: machine.blob.delete(key))
    return seqno


def maintain(machine: Machine) -> Collected:
    """A rollup of the newest version, then a collection within readers' leases."""
    linked = link_rollup(machine)
    return collect(machine, min(linked, machine.newest().held_seqno))
