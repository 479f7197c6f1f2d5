"""Blobs kept in memory after they were read or written.

Owns a least-recently-used store bounded by bytes. Invariant: only what the store below acknowledged is kept, and what it may
have changed is forgotten first. Fit for keys that are written once: what another process overwrites or deletes shows late.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator

from odfabric_persist.location.blob import Blob, BlobEntry


class CachedBlob:
    """A `Blob` that caches at most `bytes_max` bytes, each value at most an eighth."""

    def __init__(self, blob: Blob, *, bytes_max: int) -> None:
        self._blob = blob
        self._bytes_max = bytes_max
        self._lock = threading.Lock()
        self._values: OrderedDict[str, bytes] = OrderedDict()
        self._size = 0
        self._changes = 0

    @property
    def size(self) -> int:
        """Bytes that are kept now."""
        with self._lock:
            return self._size

    def get(self, key: str) -> bytes | None:
        """See the protocol."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
            changes = self._changes
        value = self._blob.get(key)
        if value is not None:
            self._keep(key, value, changes)
        return value

    def set(self, key: str, value: bytes) -> None:
        """See the protocol."""
        self._forget(key)
        try:
            self._blob.set(key, value)
        finally:
            self._forget(key)

    def delete(self, key: str) -> int | None:
        """See the protocol."""
        self._forget(key)
        try:
            return self._blob.delete(key)
        finally:
            self._forget(key)

    def list(self, prefix: str) -> Iterator[BlobEntry]:
        """See the protocol."""
        return self._blob.list(prefix)

    def restore(self, key: str) -> None:
        """See the protocol."""
        self._forget(key)
        self._blob.restore(key)

    def _forget(self, key: str) -> None:
        with self._lock:
            self._changes += 1
            self._size -= len(self._values.pop(key, b""))

    def _keep(self, key: str, value: bytes, changes: int) -> None:
        with self._lock:
            # What was read while something changed may be the old value.
            if self._changes != changes or len(value) > self._bytes_max // 8 or key in self._values:
                return
            self._values[key] = value
            self._size += len(value)
            while self._size > self._bytes_max:
                self._size -= len(self._values.popitem(last=False)[1])
