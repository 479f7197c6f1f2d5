"""Several blocks in one answer: each block's length, then its bytes.

Owns the body of an answer to the request header `odf-blocks`, media type `MEDIA_TYPE`: for each block an unsigned length of four bytes, least
significant first, then the block as it is stored. The block asked for comes first, then its predecessors, newest first. Not here: whether a
block hashes to its name, which its reader checks.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from odfabric.errors import CorruptedSource

MEDIA_TYPE = "application/vnd.odfabric.blocks"
HEADER = "odf-blocks"
"""Request header: how many blocks may come at once. A server that does not know it answers with the one block."""

COUNT_MAX = 1000
"""Blocks of one answer at most."""
BYTES_MAX = 4 * 1024 * 1024
"""An answer ends with the block that brings it to so many bytes."""

_LENGTH = struct.Struct("<I")


def write_stretch(blocks: Iterable[bytes]) -> bytes:
    """The body for these blocks, newest first."""
    return b"".join(part for data in blocks for part in (_LENGTH.pack(len(data)), data))


def read_stretch(body: bytes, *, count_max: int, block_bytes_max: int) -> list[bytes]:
    """The blocks of a body, newest first; at least one.

    Raises CorruptedSource for a body that is cut off, empty, or has more or larger blocks than the limits allow.
    """
    blocks: list[bytes] = []
    place = 0
    while place < len(body):
        if len(blocks) == count_max:
            raise CorruptedSource(f"more than the {count_max} blocks that were asked for came at once")
        if place + _LENGTH.size > len(body):
            raise CorruptedSource("an answer with several blocks is cut off")
        (size,) = _LENGTH.unpack_from(body, place)
        place += _LENGTH.size
        if size > block_bytes_max:
            raise CorruptedSource(f"a block of {size} bytes came, {block_bytes_max} are allowed")
        if place + size > len(body):
            raise CorruptedSource("an answer with several blocks is cut off")
        blocks.append(body[place : place + size])
        place += size
    if not blocks:
        raise CorruptedSource("an answer with several blocks has none")
    return blocks
