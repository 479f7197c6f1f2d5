"""Memory-mapped files that stay mapped between calls.

Owns which files these are and for how long. Invariant: a file stays mapped only while it has a name elsewhere, so that no space
is held which others believe to be free for longer than until the next call, or until the engine rests; it is recognised by what it is on its
device, its size and its time of change, never by its path. Not here: what files say (`checkpoint_file`).
"""

from __future__ import annotations

import mmap
import os
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

KEPT_BYTES_MIN = 1 << 20
"""Of smaller files everything is in place at once."""
KEPT_BYTES_MAX = 8 << 30
"""Addresses, not memory: the system takes pages back as it likes."""
KEPT_FILES_MAX = 64

_Mark = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Kept:
    """A mapped file, and a descriptor by which is asked whether it still has a name."""

    bytes: pa.Buffer
    descriptor: int

    def __del__(self) -> None:
        os.close(self.descriptor)

    @property
    def is_removed(self) -> bool:
        """Whether nobody can open it any more."""
        return os.fstat(self.descriptor).st_nlink == 0


@dataclass(slots=True)
class MappedFiles:
    """Files of this process, `files_max` of `bytes_max` together at most.

    Any thread. The least used ones are given up first; who uses one keeps it mapped as long.
    """

    files_max: int = KEPT_FILES_MAX
    bytes_max: int = KEPT_BYTES_MAX
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _kept: OrderedDict[_Mark, _Kept] = field(default_factory=OrderedDict)

    def mapped(self, path: Path) -> pa.Buffer:
        """All bytes of a file. OSError passes through."""
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            stat = os.fstat(descriptor)
            mark = stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns
            with self._lock:
                self._give_up()
                if mark in self._kept:
                    self._kept.move_to_end(mark)
                    return self._kept[mark].bytes
            found = _mapped(descriptor, stat.st_size)
            if stat.st_nlink > 1 and KEPT_BYTES_MIN <= stat.st_size <= self.bytes_max:
                with self._lock:
                    self._kept[mark], descriptor = _Kept(found, descriptor), -1
                    self._give_up()
            return found
        finally:
            if descriptor >= 0:
                os.close(descriptor)

    def give_up_removed(self) -> None:
        """Those that have no name any more."""
        with self._lock:
            self._give_up()

    def _give_up(self) -> None:
        """Those that are removed, and those that are too many."""
        for mark in [mark for mark, each in self._kept.items() if each.is_removed]:
            del self._kept[mark]
        while len(self._kept) > self.files_max or sum(each.bytes.size for each in self._kept.values()) > self.bytes_max:
            self._kept.popitem(last=False)


def _mapped(descriptor: int, size: int) -> pa.Buffer:
    """The file that was looked at, whatever has its name by now."""
    return pa.py_buffer(mmap.mmap(descriptor, size, access=mmap.ACCESS_READ) if size else b"")
