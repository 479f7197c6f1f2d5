"""A stretch of a chain, read back from the objects.

Owns the way from a head down to a block that is known. Invariant: every block hashes to its name and follows the one before; memory
holds the newest blocks and, of the others, the digests only.
"""

from __future__ import annotations

from collections.abc import Iterator

from odfabric.domain.chain.walk import walk
from odfabric.errors import Corrupt, InvalidBlock, NotFound
from odfabric.formats.blocks.block import block_hash, decode_block
from odfabric.formats.identifiers.dataset_layout import block_key
from odfabric.model.commit import EncodedBlock
from odfabric.model.identity import DatasetId
from odfabric.model.metadata import MetadataBlock
from odfabric.model.multihash import DIGEST_BYTES_MAX, Multihash, sha3_256_multihash
from odfabric.ports.datasets.object_store import ObjectStore

KEPT_BLOCKS_MAX = 1000


class BlocksInStore:
    """Blocks of a dataset by hash.

    A `BlockSource` that remembers the one that was read last.
    """

    def __init__(self, dataset: DatasetId, objects: ObjectStore, *, block_bytes_max: int) -> None:
        self._dataset = dataset
        self._objects = objects
        self._block_bytes_max = block_bytes_max
        self._last: EncodedBlock | None = None

    def get(self, block_hash: Multihash) -> MetadataBlock:
        """The decoded block. Raises Corrupt."""
        return self.encoded(block_hash).block

    def encoded(self, name: Multihash) -> EncodedBlock:
        """The block with its bytes. Raises Corrupt if it is missing, damaged or another."""
        if self._last is None or self._last.hash != name:
            self._last = self._read(name)
        return self._last

    def _read(self, name: Multihash) -> EncodedBlock:
        try:
            data = self._objects.read_bytes(block_key(self._dataset, name), size_max=self._block_bytes_max)
            if block_hash(data) != name:
                raise Corrupt(f"block {name} of {self._dataset} does not hash to its name", object_name=str(name))
            return EncodedBlock(name, data, decode_block(data))
        except NotFound as error:
            raise Corrupt(f"block {name} of {self._dataset} is missing", object_name=str(name)) from error
        except InvalidBlock as error:
            raise Corrupt(f"block {name} is unreadable: {error.message}", object_name=str(name)) from error


class Stretch:
    """The blocks of `(tail, head]`.

    Raises as `walk` does when it is made: ChainsDiverged if `tail` is not on the way.
    """

    def __init__(self, blocks: BlocksInStore, head: Multihash, *, tail: Multihash | None, blocks_max: int) -> None:
        self._blocks = blocks
        self._newest: list[EncodedBlock] = []
        self._digests = bytearray()
        for link in walk(blocks, head, tail=tail, blocks_max=blocks_max):
            if len(self._newest) < KEPT_BLOCKS_MAX:
                self._newest.append(EncodedBlock(link.hash, blocks.encoded(link.hash).data, link.block))
            self._digests += link.hash.digest

    def __len__(self) -> int:
        return len(self._digests) // DIGEST_BYTES_MAX

    def position(self, block: Multihash) -> int | None:
        """Where a block stands, the oldest at 0; None if it is not there."""
        for newer in range(len(self)):
            if self._name(newer) == block:
                return len(self) - 1 - newer
        return None

    def at(self, position: int) -> EncodedBlock:
        """The block at a position, the oldest at 0."""
        newer = len(self) - 1 - position
        return self._newest[newer] if newer < len(self._newest) else self._blocks.encoded(self._name(newer))

    def oldest_first(self, count: int) -> Iterator[EncodedBlock]:
        """The first `count` blocks in the order in which they were made."""
        return map(self.at, range(count))

    def _name(self, newer: int) -> Multihash:
        begin = newer * DIGEST_BYTES_MAX
        return sha3_256_multihash(bytes(self._digests[begin : begin + DIGEST_BYTES_MAX]))
