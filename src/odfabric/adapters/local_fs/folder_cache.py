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


class FolderCache(FolderObjectStore):
    """An ObjectStore of copies in `root`."""

    def __init__(self, root: Path, *, private_folders: tuple[Path, ...] = ()) -> None:
        super().__init__(root, private_folders=private_folders)
        self._folder = root

    def read_bytes(self, key: str, *, size_max: int) -> bytes:
        """See the port."""
        data = super().read_bytes(key, size_max=size_max)
        self._use(key)
        return data

    def materialize(self, key: str, path: Path) -> None:
        """See the port."""
        super().materialize(key, path)
        self._use(key)

    def shrink(self, *, bytes_max: int) -> int:
        """Remove what was used longest ago if there is more than `bytes_max`; how many files."""
        files = list(_files(self._folder))
        surplus = sum(size for _, size, _ in files) - bytes_max
        if surplus <= 0:
            return 0
        surplus += int(bytes_max * (1 - _KEPT_SHARE))
        heapq.heapify(files)
        removed = 0
        while surplus > 0 and files:
            _, size, path = heapq.heappop(files)
            with suppress(OSError):
                os.unlink(path)
                removed += 1
            surplus -= size
        return removed

    def _use(self, key: str) -> None:
        with suppress(OSError):
            now = time.time()
            os.utime(self._folder / key, (now, now))


def _files(folder: Path) -> Iterator[tuple[float, int, str]]:
    """Time of last use, size in bytes and path of each file."""
    for parent, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(parent, name)
            with suppress(OSError):
                found = os.stat(path)
                yield found.st_mtime, found.st_size, path
