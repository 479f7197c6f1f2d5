"""Verify a shard: everything named exists undamaged, versions follow on.

Every version follows from the one before.

Owns the checks; says what it found and changes nothing. It reads every part of the newest version. Rows that lie elsewhere are counted,
not read. Source: ADR 0014.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from odfabric_persist.encoding import decode_rollup
from odfabric_persist.errors import LocationError, PersistError
from odfabric_persist.frontier import at_most
from odfabric_persist.inspect import tiling_fault
from odfabric_persist.keys import ROLLUP
from odfabric_persist.machine import Machine
from odfabric_persist.rows import check, read_blob, read_inline
from odfabric_persist.state import Batch, Part, State


@dataclass(slots=True, kw_only=True)
class Verified:
    """What was looked at, and what was wrong, in words."""

    shard: str
    versions: int = 0
    rollups: int = 0
    parts: int = 0
    rows: int = 0
    external: int = 0
    problems: list[str] = field(default_factory=list)


ATTEMPTS_MAX = 5
"""Looks at a shard that changes meanwhile, if they find something."""


def verify(machine: Machine) -> Verified:
    """Look at everything. Raises LocationError only if the location itself fails.

    What a look finds counts if no version came meanwhile: what was collected between two calls is no damage.
    """
    for _ in range(ATTEMPTS_MAX):
        before = machine.consensus.head(machine.shard)
        found = _look(machine)
        if not found.problems or machine.consensus.head(machine.shard) == before:
            break
    return found


def _look(machine: Machine) -> Verified:
    found = Verified(shard=machine.shard)
    present = {entry.key for entry in machine.blob.list(f"{machine.shard}/")}
    states: list[State] = []
    try:
        states = list(machine.states_from(0))
    except PersistError as error:
        found.problems.append(f"the versions cannot be read: {error}")
        return found
    found.versions = len(states)
    found.problems += _of_order(states)
    newest = states[-1]
    for seqno, key in sorted(newest.rollups.items()):
        found.rollups += 1
        found.problems += _of_rollup(machine, key, next((one for one in states if one.seqno == seqno), None))
    # A collection removes parts first and the versions that name them afterwards: it may have been cut off between.
    readable = max((seqno for seqno in newest.rollups if seqno <= newest.held_seqno), default=0)
    for state in (one for one in states[:-1] if one.seqno >= readable):
        gone = {key for key in state.blob_keys - newest.blob_keys - present if ROLLUP not in key}
        found.problems += [f"{key}, which version {state.seqno} names, is gone" for key in sorted(gone)]
    for batch in newest.batches:
        found.problems += list(_of_batch(machine, batch, found))
    return found


def _of_order(states: list[State]) -> Iterator[str]:
    if states[0].seqno not in states[-1].rollups:
        yield f"the oldest version, {states[0].seqno}, has no rollup"
    for before, after in pairwise(states):
        went_back = not (at_most(before.since, after.since) and at_most(before.upper, after.upper))
        if went_back or before.walltime_ms >= after.walltime_ms:
            yield f"version {after.seqno} goes back behind version {before.seqno}"
    for state in states:
        fault = tiling_fault(state)
        if fault is not None:
            yield f"version {state.seqno}: {fault}"


def _of_rollup(machine: Machine, key: str, replayed: State | None) -> Iterator[str]:
    try:
        data = machine.blob.get(key)
        if data is None:
            yield f"rollup {key} is gone"
        elif replayed is not None and decode_rollup(data) != replayed:
            yield f"rollup {key} is not what the versions come to"
    except LocationError as error:
        yield f"rollup {key}: {error.message}"


def _of_batch(machine: Machine, batch: Batch, found: Verified) -> Iterator[str]:
    for number, part in enumerate(batch.parts):
        found.rows += part.rows
        if part.external is not None:
            found.external += 1
            continue
        found.parts += 1
        name = part.key or f"part {number} of batch {batch.id}"
        try:
            rows = _rows(machine, part)
        except LocationError as error:
            yield f"{name}: {error.message}"
            continue
        if rows is None:
            yield f"{name} is gone"
        elif rows != part.rows:
            yield f"{name} has {rows} rows, {part.rows} are said to be there"


def _rows(machine: Machine, part: Part) -> int | None:
    if part.inline is not None:
        return int(read_inline(check(part.inline, part.crc)).num_rows)
    assert part.key is not None
    data = machine.blob.get(part.key)
    if data is None:
        return None
    return sum(int(batch.num_rows) for batch in read_blob(check(data, part.crc)))
