"""Blob and Consensus in memory: a reference for tests, and for losable data.

Owns nothing on disk. Handles of one store are one object, or share it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from itertools import islice

from odfabric_persist.errors import Determinate
from odfabric_persist.location.blob import BlobEntry, check_key
from odfabric_persist.location.consensus import Version, check_seqno, invalid_truncation


class MemoryBlob:
    """`Blob` in a dictionary.

    With `keeps_deleted` a deleted value can be restored, as in a versioned bucket.
    """

    def __init__(self, *, keeps_deleted: bool = False) -> None:
        self._lock = threading.Lock()
        self._values: dict[str, bytes] = {}
        self._deleted: dict[str, bytes] | None = {} if keeps_deleted else None

    def get(self, key: str) -> bytes | None:
        """See the protocol."""
        with self._lock:
            return self._values.get(check_key(key))

    def set(self, key: str, value: bytes) -> None:
        """See the protocol."""
        with self._lock:
            self._values[check_key(key)] = bytes(value)

    def delete(self, key: str) -> int | None:
        """See the protocol."""
        with self._lock:
            value = self._values.pop(check_key(key), None)
            if value is not None and self._deleted is not None:
                self._deleted[key] = value
            return None if value is None else len(value)

    def list(self, prefix: str) -> Iterator[BlobEntry]:
        """See the protocol."""
        with self._lock:
            found = [BlobEntry(key, len(value)) for key, value in self._values.items() if key.startswith(prefix)]
        return iter(sorted(found))

    def restore(self, key: str) -> None:
        """See the protocol."""
        with self._lock:
            if check_key(key) in self._values:
                return
            if self._deleted is None or key not in self._deleted:
                raise Determinate(f"{key} cannot be restored")
            self._values[key] = self._deleted[key]


class MemoryConsensus:
    """`Consensus` in a dictionary of lists."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._versions: dict[str, list[Version]] = {}

    def head(self, key: str) -> Version | None:
        """See the protocol."""
        with self._lock:
            versions = self._versions.get(key)
            return versions[-1] if versions else None

    def compare_and_set(self, key: str, expected: int | None, new: Version) -> bool:
        """See the protocol."""
        check_seqno(expected, new)
        with self._lock:
            versions = self._versions.get(key)
            if (versions[-1].seqno if versions else None) != expected:
                return False
            self._versions.setdefault(key, []).append(new)
            return True

    def scan(self, key: str, start: int, limit: int) -> Sequence[Version]:
        """See the protocol."""
        with self._lock:
            return list(islice((one for one in self._versions.get(key, ()) if one.seqno >= start), limit))

    def truncate(self, key: str, seqno: int) -> int:
        """See the protocol."""
        with self._lock:
            versions = self._versions.get(key)
            if not versions or seqno > versions[-1].seqno:
                raise invalid_truncation(key, seqno)
            kept = [one for one in versions if one.seqno >= seqno]
            self._versions[key] = kept
            return len(versions) - len(kept)

    def keys(self) -> Iterator[str]:
        """See the protocol."""
        with self._lock:
            return iter(sorted(self._versions))
