"""What is in a location and why: live, kept for old readers, garbage.

Owns the audit of blobs and the removal of leftovers. Invariant: a blob counts as leaked only if no live version of its shard names it
and it is older than anybody may take from writing a blob to naming it; blobs are listed before states are read, so that what is named
meanwhile is found. What is not of this library is never touched. Source: ADR 0017.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

from odfabric_persist.errors import PersistError
from odfabric_persist.inspect import existing
from odfabric_persist.keys import parse_key
from odfabric_persist.location.blob import Blob, BlobEntry
from odfabric_persist.location.consensus import Consensus
from odfabric_persist.location.probe import PROBE_KEY

LEAKED_AFTER_MS = 24 * 60 * 60 * 1000
"""Longest time from writing a blob to naming it: who takes longer must write it again."""

DOLLARS_PER_GIB_MONTH = 0.023
_GIB = 1 << 30


class Standing(Enum):
    """Why a blob is there."""

    CURRENT = "current"
    REFERENCED = "referenced"
    """Named by an older live version only; goes with the next collections."""
    YOUNG = "young"
    """Not named, but somebody may be about to."""
    LEAKED = "leaked"
    FOREIGN = "foreign"
    """Not of this library, or of a shard that cannot be read."""


@dataclass(slots=True, kw_only=True)
class ShardUsage:
    """Blobs and bytes of one shard by standing.

    `problem` says why it could not be read.
    """

    shard: str
    blobs: Counter[Standing] = field(default_factory=Counter)
    bytes: Counter[Standing] = field(default_factory=Counter)
    inline_bytes: int = 0
    problem: str = ""

    @property
    def dollars_per_month(self) -> float:
        """What the blobs cost where a large provider keeps them."""
        return sum(self.bytes.values()) / _GIB * DOLLARS_PER_GIB_MONTH


@dataclass(slots=True, kw_only=True)
class Usage:
    """All shards, and what is leaked, by key."""

    shards: list[ShardUsage]
    leaked: list[BlobEntry]


def shard_names(consensus: Consensus) -> list[str]:
    """All shards of the location, in order."""
    keys = consensus.keys()
    return [key for key in keys if key != PROBE_KEY]


def audit(blob: Blob, consensus: Consensus, *, now_ms: int, leaked_after_ms: int = LEAKED_AFTER_MS) -> Usage:
    """Everything in the location.

    A shard that cannot be read is reported, and none of its blobs counts as leaked.
    """
    entries: dict[str, list[BlobEntry]] = defaultdict(list)
    for entry in blob.list(""):
        name = parse_key(entry.key)
        entries[name.shard if name else ""].append(entry)
    for shard in shard_names(consensus):
        entries.setdefault(shard, [])
    leaked: list[BlobEntry] = []
    shards = []
    for shard, found in sorted(entries.items()):
        usage, lost = _audit_shard(blob, consensus, shard, found, oldest_ms=now_ms - leaked_after_ms)
        shards.append(usage)
        leaked += lost
    return Usage(shards=shards, leaked=leaked)


def _audit_shard(
    blob: Blob, consensus: Consensus, shard: str, entries: list[BlobEntry], *, oldest_ms: int
) -> tuple[ShardUsage, list[BlobEntry]]:
    usage = ShardUsage(shard=shard)
    leaked = []
    named: Mapping[str, Standing] = {}
    readable = bool(shard)
    try:
        if shard and consensus.head(shard) is not None:
            named, usage.inline_bytes = _named(blob, consensus, shard)
    except PersistError as error:
        readable, usage.problem = False, str(error)
    for entry in entries:
        standing = named.get(entry.key) or _standing(entry.key, readable, oldest_ms)
        usage.blobs[standing] += 1
        usage.bytes[standing] += entry.size
        if standing is Standing.LEAKED:
            leaked.append(entry)
    return usage, leaked


def _named(blob: Blob, consensus: Consensus, shard: str) -> tuple[dict[str, Standing], int]:
    """What live versions name, and the bytes in the newest itself."""
    machine = existing(blob, consensus, shard)
    named: dict[str, Standing] = {}
    newest = machine.newest()
    for state in machine.states_from(0):
        named |= dict.fromkeys(state.blob_keys, Standing.REFERENCED)
        newest = state
    return named | dict.fromkeys(newest.blob_keys, Standing.CURRENT), newest.inline_bytes


def _standing(key: str, readable: bool, oldest_ms: int) -> Standing:
    name = parse_key(key)
    if name is None or not readable:
        return Standing.FOREIGN
    return Standing.LEAKED if name.written_ms < oldest_ms else Standing.YOUNG


def remove_leaked(
    blob: Blob, consensus: Consensus, *, now_ms: int, leaked_after_ms: int = LEAKED_AFTER_MS
) -> Iterator[BlobEntry]:
    """Remove what is leaked, each reported after it is gone."""
    for entry in audit(blob, consensus, now_ms=now_ms, leaked_after_ms=leaked_after_ms).leaked:
        if blob.delete(entry.key) is not None:
            yield entry
