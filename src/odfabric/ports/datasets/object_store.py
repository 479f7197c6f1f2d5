"""Bytes by key: write-once objects and the few replaceable refs of a repository.

Keys are built by `formats.identifiers.dataset_layout` from hashes and ids, never from names that users choose.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

from odfabric.errors import Corrupt, InvalidName, LimitExceeded
from odfabric.model.instant import Instant

KEY_CHARACTERS_MAX = 512
PART_CHARACTERS_MAX = 200
REF_BYTES_MAX = 64 * 1024
"""The longest ref is a segment of a head log."""

_PART = rf"[A-Za-z0-9_-][A-Za-z0-9._-]{{0,{PART_CHARACTERS_MAX - 1}}}"
_KEY = re.compile(rf"{_PART}(?:/{_PART})*", re.ASCII)


@dataclass(frozen=True, slots=True)
class ObjectStat:
    """Size in bytes and the time of the last write."""

    size: int
    modified_at: Instant


class ReadableBytes(Protocol):
    """The one method of a stream that a store needs to take bytes in."""

    def read(self, size: int = -1, /) -> bytes:
        """Up to `size` bytes, empty at the end only."""


class ObjectStore(Protocol):
    """Durable bytes.

    Keys are what `check_key` lets through; anything else raises InvalidName.

    A write is visible whole or not at all, and durable when the call returns. Raises Determinate or Indeterminate. No key may
    be the folder of another.
    """

    def put_bytes(self, key: str, data: bytes) -> None:
        """Write once: if the key exists the call succeeds and changes nothing."""

    def put_file(self, key: str, path: Path) -> None:
        """Write once from a local file, which stays and may be linked, not copied."""

    def put_stream(self, key: str, stream: ReadableBytes) -> int:
        """Write once from a stream read to its end; returns its size in bytes."""

    def read_bytes(self, key: str, *, size_max: int) -> bytes:
        """The whole object.

        Raises NotFound; LimitExceeded if larger than `size_max` bytes.
        """

    def read_end(self, key: str, *, bytes_max: int) -> bytes:
        """The last bytes of the object, at most `bytes_max` (1 or more).

        Nothing else is fetched. Raises NotFound.
        """

    def open(self, key: str) -> BinaryIO:
        """A stream over the object that can be sought, to be closed by the caller.

        Raises NotFound.
        """

    def stat(self, key: str) -> ObjectStat | None:
        """Size and time, or None if absent."""

    def materialize(self, key: str, path: Path) -> None:
        """Make the object readable at a local path that does not exist yet (link or copy).

        Raises NotFound, AlreadyExists. Anyone who gets it must not write to it.
        """

    def keys(self, prefix: str) -> Iterator[str]:
        """All keys that begin with `prefix`, in order of their ASCII texts, lazily.

        Files being written are left out.

        Raises InvalidName for a prefix that no key can have. Keys that come or go meanwhile may be listed or not.
        """

    def delete(self, key: str) -> None:
        """Remove; an absent key is success."""

    def write_ref(self, key: str, text: str) -> None:
        """Replace the small text at `key` atomically.

        Raises LimitExceeded above REF_BYTES_MAX bytes of UTF-8.
        """

    def replace_ref(self, key: str, text: str, *, expected: str | None) -> bool:
        """Write the text at `key` if its present text is `expected`; whether it is there.

        None: there is none.

        Of several that expect the same one wins, and one that arrives late, whenever that is, changes nothing. Raises as `write_ref`.
        """

    def exclusive(self, key: str) -> AbstractContextManager[None]:
        """A lock named by `key` that spans threads and processes.

        Held while the context is open, freed if its holder dies.

        Raises Determinate if it is not had within the store's patience.
        """

    def read_ref(self, key: str) -> str | None:
        """The text at `key`, or None.

        Raises LimitExceeded above REF_BYTES_MAX, Corrupt if it is not UTF-8.
        """

    def link(self, key: str, *, lifetime_s: int) -> str | None:
        """A URL that lets its holder read the object for `lifetime_s` seconds.

        None if this store makes none.

        Nothing is asked: the object may be absent.
        """


def check_key(key: str) -> None:
    """Raises InvalidName unless `key` is well-formed.

    One or more parts of ASCII letters, digits, `.`, `_` and `-`, joined by `/`.

    A part has at most PART_CHARACTERS_MAX characters and does not begin with a dot: such names are hidden in folders, where
    files being written have them.
    """
    if len(key) > KEY_CHARACTERS_MAX or _KEY.fullmatch(key) is None:
        raise InvalidName(
            f"not a key of an object: {key[:KEY_CHARACTERS_MAX]!r}", hint="keys are built by dataset_layout"
        )


def ref_bytes(key: str, text: str) -> bytes:
    """The text of a ref as it is stored.

    Raises LimitExceeded above REF_BYTES_MAX bytes.
    """
    data = text.encode()
    if len(data) > REF_BYTES_MAX:
        raise LimitExceeded(f"the text of ref {key} is too long", limit="ref_bytes_max", maximum=REF_BYTES_MAX)
    return data


def ref_text(key: str, data: bytes) -> str:
    """The text of a ref from its stored bytes. Raises Corrupt if they are none."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise Corrupt(f"ref {key} is not a text", object_name=key) from error


def check_prefix(prefix: str) -> None:
    """Raises InvalidName unless some key could begin with `prefix`."""
    if prefix and not prefix.endswith("/"):
        check_key(prefix)
    elif prefix:
        check_key(prefix[:-1])
