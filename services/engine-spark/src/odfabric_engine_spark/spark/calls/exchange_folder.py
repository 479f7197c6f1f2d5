"""The exchange folder: paths of requests become files below its root.

Owns the one translation from a path of a request to a file. Invariant: no path leaves the root, neither by its spelling nor
through a symbolic link. Not here: who creates and removes the folders of a call (the coordinator).
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from odfabric.errors import Determinate, InvalidRequest

PATH_CHARACTERS_MAX = 4096
_NAME_BYTES_MAX = 255


@dataclass(frozen=True, slots=True)
class ExchangeFolder:
    """The shared folder; `root` is absolute and free of symbolic links."""

    root: Path

    @classmethod
    def at(cls, folder: Path) -> ExchangeFolder:
        """The folder at `folder`, made if missing."""
        folder.mkdir(parents=True, exist_ok=True)
        return cls(folder.resolve())

    def input(self, path: str) -> Path:
        """The existing file that a request names.

        Raises InvalidRequest for a path outside, Determinate if it is absent.
        """
        file = self._below_root(path)
        if not file.is_file():
            raise Determinate(f"the exchange folder has no file {path}")
        return file

    def output(self, path: str) -> Path:
        """The file that a request wants written; its folder must exist.

        Raises as `input`, InvalidRequest for what is no file.
        """
        file = self._below_root(path)
        if file.exists() and not file.is_file():
            # Opening a pipe would wait for its reader.
            raise InvalidRequest(f"{path} is not to be written: it is no file")
        if not file.parent.is_dir():
            raise Determinate(f"the exchange folder has no folder for {path}")
        return file

    @property
    def key_indexes(self) -> Path:
        """The folder of what engines keep between calls, which anybody may empty."""
        return self.root / ".key-indexes"

    @contextmanager
    def outputs(self, *paths: str) -> Iterator[list[Path]]:
        """Files written together: an error in the context removes all. Raises as `output`."""
        files = [self.output(path) for path in paths]
        try:
            yield files
        except BaseException:
            for file in files:
                file.unlink(missing_ok=True)
            raise

    @contextmanager
    def scratch(self, output: str) -> Iterator[Path]:
        """A private folder beside a call's output file, removed with the context."""
        with tempfile.TemporaryDirectory(prefix=".scratch-", dir=self.output(output).parent) as folder:
            yield Path(folder)

    def _below_root(self, path: str) -> Path:
        pure = PurePosixPath(path)
        odd = not path or len(path) > PATH_CHARACTERS_MAX or "\0" in path or "\\" in path
        odd = odd or any(len(part.encode(errors="replace")) > _NAME_BYTES_MAX for part in pure.parts)
        if odd or pure.is_absolute() or ".." in pure.parts or pure.as_posix() != path or path == ".":
            raise InvalidRequest(
                "a path of the exchange folder must be relative and plain", hint="no `..`, no leading `/`"
            )
        file = self.root
        for part in pure.parts:
            file = file / part
            if file.is_symlink():
                raise InvalidRequest("a path of the exchange folder must not pass a symbolic link")
        return file
