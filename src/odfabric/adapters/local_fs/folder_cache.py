"""A folder of copies that is kept small.

Owns how much stays: when the folder holds more than allowed, what was used longest ago goes, until a tenth is free again. Invariant: only
copies lie here, so whatever goes can be had again. Reading marks a file as used by its time of change, which file systems keep
where times of access are off.
"""

from __future__ import annotations

import heapq
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from odfabric.adapters.local_fs.object_store import FolderObjectStore

_KEPT_SHARE = 0.9
_LOOK_SHARE = 0.05
_FILE_BYTES_MIN = 4096
_BLOCK_BYTES = 512


class FolderCache(FolderObjectStore):
    """An ObjectStore of copies in `root`, of about `bytes_max` bytes on disk at most."""

    def __init__(self, root: Path, *, bytes_max: int, private_folders: tuple[Path, ...] = ()) -> None:
        super().__init__(root, private_folders=private_folders)
        self._folder = root
        self._bytes_max = bytes_max
        self._added = 0

    def put_bytes(self, key: str, data: bytes) -> None:
        """See the port."""
        super().put_bytes(key, data)
        self._add(len(data))

    def put_file(self, key: str, path: Path) -> None:
        """See the port."""
        super().put_file(key, path)
        self._add(path.stat().st_size)

    def read_bytes(self, key: str, *, size_max: int) -> bytes:
        """See the port."""
        data = super().read_bytes(key, size_max=size_max)
        self._use(key)
        return data

    def materialize(self, key: str, path: Path) -> None:
        """See the port."""
        super().materialize(key, path)
        self._use(key)

    def shrink(self) -> int:
        """Remove what was used longest ago if there is too much; how many files."""
        files = list(_files(self._folder))
        surplus = sum(size for _, size, _ in files) - self._bytes_max
        if surplus <= 0:
            return 0
        surplus += int(self._bytes_max * (1 - _KEPT_SHARE))
        heapq.heapify(files)
        removed = 0
        while surplus > 0 and files:
            _, size, path = heapq.heappop(files)
            with suppress(OSError):
                os.unlink(path)
                removed += 1
            surplus -= size
        return removed

    def _add(self, size: int) -> None:
        """Several processes may add; each looks after it has added its share."""
        self._added += max(size, _FILE_BYTES_MIN)
        if self._added > self._bytes_max * _LOOK_SHARE:
            self._added = 0
            self.shrink()

    def _use(self, key: str) -> None:
        with suppress(OSError):
            now = time.time()
            os.utime(self._folder / key, (now, now))


def _files(folder: Path) -> Iterator[tuple[float, int, str]]:
    """Time of last use, bytes on disk and path of each file."""
    for parent, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(parent, name)
            with suppress(OSError):
                found = os.stat(path)
                yield found.st_mtime, found.st_blocks * _BLOCK_BYTES, path
