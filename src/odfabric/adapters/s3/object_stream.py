"""An object as a file that can be read and sought.

Owns the connection over which bytes come. Invariant: all bytes are of one version of the object, by its entity tag, also when a broken
connection is made again.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

from botocore.exceptions import BotoCoreError

from odfabric.adapters.s3.client import member
from odfabric.adapters.s3.guarded import BadAnswer
from odfabric.errors import Determinate

ATTEMPTS_MAX = 4
"""Connections without a single byte in between before reading fails."""

ReadFrom = Callable[[int, str | None], Any]


class ObjectStream(io.RawIOBase):
    """Opened when made: raises what `read_from` raises.

    Reading raises Determinate. `size` is that of the object in bytes, `version` its entity tag.
    """

    _body: Any = None

    def __init__(self, key: str, read_from: ReadFrom) -> None:
        """`read_from(position, version)` gives an answer of the SDK."""
        self._key = key
        self._read_from = read_from
        answer = read_from(0, None)
        self._body = answer["Body"]
        try:
            self.version = str(member(answer, "ETag", key))
            self.size = max(0, int(member(answer, "ContentLength", key)))
        except BaseException:
            self._drop()
            raise
        self._position = 0

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def tell(self) -> int:
        """Bytes before the next one."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Go there; the connection is made again when reading goes on."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self.size}[whence]
        target = max(0, start + offset)
        if target != self._position:
            self._drop()
            self._position = target
        return target

    def readinto(self, buffer: Any, /) -> int:
        """As many bytes as come at once, 0 at the end."""
        if self._position >= self.size:
            return 0
        data = self._next_bytes(len(buffer))
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)

    def close(self) -> None:
        """Close the connection."""
        self._drop()
        super().close()

    def _next_bytes(self, size: int) -> bytes:
        reason = "the connection ended early"
        for _ in range(ATTEMPTS_MAX):
            try:
                if self._body is None:
                    self._body = self._read_from(self._position, self.version)["Body"]
                if data := self._body.read(size):
                    return bytes(data)
            except BadAnswer as error:
                self._drop()
                raise Determinate(f"object {self._key}: {error}") from None
            except (BotoCoreError, OSError) as error:
                reason = type(error).__name__
            self._drop()
        raise Determinate(f"object {self._key}: {reason}")

    def _drop(self) -> None:
        if self._body is not None:
            self._body.close()
        self._body = None
