"""Shards of a node for anyone who operates it: looked into, audited, verified.

Owns the form in which they are reported: plain values, as commands print them. Changes nothing but leaks that it is asked to remove. Errors of
the library become ours.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from odfabric.adapters.persist.failures import translated
from odfabric.adapters.persist.location import PersistLocation
from odfabric.errors import NotFound
from odfabric_persist.errors import Corrupt, UsageError
from odfabric_persist.inspect import existing, inspect
from odfabric_persist.location.blob import BlobEntry
from odfabric_persist.machine import Machine
from odfabric_persist.usage import ShardUsage, Standing, audit, remove_leaked, shard_names
from odfabric_persist.verify import Verified, verify


class ShardOperations:
    """Operations on all shards of a location."""

    def __init__(self, location: PersistLocation) -> None:
        self._location = location

    def names(self) -> Sequence[str]:
        """All shards, in order. Raises Determinate, Indeterminate."""
        with translated("shards"):
            return shard_names(self._location.client().consensus)

    def inspect(self, shard: str) -> dict[str, object]:
        """What a shard is now. Raises NotFound, Corrupt, Determinate, Indeterminate."""
        with translated(shard):
            return asdict(inspect(self._machine(shard)))

    def usage(self, *, leaked_after_s: float) -> list[dict[str, object]]:
        """What lies there, shard by shard. Raises Determinate, Indeterminate."""
        client = self._location.client()
        with translated("blobs"):
            found = audit(client.blob, client.consensus, now_ms=_now_ms(), leaked_after_ms=int(leaked_after_s * 1000))
        return [_used(usage) for usage in found.shards]

    def leaks(self, *, leaked_after_s: float) -> list[dict[str, object]]:
        """Blobs that nobody needs. Raises Determinate, Indeterminate."""
        client = self._location.client()
        with translated("blobs"):
            found = audit(client.blob, client.consensus, now_ms=_now_ms(), leaked_after_ms=int(leaked_after_s * 1000))
        return [_leak(entry) for entry in found.leaked]

    def remove_leaks(self, *, leaked_after_s: float) -> Iterator[dict[str, object]]:
        """Remove them, each reported after it is gone. Raises Determinate, Indeterminate."""
        client = self._location.client()
        with translated("blobs"):
            for entry in remove_leaked(
                client.blob, client.consensus, now_ms=_now_ms(), leaked_after_ms=int(leaked_after_s * 1000)
            ):
                yield _leak(entry)

    def verify(self, shard: str) -> dict[str, object]:
        """What was looked at and what is wrong.

        Raises NotFound, Determinate, Indeterminate.
        """
        with translated(shard):
            try:
                found = verify(self._machine(shard))
            except Corrupt as error:
                found = Verified(shard=shard, problems=[error.message])
            return asdict(found)

    def _machine(self, shard: str) -> Machine:
        client = self._location.client()
        try:
            return existing(client.blob, client.consensus, shard)
        except UsageError as error:
            raise NotFound("shard", shard, hint="`odf persist usage` lists them") from error


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _used(usage: ShardUsage) -> dict[str, object]:
    counted: dict[str, object] = {"shard": usage.shard}
    for standing in Standing:
        counted[standing.value] = {"blobs": usage.blobs[standing], "bytes": usage.bytes[standing]}
    return {
        **counted,
        "inlineBytes": usage.inline_bytes,
        "dollarsPerMonth": round(usage.dollars_per_month, 6),
        "problem": usage.problem,
    }


def _leak(entry: BlobEntry) -> dict[str, object]:
    return {"key": entry.key, "bytes": entry.size}
