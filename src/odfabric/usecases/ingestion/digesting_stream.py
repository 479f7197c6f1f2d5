"""Bytes in portions as a stream for a store, hashed on their way."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator


class DigestingStream:
    """A ReadableBytes over portions; `digest` is SHA3-256 of what was read."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = b""
        self.digest = hashlib.sha3_256()

    def read(self, size: int = -1, /) -> bytes:
        """At least one byte unless the end is reached.

        Never more than `size` if that is not negative.
        """
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return b""
            self.digest.update(chunk)
            self._rest = chunk
        cut = len(self._rest) if size < 0 else size
        out, self._rest = self._rest[:cut], self._rest[cut:]
        return out
