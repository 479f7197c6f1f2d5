"""Writes an answer into a file that afterwards exists whole or not at all."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from odfabric.errors import Determinate


def write_new_file(pieces: Iterable[bytes], into: Path) -> int:
    """Write to `into`, which must not exist; returns its size in bytes.

    Raises Determinate if it cannot be written, and what `pieces` raises; the file is gone then.
    """
    size = 0
    try:
        with into.open("xb") as file:
            try:
                for piece in pieces:
                    size += file.write(piece)
            except BaseException:
                with suppress(OSError):
                    into.unlink()
                raise
    except OSError as error:
        raise Determinate(f"{into.name} cannot be written: {error.strerror}") from None
    return size
