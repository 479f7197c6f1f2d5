"""Blob in a folder: one file per key, under the key's own path.

Owns the way of a value to the disk: written beside its place under a hidden name, synced, renamed, and the folder synced, so
that a reader or a power cut meets the old value or the new one. Invariant: a key never leads outside the root, and hidden files
are never listed. Not here: what writers that died left behind after less than a day (`sweep`).
"""

from __future__ import annotations

import os
import stat
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from odfabric_persist.errors import Determinate, Indeterminate, LocationError
from odfabric_persist.location.blob import BlobEntry, check_key
from odfabric_persist.location.durable import DurableFolders, sync_folder

LEFTOVER_S = 24 * 3600.0
"""Age in seconds from which an unfinished file belongs to nobody any more."""

_UNFINISHED = ".unfinished-"


class FolderBlob:
    """`Blob` below `root`, which is made if missing. Several processes may share it."""

    def __init__(self, root: Path) -> None:
        try:
            root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Determinate(f"the folder cannot be made: {error.strerror}") from error
        self._root = root.resolve()
        self._folders = DurableFolders(self._root)

    def get(self, key: str) -> bytes | None:
        """See the protocol."""
        path = self._path(key)
        with _failing_as(Determinate, key):
            try:
                opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            except (FileNotFoundError, NotADirectoryError):
                return None
            if not stat.S_ISREG(os.fstat(opened).st_mode):
                os.close(opened)
                return None
            with os.fdopen(opened, "rb") as file:
                return file.read()

    def set(self, key: str, value: bytes) -> None:
        """See the protocol."""
        path = self._path(key)
        unfinished = path.parent / f"{_UNFINISHED}{uuid.uuid4().hex}"
        try:
            with _failing_as(Determinate, key):
                self._write(unfinished, value)
            with _failing_as(Indeterminate, key):
                os.replace(unfinished, path)
                sync_folder(path.parent)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise

    def delete(self, key: str) -> int | None:
        """See the protocol."""
        path = self._path(key)
        with _failing_as(Indeterminate, key):
            try:
                size = path.lstat().st_size
                path.unlink()
            except (FileNotFoundError, NotADirectoryError):
                return None
            sync_folder(path.parent)
            return size

    def list(self, prefix: str) -> Iterator[BlobEntry]:
        """See the protocol."""
        folder = self._root / prefix.rpartition("/")[0]
        with _failing_as(Determinate, prefix):
            found = [
                BlobEntry(path.relative_to(self._root).as_posix(), size)
                for path, size in _files(folder)
                if path.relative_to(self._root).as_posix().startswith(prefix)
            ]
        return iter(sorted(found))

    def restore(self, key: str) -> None:
        """See the protocol: a folder forgets what is deleted."""
        if self.get(key) is None:
            raise Determinate(f"{key} cannot be restored: a folder keeps nothing that was deleted")

    def sweep(self) -> int:
        """Remove unfinished files older than a day; how many."""
        old = time.time() - LEFTOVER_S
        count = 0
        with _failing_as(Determinate, "unfinished files"):
            for path, _, changed in _entries(self._root, hidden=True):
                if path.name.startswith(_UNFINISHED) and changed < old:
                    path.unlink(missing_ok=True)
                    count += 1
        return count

    def _path(self, key: str) -> Path:
        return self._root / check_key(key)

    def _write(self, unfinished: Path, value: bytes) -> None:
        self._folders.ensure(unfinished.parent)
        try:
            opened = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        except FileNotFoundError:
            # Somebody removed the folder since we saw it.
            self._folders.forget(unfinished.parent)
            self._folders.ensure(unfinished.parent)
            opened = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        with os.fdopen(opened, "wb") as file:
            file.write(value)
            file.flush()
            os.fsync(opened)


def _files(folder: Path) -> Iterator[tuple[Path, int]]:
    for path, size, _ in _entries(folder, hidden=False):
        yield path, size


def _entries(folder: Path, *, hidden: bool) -> Iterator[tuple[Path, int, float]]:
    """Files below a folder with size and time of change.

    What vanishes meanwhile is left out.
    """
    waiting = [folder]
    while waiting:
        try:
            entries = list(os.scandir(waiting.pop()))
        except (FileNotFoundError, NotADirectoryError):
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                waiting.append(Path(entry.path))
            elif hidden or not entry.name.startswith("."):
                try:
                    found = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                if stat.S_ISREG(found.st_mode):
                    yield Path(entry.path), found.st_size, found.st_mtime


@contextmanager
def _failing_as(kind: type[LocationError], key: str) -> Iterator[None]:
    """System errors as ours: Determinate until a name may have changed.

    Indeterminate from then on.
    """
    try:
        yield
    except OSError as error:
        raise kind(f"{key}: {error.strerror}") from error
