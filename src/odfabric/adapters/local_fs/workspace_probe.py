"""Looks at the folder of a workspace."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import mkstemp

from odfabric.errors import Determinate, NotFound
from odfabric.model.node.surroundings import DiskState, FileState

PROBE_PREFIX = ".odf-probe-"


class FolderProbe:
    """A WorkspaceProbe. `secret_names` are the names of files that hold secrets."""

    def __init__(self, folder: Path, *, secret_names: Sequence[str]) -> None:
        self._folder = folder
        self._secret_names = secret_names

    def disk(self) -> DiskState:
        """See the port."""
        with _failures("the disk does not answer"):
            found = os.statvfs(self._folder)
        return DiskState(
            free_bytes=found.f_bavail * found.f_frsize,
            all_bytes=found.f_blocks * found.f_frsize,
            free_inodes=found.f_favail,
            inodes=found.f_files,
        )

    def try_write(self) -> None:
        """See the port."""
        with _failures("the folder cannot be written", hint="make it, or its file system, writable for this user"):
            descriptor, path = mkstemp(prefix=PROBE_PREFIX, dir=self._folder)
            try:
                os.write(descriptor, b"odf")
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
                os.unlink(path)

    def folder(self) -> FileState:
        """See the port."""
        if not self._folder.is_dir():
            raise NotFound("workspace", str(self._folder), hint="`odf init` makes one; ODF_WORKSPACE names another")
        with _failures("the folder cannot be read"):
            return _state(self._folder)

    def secrets(self) -> Sequence[FileState]:
        """See the port."""
        found = []
        with _failures("the folder cannot be read"):
            for name in self._secret_names:
                with suppress(FileNotFoundError):
                    found.append(_state(self._folder / name))
        return found


def _state(path: Path) -> FileState:
    found = path.stat()
    return FileState(
        name=path.name,
        mode=stat.S_IMODE(found.st_mode),
        is_own=found.st_uid == os.geteuid(),
        is_readable=os.access(path, os.R_OK),
    )


@contextmanager
def _failures(what: str, *, hint: str | None = None) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Determinate(f"{what}: {error.strerror or type(error).__name__}", hint=hint) from error
