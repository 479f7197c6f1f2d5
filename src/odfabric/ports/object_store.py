"""Bytes by key: write-once objects and the few replaceable refs of a repository.

Keys are built by `formats.dataset_layout` from hashes and ids, never from names that users choose.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

from odfabric.model.instant import Instant


@dataclass(frozen=True, slots=True)
class ObjectStat:
    """Size in bytes and the time of the last write."""

    size: int
    modified_at: Instant


class ObjectStore(Protocol):
    """Durable bytes. Keys are relative `/`-separated paths of `[A-Za-z0-9._-]`; anything else raises InvalidName.

    A write is visible whole or not at all, and durable when the call returns. Raises Determinate or Indeterminate.
    """

    def put_bytes(self, key: str, data: bytes) -> None:
        """Write once: if the key exists the call succeeds and changes nothing."""

    def put_file(self, key: str, path: Path) -> None:
        """Write once from a local file, which stays where it is and may be linked rather than copied."""

    def put_stream(self, key: str, stream: BinaryIO) -> int:
        """Write once from a stream read to its end; returns its size in bytes."""

    def read_bytes(self, key: str, *, size_max: int) -> bytes:
        """The whole object. Raises NotFound; LimitExceeded if larger than `size_max` bytes."""

    def open(self, key: str) -> BinaryIO:
        """A stream over the object, to be closed by the caller. Raises NotFound."""

    def stat(self, key: str) -> ObjectStat | None:
        """Size and time, or None if absent."""

    def materialize(self, key: str, path: Path) -> None:
        """Make the object readable at a local path that does not exist yet (link or copy). Raises NotFound."""

    def keys(self, prefix: str) -> Iterator[str]:
        """All keys that begin with `prefix`, in order, files being written left out."""

    def delete(self, key: str) -> None:
        """Remove; an absent key is success."""

    def write_ref(self, key: str, text: str) -> None:
        """Replace the small text at `key` atomically."""

    def read_ref(self, key: str) -> str | None:
        """The text at `key`, or None."""
