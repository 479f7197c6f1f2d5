"""Blob: bytes by key.

Owns the contract that every store of blobs keeps; `odfabric_persist.testing` holds them to it. Source: ADR 0018.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from odfabric_persist.errors import UsageError

KEY_BYTES_MAX = 900
"""Longest key in UTF-8: what S3 takes, with room for a prefix."""

PART_BYTES_MAX = 200
"""Longest part between slashes: what file systems take, with room for a suffix."""


@dataclass(frozen=True, slots=True, order=True)
class BlobEntry:
    """A key and the size of its value in bytes."""

    key: str
    size: int


class Blob(Protocol):
    """A linearizable store of values by key.

    Every method raises Determinate or Indeterminate for failures of the store, UsageError (`invalid-key`) for a key that not
    every store could hold.
    """

    def get(self, key: str) -> bytes | None:
        """The value, None if there is none."""

    def set(self, key: str, value: bytes) -> None:
        """Store the value, durable when it returns.

        Atomic: readers see the old value or the new one.
        """

    def delete(self, key: str) -> int | None:
        """Remove the value; its size in bytes, None if there was none."""

    def list(self, prefix: str) -> Iterator[BlobEntry]:
        """What has a key that begins with `prefix`, in the order of keys."""

    def restore(self, key: str) -> None:
        """Bring back a deleted value.

        Returns only if the key has a value then; raises Determinate if the store cannot.
        """


def check_key(key: str) -> str:
    """The key itself. Raises UsageError for one that not every store could hold."""
    parts = key.split("/")
    if (
        len(key.encode("utf-8", "replace")) > KEY_BYTES_MAX
        or any(
            not part or part in (".", "..") or len(part.encode("utf-8", "replace")) > PART_BYTES_MAX for part in parts
        )
        or any(ord(sign) < 0x20 or sign in "\\\x7f" or 0xD800 <= ord(sign) < 0xE000 for sign in key)
        or any(part.startswith(".") for part in parts)
    ):
        raise UsageError("invalid-key", "keys are names of letters between slashes, and no name begins with a dot")
    return key
