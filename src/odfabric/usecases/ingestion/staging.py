"""Staged uploads: bodies that were received but not committed yet.

Owns their prefix, lifetime and collection. A small body goes with its job, a larger one becomes an object. Invariant: a staged
object is durable before any job names it, and the collector never touches one that an unfinished job names. Staged bytes are
untrusted and never served.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

from odfabric.formats.jobs.envelope import read_objects
from odfabric.model.instant import NANOS_PER_SECOND, Instant
from odfabric.model.jobs.job import Job
from odfabric.ports.datasets.object_store import ObjectStore
from odfabric.ports.jobs.jobs import Jobs
from odfabric.ports.node.clock import Clock, Entropy
from odfabric.usecases.ingestion.digesting_stream import DigestingStream

STAGING_PREFIX = "staging/"
UNFINISHED_JOBS_MAX = 100_000


@dataclass(frozen=True, slots=True)
class StagedBody:
    """An upload: size in bytes, SHA3-256, and its object's key or its few bytes."""

    size: int
    digest: bytes
    key: str | None = None
    body: bytes | None = None


def stage_body(
    chunks: Iterator[bytes],
    *,
    objects: ObjectStore,
    entropy: Entropy,
    inline_bytes_max: int,
    part: str = "",
    key: str | None = None,
) -> StagedBody:
    """Take a body in as it arrives.

    Up to `inline_bytes_max` bytes are left to be stored with the job.

    `part` keeps uploads of this node apart from those of others in the same objects, of whose jobs it knows nothing; `key` is the whole
    name of the object, where it is to have one.
    An exception out of `chunks` leaves nothing visible behind.
    """
    begun = bytearray()
    for chunk in chunks:
        begun += chunk
        if len(begun) > inline_bytes_max:
            break
    else:
        return StagedBody(len(begun), hashlib.sha3_256(begun).digest(), body=bytes(begun))
    key = key or STAGING_PREFIX + part + entropy.random_bytes(16).hex()
    stream = DigestingStream(chain([bytes(begun)], chunks))
    size = objects.put_stream(key, stream)
    return StagedBody(size, stream.digest.digest(), key=key)


def discard_staged(staged: StagedBody, *, objects: ObjectStore) -> None:
    """Remove what no job needs: a body that was refused, or whose job is finished."""
    if staged.key is not None:
        objects.delete(staged.key)


def named_objects(unfinished: Iterable[Job]) -> frozenset[str]:
    """Keys of the staged objects that jobs need.

    Raises Corrupt for a job of which that cannot be read.
    """
    return frozenset(key for job in unfinished for key in read_objects(job).keys)


def collect_staged(*, objects: ObjectStore, jobs: Jobs, clock: Clock, lifetime_s: float, part: str = "") -> int:
    """Delete staged objects older than the lifetime that no unfinished job names.

    Returns how many.

    The jobs are read before the objects are listed: a job enqueued later names an object that is younger than the lifetime.
    """
    oldest_kept = Instant(clock.now().epoch_ns - int(lifetime_s * NANOS_PER_SECOND))
    unfinished = jobs.page(unfinished_only=True, limit=UNFINISHED_JOBS_MAX)
    named = named_objects(unfinished)
    if len(unfinished) == UNFINISHED_JOBS_MAX:
        return 0
    removed = 0
    for key in objects.keys(STAGING_PREFIX + part):
        stat = objects.stat(key)
        if key not in named and stat is not None and stat.modified_at < oldest_kept:
            objects.delete(key)
            removed += 1
    return removed
