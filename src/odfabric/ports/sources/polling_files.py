"""Local files that polling sources may read.

Below the poll folder on a node, anywhere for a workspace's own user.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from odfabric.model.instant import Instant


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A regular file; `name` is its last path component."""

    path: Path
    name: str
    size: int
    modified_at: Instant


class PollingFiles(Protocol):
    """Resolves what sources name.

    Raises AccessDenied for anything outside the allowed folder, links included.

    Relative paths begin at the poll folder of a node, at the current folder of a workspace's user. What is not a regular
    file does not exist here. Raises InvalidRequest for texts that name nothing (empty, NUL, another host).
    """

    def glob(self, pattern: str) -> Sequence[LocalFile]:
        """Files that match, ordered by name, then path. Raises LimitExceeded for too many.

        `*` and `?` stay within a part of the path, `**` as a whole part stands for any number of folders, `[...]` is a set; case
        counts; hidden names match only where the pattern's part begins with a dot.
        """

    def file(self, url_or_path: str) -> LocalFile:
        """The file behind a `file://` URL (percent-decoded) or a path. Raises NotFound."""


class SourcePreparation(Protocol):
    """Runs the `prepare` steps over bytes: decompression with limits.

    `into` is a new file; it does not exist after a failure. Raises Determinate if it cannot be written.
    """

    def decompress_gzip(self, source: Path, into: Path) -> None:
        """All members. Raises InvalidData for a broken archive, LimitExceeded."""

    def decompress_zip(self, source: Path, into: Path, *, sub_path: str | None) -> None:
        """The entry named exactly `sub_path`, else the single one matching it as a glob.

        Without `sub_path` the only file.

        Raises InvalidData naming the entries that exist if none fits, for links, special and encrypted entries and broken
        archives; LimitExceeded.
        """

    def copy(self, source: Path, into: Path) -> None:
        """The bytes as they are. Raises LimitExceeded."""
