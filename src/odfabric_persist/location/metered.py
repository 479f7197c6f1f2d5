"""What a store is asked for, counted, and what that costs.

Owns two decorators that count calls and bytes, and the prices of an object store. Counting changes nothing else. Source: ADR 0018.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from odfabric_persist.location.blob import Blob, BlobEntry
from odfabric_persist.location.consensus import Consensus, Version

DOLLARS_PER_CALL: Mapping[str, float] = {
    "blob.get": 0.0004 / 1000,
    "blob.set": 0.005 / 1000,
    "blob.list": 0.005 / 1000,
    "blob.restore": 0.005 / 1000,
}
"""Prices of a large provider; deleting is free, and versions lie in a database that is paid by the hour."""


@dataclass(slots=True)
class Meter:
    """Calls and bytes by operation (`blob.get`, `consensus.compare_and_set`, ...).

    Safe for threads.
    """

    calls: Counter[str] = field(default_factory=Counter)
    bytes: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, operation: str, size: int = 0) -> None:
        """One call that moved `size` bytes."""
        with self._lock:
            self.calls[operation] += 1
            self.bytes[operation] += size

    def counts(self) -> tuple[Counter[str], Counter[str]]:
        """Calls and bytes of one moment."""
        with self._lock:
            return Counter(self.calls), Counter(self.bytes)

    @property
    def dollars(self) -> float:
        """What the calls so far cost on an object store."""
        with self._lock:
            return sum(price * self.calls[operation] for operation, price in DOLLARS_PER_CALL.items())


class MeteredBlob:
    """A `Blob` whose calls are counted, also those that fail."""

    def __init__(self, blob: Blob, meter: Meter) -> None:
        self._blob = blob
        self._meter = meter

    def get(self, key: str) -> bytes | None:
        """See the protocol."""
        size = 0
        try:
            value = self._blob.get(key)
            size = len(value or b"")
            return value
        finally:
            self._meter.count("blob.get", size)

    def set(self, key: str, value: bytes) -> None:
        """See the protocol."""
        self._meter.count("blob.set", len(value))
        self._blob.set(key, value)

    def delete(self, key: str) -> int | None:
        """See the protocol."""
        self._meter.count("blob.delete")
        return self._blob.delete(key)

    def list(self, prefix: str) -> Iterator[BlobEntry]:
        """See the protocol."""
        self._meter.count("blob.list")
        return self._blob.list(prefix)

    def restore(self, key: str) -> None:
        """See the protocol."""
        self._meter.count("blob.restore")
        self._blob.restore(key)


class MeteredConsensus:
    """A `Consensus` whose calls are counted, also those that fail."""

    def __init__(self, consensus: Consensus, meter: Meter) -> None:
        self._consensus = consensus
        self._meter = meter

    def head(self, key: str) -> Version | None:
        """See the protocol."""
        self._meter.count("consensus.head")
        return self._consensus.head(key)

    def compare_and_set(self, key: str, expected: int | None, new: Version) -> bool:
        """See the protocol."""
        self._meter.count("consensus.compare_and_set", len(new.data))
        return self._consensus.compare_and_set(key, expected, new)

    def scan(self, key: str, start: int, limit: int) -> Sequence[Version]:
        """See the protocol."""
        self._meter.count("consensus.scan")
        return self._consensus.scan(key, start, limit)

    def truncate(self, key: str, seqno: int) -> int:
        """See the protocol."""
        self._meter.count("consensus.truncate")
        return self._consensus.truncate(key, seqno)

    def keys(self) -> Iterator[str]:
        """See the protocol."""
        self._meter.count("consensus.keys")
        return self._consensus.keys()
