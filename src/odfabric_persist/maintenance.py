"""Maintenance of a shard when due: rollups, compaction and collection.

Owns the thresholds and the order of the work. Invariants: everything here may be stopped at any point, done again, or done by
several processes at once - the claim in the state only saves work; what readers hold stays. Source: ADR 0014; ADR 0017.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field

from odfabric_persist import state as transitions
from odfabric_persist.batch import Parts, is_outdated
from odfabric_persist.collect import Collected, collect, link_rollup
from odfabric_persist.compact import apply, compact
from odfabric_persist.errors import Corrupt, LocationError
from odfabric_persist.merge import MergeLimits
from odfabric_persist.state import State
from odfabric_persist.tiers import FanOut, choose

WORK = "maintenance"
"""The name of the claim."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceLimits:
    """`rollup_every`: versions from one rollup to the next.

    `claim_ms`: how long others leave the work to who began it.
    """

    rollup_every: int = 128
    claim_ms: int = 10 * 60 * 1000
    fan_out: FanOut = field(default_factory=FanOut)
    merge: MergeLimits = field(default_factory=MergeLimits)


@dataclass(slots=True, kw_only=True)
class Maintained:
    """What was done. `claimed_by` names who is doing it, if that is somebody else."""

    merges: int = 0
    rows_written: int = 0
    rollup: int | None = None
    collected: Collected = field(default_factory=Collected)
    claimed_by: str = ""


def is_due(state: State, limits: MaintenanceLimits) -> bool:
    """Whether there is anything to do."""
    return _rollup_due(state, limits) or _collection_to(state) is not None or bool(_compaction_due(state, limits))


def maintain(parts: Parts, holder: str, limits: MaintenanceLimits) -> Maintained:
    """Do what is due, unless somebody else does. `holder` names who does it."""
    machine = parts.machine
    done = Maintained()
    state = machine.newest()
    if not is_due(state, limits):
        return done
    state = machine.apply(
        lambda state: transitions.take_claim(state, WORK, holder, claim_ms=limits.claim_ms, now_ms=machine.now_ms())
    )
    claim = state.claims.get(WORK)
    if claim is not None and claim.holder != holder:
        done.claimed_by = claim.holder
        return done
    try:
        _compact_due(parts, limits, done)
        if _rollup_due(machine.newest(), limits):
            done.rollup = link_rollup(machine)
        to = _collection_to(machine.newest())
        if to is not None:
            done.collected = collect(machine, to)
    finally:
        # What cannot be given back ends by itself.
        with suppress(LocationError):
            machine.apply(lambda state: transitions.drop_claim(state, WORK, holder, now_ms=machine.now_ms()))
    return done


def _compaction_due(state: State, limits: MaintenanceLimits) -> bool:
    joined = transitions.join_empty(state, now_ms=0)
    return len(joined.batches) + limits.fan_out.fresh <= len(state.batches) or bool(
        choose(joined.batches, limits.fan_out)
    )


def _compact_due(parts: Parts, limits: MaintenanceLimits, done: Maintained) -> None:
    machine = parts.machine
    if not _compaction_due(machine.newest(), limits):
        return
    state = machine.apply(lambda state: transitions.join_empty(state, now_ms=machine.now_ms()))
    since = state.since
    for choice in choose(state.batches, limits.fan_out):
        inputs = state.batches[choice.start : choice.stop]
        try:
            output = compact(
                parts, inputs, inputs[0].lower, inputs[-1].upper, since, limits=limits.merge, level=choice.level
            )
        except Corrupt:
            if is_outdated(machine, inputs):
                return  # the claim ran out, and somebody else did what there was to do
            raise
        done.merges += apply(parts, inputs, output)
        done.rows_written += output.rows


def _rollup_due(state: State, limits: MaintenanceLimits) -> bool:
    # A finalized shard gets one rollup more, so that what its versions name can be removed; linking and dropping are two versions.
    every = 3 if state.tombstone else limits.rollup_every
    return state.seqno - max(state.rollups) >= every


def _collection_to(state: State) -> int | None:
    """Up to where versions can be removed, None if that is nowhere."""
    oldest = min(state.rollups)
    return max((seqno for seqno in state.rollups if oldest < seqno <= state.held_seqno), default=None)
