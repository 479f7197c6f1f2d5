"""A bounded folder of derived files that processes share.

Any of them may be lost at any time. Owns their names, their form and their number. Invariants: a file appears whole or not at all; what is
broken, cut off or of another name is removed and never believed; together they take at most `bytes_max` on disk, the least recently used
ones go first; who cannot write goes without. Not here: what they hold (`provenance.segment_keys`).
"""

from __future__ import annotations

import itertools
import mmap
import os
import shutil
import struct
import threading
import time
import zlib
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_HEADER: Final = struct.Struct("<8sQ32sI12x")
"""What it is, the size of its content, its name, the checksum of the content."""
_MAGIC: Final = b"ODFKEPT1"
NAME_BYTES: Final = 32
_SUFFIX: Final = ".kept"
_UNFINISHED: Final = ".part"
_MAPPED_MAX: Final = 4096
"""Files that a process has mapped at once: addresses, not memory."""
_FREE_BYTES_MIN: Final = 256 << 20
_FREE_SHARE: Final = 8
"""Of the disk's free room a file takes one part in so many at most: others need it more."""
_TOUCH_EVERY_S: Final = 60.0
"""How exactly the disk knows when a file was used last."""


@dataclass(slots=True)
class _Mapped:
    content: memoryview
    touched_s: float


class KeptFiles:
    """Files of `folder`, by names of 32 bytes that say what they were made from.

    Any thread; other processes use the same folder.
    """

    def __init__(self, folder: Path, *, bytes_max: int) -> None:
        self._folder = folder
        self._bytes_max = bytes_max
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._mapped: OrderedDict[bytes, _Mapped] = OrderedDict()

    def get(self, name: bytes) -> memoryview | None:
        """The content of a file, mapped; None if there is none that can be believed."""
        with self._lock:
            known = self._mapped.get(name)
            if known is not None and self._is_there(name, known):
                self._mapped.move_to_end(name)
                return known.content
        path = self._path(name)
        try:
            content = _checked(path, name)
        except OSError:
            return None
        if content is None:
            path.unlink(missing_ok=True)
            return None
        self._remember(name, content)
        return content

    def put(self, name: bytes, parts: Sequence[memoryview]) -> bool:
        """Keeps a file, if there is room and the disk takes it."""
        size = sum(part.nbytes for part in parts)
        if size + _HEADER.size > self._bytes_max:
            return False
        crc = 0
        for part in parts:
            crc = zlib.crc32(part, crc)
        unfinished = self._folder / f"{os.getpid()}-{next(self._numbers)}{_UNFINISHED}"
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            self._make_room(size + _HEADER.size)
            free = shutil.disk_usage(self._folder).free
            if free < max(_FREE_BYTES_MIN, size * _FREE_SHARE):
                return False
            with unfinished.open("xb") as file:
                file.write(_HEADER.pack(_MAGIC, size, name, crc))
                file.writelines(parts)
            unfinished.replace(self._path(name))
        except OSError:
            with suppress(OSError):
                unfinished.unlink(missing_ok=True)
            return False
        return True

    def give_up_removed(self) -> None:
        """Unmaps files that were removed, so that their room on the disk is free."""
        with self._lock:
            for name in [name for name in self._mapped if not self._path(name).exists()]:
                del self._mapped[name]

    def _is_there(self, name: bytes, known: _Mapped) -> bool:
        """Whether a mapped file is still there; says now and then that it is used."""
        now = time.monotonic()
        if now - known.touched_s < _TOUCH_EVERY_S:
            return True
        try:
            os.utime(self._path(name))
        except OSError:
            del self._mapped[name]
            return False
        known.touched_s = now
        return True

    def _remember(self, name: bytes, content: memoryview) -> None:
        with suppress(OSError):
            os.utime(self._path(name))
        with self._lock:
            self._mapped[name] = _Mapped(content, time.monotonic())
            while len(self._mapped) > _MAPPED_MAX:
                self._mapped.popitem(last=False)

    def _make_room(self, size: int) -> None:
        """Removes files, the least recently used first, until one of this size fits."""
        found = []
        for entry in os.scandir(self._folder):
            with suppress(OSError):
                stat = entry.stat(follow_symlinks=False)
                found.append((stat.st_mtime_ns, stat.st_size, entry.path))
        room = self._bytes_max - sum(taken for _, taken, _ in found)
        for _, taken, path in sorted(found):
            if room >= size:
                break
            with suppress(OSError):
                os.unlink(path)
                room += taken
        self.give_up_removed()

    def _path(self, name: bytes) -> Path:
        return self._folder / f"{name.hex()}{_SUFFIX}"


def _checked(path: Path, name: bytes) -> memoryview | None:
    """The content of a file if it is whole and is what its name says. Raises OSError."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        head = file.read(_HEADER.size)
        if len(head) < _HEADER.size or size == _HEADER.size:
            return None
        magic, said, named, crc = _HEADER.unpack(head)
        if magic != _MAGIC or named != name or said != size - _HEADER.size:
            return None
        content = memoryview(mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ))[_HEADER.size :]
    return content if zlib.crc32(content) == crc else None
