"""A shard's present state for people and programs.

Its bounds, handles, batches and versions.

Owns opening a shard that exists whatever its columns are, and the report. Changes nothing. Not here: whether all of it is right
(`verify`), what lies beside it (`usage`).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from odfabric_persist.encoding import decode_diff, decode_rollup
from odfabric_persist.errors import Corrupt, UsageError
from odfabric_persist.frontier import Frontier
from odfabric_persist.location.blob import Blob
from odfabric_persist.location.consensus import Consensus
from odfabric_persist.machine import Machine, Patience
from odfabric_persist.state import Batch, State

VERSIONS_READ_MAX = 1 << 20
OPENINGS_MAX = 5
"""Looks for a rollup, while others collect."""


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


def existing(blob: Blob, consensus: Consensus, shard: str) -> Machine:
    """The machine of a shard that exists.

    Raises UsageError (`unknown-shard`), Corrupt, LocationError.
    """
    for _ in range(OPENINGS_MAX):
        head = consensus.head(shard)
        if head is None:
            raise UsageError("unknown-shard", shard)
        seqno, key = decode_diff(head.data).rollup
        data = blob.get(key)
        if data is not None:
            return Machine(shard, decode_rollup(data).codec, blob, consensus, _wall_ms, Patience(wait=time.sleep))
        # Collected since: the newest version names a younger one.
    raise Corrupt(f"rollup {key} of version {seqno} is gone")


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchReport:
    """One batch.

    Bytes are those of stored parts; rows of references count, their bytes do not.
    """

    lower: int
    upper: Frontier
    since: Frontier
    level: int
    rows: int
    runs: int
    blobs: int
    inline: int
    external: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardReport:
    """One shard.

    `readable` are the first and the last time that can be read, None if there is none.
    """

    shard: str
    codec: str
    seqno: int
    oldest_seqno: int
    version_bytes: int
    walltime_ms: int
    since: Frontier
    upper: Frontier
    finalized: bool
    writers: Mapping[str, Mapping[str, Any]]
    readers: Mapping[str, Mapping[str, Any]]
    criticals: Mapping[str, Mapping[str, Any]]
    claims: Mapping[str, Mapping[str, Any]]
    rollups: tuple[int, ...]
    batches: tuple[BatchReport, ...]

    @property
    def rows(self) -> int:
        """Updates in all batches."""
        return sum(batch.rows for batch in self.batches)


def inspect(machine: Machine) -> ShardReport:
    """The shard at its newest version."""
    state = machine.newest()
    versions = machine.consensus.scan(machine.shard, 0, VERSIONS_READ_MAX)
    return ShardReport(
        shard=state.shard,
        codec=state.codec,
        seqno=state.seqno,
        oldest_seqno=versions[0].seqno,
        version_bytes=sum(len(version.data) for version in versions),
        walltime_ms=state.walltime_ms,
        since=state.since,
        upper=state.upper,
        finalized=state.tombstone,
        writers=_handles(state.writers),
        readers=_handles(state.readers),
        criticals=_handles(state.criticals),
        claims=_handles(state.claims),
        rollups=tuple(sorted(state.rollups)),
        batches=tuple(_batch(batch) for batch in state.batches),
    )


def _handles(handles: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return {name: {field: getattr(one, field) for field in one.__slots__} for name, one in sorted(handles.items())}


def _batch(batch: Batch) -> BatchReport:
    return BatchReport(
        lower=batch.lower,
        upper=batch.upper,
        since=batch.since,
        level=batch.level,
        rows=batch.rows,
        runs=len(batch.runs),
        blobs=len(batch.blob_keys),
        inline=sum(part.inline is not None for part in batch.parts),
        external=sum(part.external is not None for part in batch.parts),
        bytes=sum(part.size for part in batch.parts),
    )


def tiling_fault(state: State) -> str | None:
    """The fault in the bounds of batches, None if they tile time up to the upper."""
    expected: Frontier = 0
    for batch in state.batches:
        if batch.lower != expected:
            return f"batch {batch.id} begins at {batch.lower}, the one before it ends at {expected}"
        expected = batch.upper
    if not state.tombstone and expected != state.upper:
        return f"the batches end at {expected}, the upper is {state.upper}"
    return None
