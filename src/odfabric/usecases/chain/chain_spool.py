"""A chain kept in a file while its direction is turned round.

Owns the file: blocks are met newest first, for each one names the one before it, and are judged oldest first. Invariant: memory holds
one block, whatever the length of the chain; each block is fetched once. Not here: what a block must be (`domain.chain`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from odfabric.domain.chain.walk import ChainLink, walk
from odfabric.errors import Corrupt, InvalidBlock, NotFound
from odfabric.formats.blocks.block import decode_block
from odfabric.model.commit import EncodedBlock
from odfabric.model.metadata import MetadataBlock
from odfabric.model.multihash import DIGEST_BYTES_MAX, Multihash, sha3_256_multihash
from odfabric.usecases.chain.repository import StoredBlocks

_LENGTH_BYTES = 4
_TRAILER_BYTES = DIGEST_BYTES_MAX + _LENGTH_BYTES


class _FetchedBlocks:
    """A `BlockSource` that keeps the bytes of what it fetched until they are taken."""

    def __init__(self, stored: StoredBlocks) -> None:
        self._stored = stored
        self._kept: dict[Multihash, bytes] = {}

    def get(self, block_hash: Multihash) -> MetadataBlock:
        """The decoded block. Raises Corrupt, naming it, if it is missing or damaged."""
        try:
            data = self._kept[block_hash] = self._stored.get_bytes(block_hash)
            return decode_block(data)
        except NotFound as error:
            raise Corrupt(f"block {block_hash} is missing", object_name=str(block_hash)) from error
        except InvalidBlock as error:
            raise Corrupt(f"block {block_hash} is unreadable: {error.message}", object_name=str(block_hash)) from error

    def take(self, block_hash: Multihash) -> bytes:
        """The bytes of a block that was fetched just now."""
        return self._kept.pop(block_hash)


class ChainSpool:
    """The blocks of `(tail, head]` in a file at `path`.

    `top` is the newest one, `count` how many there are.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.count = 0
        self.top: ChainLink | None = None

    def fill(self, stored: StoredBlocks, head: Multihash, *, tail: Multihash | None, blocks_max: int) -> Iterator[int]:
        """Fetch all blocks, newest first, telling how many there are so far.

        Raises Corrupt naming a block, ChainsDiverged if `tail` is not on the way, InvalidBlock, LimitExceeded.
        """
        fetched = _FetchedBlocks(stored)
        with self._path.open("xb") as file:
            for link in walk(fetched, head, tail=tail, blocks_max=blocks_max):
                data = fetched.take(link.hash)
                file.write(data + link.hash.digest + len(data).to_bytes(_LENGTH_BYTES, "big"))
                self.top = self.top or link
                self.count += 1
                yield self.count

    def oldest_first(self) -> Iterator[EncodedBlock]:
        """The blocks in the order in which they were made."""
        with self._path.open("rb") as file:
            end = file.seek(0, 2)
            while end:
                file.seek(end - _TRAILER_BYTES)
                trailer = file.read(_TRAILER_BYTES)
                digest, size = trailer[:DIGEST_BYTES_MAX], int.from_bytes(trailer[DIGEST_BYTES_MAX:], "big")
                end -= _TRAILER_BYTES + size
                file.seek(end)
                data = file.read(size)
                yield EncodedBlock(sha3_256_multihash(digest), data, decode_block(data))
