"""Uploads in parts that clients send to the object store by signed URLs.

Keys are those of the ObjectStore beside it, in which a completed upload is an object like any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from odfabric.model.instant import Instant

PART_BYTES_MIN = 5 * 1024 * 1024
"""Least size of every part but the last one."""
PARTS_MAX = 10_000
"""Most parts of one upload, numbered from 1."""


@dataclass(frozen=True, slots=True)
class StoredPart:
    """A part that the store has: its number, bytes, and entity tag without quotes."""

    number: int
    size: int
    tag: str


@dataclass(frozen=True, slots=True)
class OpenUpload:
    """An upload that is neither completed nor aborted."""

    key: str
    upload: str
    begun_at: Instant


class PartUploads(Protocol):
    """Uploads in parts.

    `upload` is the store's name of one. Calls raise InvalidName for a bad key, Determinate or Indeterminate.
    """

    def begin(self, key: str) -> str:
        """Begin an upload of the object at `key`; its name."""

    def link(self, key: str, upload: str, number: int, *, size: int, lifetime_s: int) -> str:
        """A URL to which its holder may PUT one part.

        It is for part `number`, of exactly `size` bytes, and for `lifetime_s` seconds, and allows nothing else. Nothing is asked: the upload may be gone.
        """

    def stored(self, key: str, upload: str) -> Sequence[StoredPart]:
        """The parts that are there, by number. Raises NotFound if the upload is gone.

        A store may keep all that were sent under one number, with different tags.
        """

    def complete(self, key: str, upload: str, parts: Sequence[StoredPart]) -> None:
        """Make one object of the parts with these numbers and tags, in their order.

        Links of the upload end.

        Write once: if the key exists the call succeeds and changes nothing. Raises NotFound if the upload is gone, Changed if a part is not
        as `parts` say.
        """

    def abort(self, key: str, upload: str) -> None:
        """Remove the upload with its parts; one that is gone is success."""

    def unfinished(self, prefix: str) -> Iterator[OpenUpload]:
        """Uploads of keys that begin with `prefix`, in any order."""
