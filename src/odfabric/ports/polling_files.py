"""Local files that polling sources may read: below the poll folder on a node, anywhere for a workspace's own user."""

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
    """Resolves what sources name. Raises AccessDenied for anything outside the allowed folder, links included."""

    def glob(self, pattern: str) -> Sequence[LocalFile]:
        """Files that match, ordered by name. Raises LimitExceeded for too many."""

    def file(self, url_or_path: str) -> LocalFile:
        """The file behind a `file://` URL or path. Raises NotFound."""


class SourcePreparation(Protocol):
    """Runs the `prepare` steps over bytes: decompression with limits (security property S4.3)."""

    def decompress_gzip(self, source: Path, into: Path) -> None:
        """All members. Raises InvalidData for a broken archive, LimitExceeded."""

    def decompress_zip(self, source: Path, into: Path, *, sub_path: str | None) -> None:
        """The entry named exactly `sub_path`, else the single one matching it as a glob, else (None) the first.

        Raises InvalidData naming the entries that exist if none fits, for links, special entries and broken archives.
        """
