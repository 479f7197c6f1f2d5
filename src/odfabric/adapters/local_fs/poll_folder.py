"""Local files that polling sources may read.

Owns the decision whether a path is inside the poll folder. Invariant: what is decided on is the real path, links resolved, and that
is also what is handed out; outside the folder nobody learns whether a file exists. A workspace's own user may read whatever
the operating system lets him. Not here: meaning of patterns (`domain.sources.path_pattern`). Source: docs/howto/poll-a-folder.md.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from urllib.parse import unquote

from odfabric.domain.sources.path_pattern import PathPattern, is_magic
from odfabric.errors import AccessDenied, Determinate, InvalidRequest, LimitExceeded, NotFound
from odfabric.model.instant import Instant
from odfabric.ports.sources.polling_files import LocalFile

_PATH_CHARACTERS_MAX = 4096


class PollFolder:
    """A PollingFiles below `root`.

    Without one everything is refused, unless `anywhere`, when paths begin at `start`.

    One glob matches at most `files_max` files and looks at `entries_max` names.
    """

    def __init__(
        self,
        root: Path | None,
        *,
        anywhere: bool = False,
        start: Path | None = None,
        files_max: int = 10_000,
        entries_max: int = 1_000_000,
    ) -> None:
        self._root = Path(os.path.realpath(root)) if root is not None and not anywhere else None
        self._start = Path(os.path.abspath(start or root or ".")) if anywhere else self._root
        self._files_max = files_max
        self._entries_max = entries_max

    def glob(self, pattern: str) -> Sequence[LocalFile]:
        """See the port."""
        _check_text(pattern)
        parts = PurePosixPath(pattern).parts
        literal = next((at for at, part in enumerate(parts) if is_magic(part)), len(parts))
        below = self._resolved(str(PurePosixPath(*parts[:literal])), shown=pattern)
        if literal == len(parts):
            found = _regular(below, name=PurePosixPath(pattern).name)
            return [found] if found else []
        files = self._walk(below, PathPattern(parts[literal:]), shown=pattern)
        return sorted(files, key=lambda file: (file.name, str(file.path)))

    def file(self, url_or_path: str) -> LocalFile:
        """See the port."""
        text = _path_of(url_or_path)
        _check_text(text)
        found = _regular(self._resolved(text, shown=url_or_path), name=PurePosixPath(text).name)
        if found is None:
            raise NotFound("file", url_or_path)
        return found

    def _resolved(self, text: str, *, shown: str) -> Path:
        if self._start is None:
            raise AccessDenied(
                "this node reads no local files", hint="start it with a poll folder, or push the data instead"
            )
        real = Path(os.path.realpath(self._start / text))
        if self._root is not None and not real.is_relative_to(self._root):
            raise AccessDenied(f"{shown} is outside the poll folder")
        return real

    def _walk(self, start: Path, pattern: PathPattern, *, shown: str) -> list[LocalFile]:
        files: dict[Path, LocalFile] = {}
        waiting = [(start, pattern.start)]
        visited = set(waiting)
        seen = 0
        while waiting:
            folder, positions = waiting.pop()
            for name in _names(folder, shown=shown):
                seen += 1
                if seen > self._entries_max:
                    raise LimitExceeded(
                        f"{shown} has too many files to look at", limit="poll_entries_max", maximum=self._entries_max
                    )
                reached = pattern.step(positions, name)
                if not reached:
                    continue
                path = self._resolved(str(folder / name), shown=str(PurePosixPath(shown).parent / name))
                if pattern.accepts(reached) and (found := _regular(path, name=name)):
                    files[folder / name] = found
                    self._check_count(len(files), shown)
                if path.is_dir() and (path, reached) not in visited:
                    visited.add((path, reached))
                    waiting.append((path, reached))
        return list(files.values())

    def _check_count(self, count: int, shown: str) -> None:
        if count > self._files_max:
            raise LimitExceeded(f"too many files match {shown}", limit="poll_files_max", maximum=self._files_max)


def _path_of(url_or_path: str) -> str:
    if url_or_path[:5].lower() != "file:":
        return url_or_path
    if "?" in url_or_path or "#" in url_or_path:
        raise InvalidRequest("the URL of a file has no query and no fragment", hint="write ? as %3F and # as %23")
    # What stands in the place of a host begins a relative path: `file://data/x.csv`.
    text = url_or_path[5:].removeprefix("//")
    try:
        return unquote(text.removeprefix("localhost") if text.startswith("localhost/") else text, errors="strict")
    except UnicodeDecodeError:
        raise InvalidRequest("the URL of a file is percent-encoded UTF-8") from None


def _check_text(text: str) -> None:
    if not text or "\0" in text or len(text) > _PATH_CHARACTERS_MAX:
        raise InvalidRequest(f"a path of 1 to {_PATH_CHARACTERS_MAX} characters without NUL is expected")


def _names(folder: Path, *, shown: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except PermissionError:
        raise AccessDenied(f"a folder of {shown} may not be read by this process") from None
    except OSError as error:
        raise Determinate(f"{shown} cannot be read: {error.strerror}") from error


def _regular(path: Path, *, name: str) -> LocalFile | None:
    """The file at a real path, by the name that it was asked for.

    None for anything but a regular file.
    """
    try:
        found = path.lstat()
    except PermissionError:
        raise AccessDenied(f"{name} may not be read by this process") from None
    except OSError:
        return None
    if not stat.S_ISREG(found.st_mode):
        return None
    try:
        name.encode()
    except UnicodeEncodeError:
        raise InvalidRequest(f"a file has a name that is not UTF-8: {name!r}") from None
    return LocalFile(path=path, name=name, size=found.st_size, modified_at=Instant(found.st_mtime_ns))
