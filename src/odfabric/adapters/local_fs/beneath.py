"""Files below a folder that no link leads out of, even while they are looked at.

Owns the walk from the allowed folder to the folder of a file. Invariant: each step is opened in the step before and is no link, so what was checked
is what is used; links are followed only by the look beforehand, and the allowed folder itself may be one, for its owner has chosen it. Where the
platform has no such walk, the look beforehand is all there is.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

NO_LINK = getattr(os, "O_NOFOLLOW", 0)
"""Flag for opening the last part of a path that `held` has given."""

_HELD_FOLDERS = Path("/proc/self/fd")
_CAN_WALK = {os.open, os.mkdir, os.stat} <= os.supports_dir_fd and bool(NO_LINK) and _HELD_FOLDERS.is_dir()
_KNOWN_FOLDERS_MAX = 4096
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)


class LinkLeadsOut(Exception):
    """A link on the way leads out of the allowed folder, or was put there meanwhile."""


class Beneath:
    """An allowed folder."""

    def __init__(self, folder: Path) -> None:
        """`folder` with its own links followed."""
        self._folder = folder
        self._on_disk: set[Path] = set()

    @contextmanager
    def held(self, path: Path, *, follow: bool, make: bool = False) -> Iterator[Path]:
        """A path of the same file whose folder cannot be exchanged in this context.

        `follow`: a link in the place of the file is followed too, otherwise it is the link that is meant. `make`: folders that are missing are
        made, and reach the disk.

        Raises LinkLeadsOut, OSError, RuntimeError for links in a circle.
        """
        found = path.resolve()
        if not found.is_relative_to(self._folder):
            raise LinkLeadsOut
        real = found if follow else path.parent.resolve() / path.name
        if not real.is_relative_to(self._folder):
            raise LinkLeadsOut
        if not _CAN_WALK:
            if make:
                real.parent.mkdir(parents=True, exist_ok=True)
            yield real
            return
        if real == self._folder:
            yield real
            return
        opened = self._walk(real.parent.relative_to(self._folder).parts, make=make)
        try:
            yield _HELD_FOLDERS / str(opened) / real.name
        finally:
            os.close(opened)

    def _walk(self, steps: tuple[str, ...], *, make: bool) -> int:
        if make:
            self._folder.mkdir(parents=True, exist_ok=True)
        opened, path = os.open(self._folder, _FOLDER), self._folder
        for step in steps:
            path /= step
            try:
                below = _step(opened, step, make=make)
                if make:
                    self._bring_to_disk(opened, path)
            finally:
                os.close(opened)
            opened = below
        return opened

    def _bring_to_disk(self, above: int, path: Path) -> None:
        """Another process may have made the folder a moment ago and not synced it yet."""
        if path not in self._on_disk:
            os.fsync(above)
            if len(self._on_disk) >= _KNOWN_FOLDERS_MAX:
                self._on_disk.clear()
            self._on_disk.add(path)


def _step(folder: int, name: str, *, make: bool) -> int:
    try:
        return os.open(name, _FOLDER | NO_LINK, dir_fd=folder)
    except FileNotFoundError:
        if not make:
            raise
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR) and _is_link(folder, name):
            raise LinkLeadsOut from None
        raise
    with suppress(FileExistsError):  # another push makes it too
        os.mkdir(name, dir_fd=folder)
    return _step(folder, name, make=False)


def _is_link(folder: int, name: str) -> bool:
    return stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
