"""Folders and files that survive a power cut.

Owns the order of system calls: a file's bytes reach the disk before its name, and a name counts only when the folder that
holds it has reached the disk. Not here: which errors these failures become.
"""

from __future__ import annotations

import os
from pathlib import Path

_KNOWN_FOLDERS_MAX = 4096


def sync_file(path: Path) -> None:
    """Bring the bytes of a file to the disk. Raises OSError."""
    _sync(path, os.O_RDONLY)


def sync_folder(path: Path) -> None:
    """Bring the names in a folder to the disk. Raises OSError."""
    _sync(path, os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: Path, flags: int) -> None:
    opened = os.open(path, flags | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


class DurableFolders:
    """Makes folders below a root on demand, and remembers those surely on disk.

    That a folder exists is not enough: another process may have made it a moment ago and not synced it yet.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._known: set[Path] = set()

    def ensure(self, folder: Path) -> None:
        """Put the folder, and its names up to the root's, on the disk. Raises OSError."""
        if folder in self._known:
            return
        folder.mkdir(parents=True, exist_ok=True)
        for above in folder.parents:
            sync_folder(above)
            if above == self._root.parent:
                break
        if len(self._known) >= _KNOWN_FOLDERS_MAX:
            self._known.clear()
        self._known.add(folder)

    def forget(self, folder: Path) -> None:
        """The folder was found missing."""
        self._known.discard(folder)
