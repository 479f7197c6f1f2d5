"""How large objects are cut: S3 takes at most 10,000 parts of at least 5 MiB.

Owns the sizes. Invariant: an object of any size that S3 can hold fits, and memory holds one part at a time.
"""

from __future__ import annotations

from dataclasses import dataclass

from odfabric.ports.datasets.object_store import ReadableBytes

MIB = 1024 * 1024
PARTS_MAX = 10_000
FIRST_BYTES = 8 * MIB
GROW_EVERY = 1000
"""Parts of one size, where the size of the whole is not known: the next ones are twice as large."""


@dataclass(frozen=True, slots=True)
class PartSizes:
    """Bytes of each part; the first one decides whether there are parts at all."""

    first: int = FIRST_BYTES
    grows: bool = True

    @classmethod
    def of(cls, size: int) -> PartSizes:
        """For a whole of `size` bytes."""
        return cls(max(FIRST_BYTES, -(-size // PARTS_MAX)), grows=False)

    def at(self, number: int) -> int:
        """Bytes of part `number`, counted from 1."""
        return self.first << ((number - 1) // GROW_EVERY) if self.grows else self.first


def read_piece(stream: ReadableBytes, size: int) -> bytes:
    """Exactly `size` bytes, fewer at the end only."""
    pieces = []
    missing = size
    while missing and (piece := stream.read(missing)):
        pieces.append(piece)
        missing -= len(piece)
    return b"".join(pieces)
