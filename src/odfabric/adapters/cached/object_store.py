"""Objects that are far away, kept near while they are used.

Owns which objects are kept: blocks, slices and checkpoints, which are named by their hash and never change. Invariant: the far store is
asked whenever the near one does not have something, and everything is written there first, so the near one may be emptied at any
time. A copy that does not hash to its name is removed, and the far store is asked. Not here: how much is kept
(`local_fs.folder_cache`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import BinaryIO

from odfabric.errors import External, InvalidName, NotFound
from odfabric.formats.blocks.block import block_hash
from odfabric.formats.identifiers.multihash import parse_multihash
from odfabric.formats.identifiers.physical_hash import KnownFiles, physical_hash
from odfabric.model.multihash import Multihash
from odfabric.ports.datasets.object_store import ObjectStat, ObjectStore, ReadableBytes

KEPT = frozenset({"blocks", "data", "checkpoints"})
"""Second parts of keys (`formats.identifiers.dataset_layout`) whose objects never change."""

CHECKPOINTS_KNOWN_MAX = 4096
"""Copies of checkpoints that a process remembers to have hashed."""


class CachedObjectStore:
    """An ObjectStore: `far`, with copies in `near`.

    Failures of the near store are never reported: it is a matter of speed.
    """

    def __init__(self, far: ObjectStore, near: ObjectStore) -> None:
        self._far = far
        self._near = near
        self._checkpoints = KnownFiles(CHECKPOINTS_KNOWN_MAX)

    def put_bytes(self, key: str, data: bytes) -> None:
        """See the port."""
        self._far.put_bytes(key, data)
        if _is_kept(key):
            with suppress(External):
                self._near.put_bytes(key, data)

    def put_file(self, key: str, path: Path) -> None:
        """See the port."""
        self._far.put_file(key, path)
        self._keep_file(key, path)

    def put_stream(self, key: str, stream: ReadableBytes) -> int:
        """See the port."""
        return self._far.put_stream(key, stream)

    def read_bytes(self, key: str, *, size_max: int) -> bytes:
        """See the port."""
        if not _is_kept(key):
            return self._far.read_bytes(key, size_max=size_max)
        with suppress(NotFound, External):
            data = self._near.read_bytes(key, size_max=size_max)
            if block_hash(data) == _name(key):
                return data
            self._near.delete(key)
        data = self._far.read_bytes(key, size_max=size_max)
        with suppress(External):
            self._near.put_bytes(key, data)
        return data

    def read_end(self, key: str, *, bytes_max: int) -> bytes:
        """See the port. A part is not kept: it does not hash to a name."""
        if _is_kept(key):
            with suppress(NotFound, External):
                return self._near.read_end(key, bytes_max=bytes_max)
        return self._far.read_end(key, bytes_max=bytes_max)

    def open(self, key: str) -> BinaryIO:
        """See the port."""
        if _is_kept(key):
            with suppress(NotFound, External):
                return self._near.open(key)
        return self._far.open(key)

    def stat(self, key: str) -> ObjectStat | None:
        """See the port."""
        return self._far.stat(key)

    def materialize(self, key: str, path: Path) -> None:
        """See the port."""
        if not _is_kept(key):
            self._far.materialize(key, path)
            return
        with suppress(NotFound, External):
            self._near.materialize(key, path)
            if self._is_whole(key, path):
                return
            path.unlink()
            self._near.delete(key)
        self._far.materialize(key, path)
        self._keep_file(key, path)

    def keys(self, prefix: str) -> Iterator[str]:
        """See the port."""
        return self._far.keys(prefix)

    def delete(self, key: str) -> None:
        """See the port."""
        self._far.delete(key)
        with suppress(External):
            self._near.delete(key)

    def write_ref(self, key: str, text: str) -> None:
        """See the port."""
        self._far.write_ref(key, text)

    def replace_ref(self, key: str, text: str, *, expected: str | None) -> bool:
        """See the port."""
        return self._far.replace_ref(key, text, expected=expected)

    def exclusive(self, key: str) -> AbstractContextManager[None]:
        """See the port."""
        return self._far.exclusive(key)

    def read_ref(self, key: str) -> str | None:
        """See the port."""
        return self._far.read_ref(key)

    def link(self, key: str, *, lifetime_s: int) -> str | None:
        """See the port."""
        return self._far.link(key, lifetime_s=lifetime_s)

    def _is_whole(self, key: str, path: Path) -> bool:
        """Hash a checkpoint once, as long as its file stays the same.

        Transactions build on large ones.
        """
        name = _name(key)
        if name is None:
            return False
        is_checkpoint = key.rpartition("/")[0].endswith("/checkpoints")
        if is_checkpoint and self._checkpoints.has(name, path):
            return True
        if physical_hash(path)[0] != name:
            return False
        if is_checkpoint:
            self._checkpoints.add(name, path)
        return True

    def _keep_file(self, key: str, path: Path) -> None:
        if _is_kept(key):
            with suppress(External):
                self._near.put_file(key, path)


def _is_kept(key: str) -> bool:
    return key.partition("/")[2].partition("/")[0] in KEPT


def _name(key: str) -> Multihash | None:
    """The hash that a key ends with.

    None if it is no hash, and nothing is equal to it.
    """
    try:
        return parse_multihash(key.rpartition("/")[2])
    except InvalidName:
        return None
