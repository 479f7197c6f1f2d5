"""Files for polling sources, put there by a test with the times it wants."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from urllib.parse import unquote

from odfabric.domain.sources.path_pattern import PathPattern
from odfabric.errors import AccessDenied, InvalidRequest, LimitExceeded, NotFound
from odfabric.model.instant import Instant
from odfabric.ports.sources.polling_files import LocalFile


class MemoryPollingFiles:
    """A PollingFiles over what `add` was given.

    Bytes lie flat in a folder of the test, as engines read files.
    """

    def __init__(self, folder: Path, *, files_max: int = 10_000) -> None:
        self._folder = folder
        self._files_max = files_max
        self._files: dict[PurePosixPath, LocalFile] = {}

    def add(self, name: str, data: bytes, *, modified_at: Instant) -> None:
        """Put a file at a relative path, replacing the one that is there."""
        relative = PurePosixPath(name)
        path = self._folder / f"file-{len(self._files)}" if relative not in self._files else self._files[relative].path
        path.write_bytes(data)
        os.utime(path, ns=(modified_at.epoch_ns, modified_at.epoch_ns))
        self._files[relative] = LocalFile(path=path, name=relative.name, size=len(data), modified_at=modified_at)

    def glob(self, pattern: str) -> Sequence[LocalFile]:
        """See the port."""
        wanted = PathPattern(_relative(pattern).parts)
        found = [(file.name, str(at), file) for at, file in self._files.items() if wanted.matches(at.parts)]
        if len(found) > self._files_max:
            raise LimitExceeded("too many files match", limit="poll_files_max", maximum=self._files_max)
        return [file for _, _, file in sorted(found, key=lambda item: item[:2])]

    def file(self, url_or_path: str) -> LocalFile:
        """See the port."""
        text = unquote(url_or_path.removeprefix("file://")) if url_or_path.startswith("file://") else url_or_path
        found = self._files.get(_relative(text))
        if found is None:
            raise NotFound("file", url_or_path)
        return found


def _relative(text: str) -> PurePosixPath:
    if not text or "\0" in text:
        raise InvalidRequest("a path is expected")
    path = PurePosixPath(text)
    if path.is_absolute() or ".." in path.parts:
        raise AccessDenied(f"{text} is outside the poll folder")
    return path
