"""A chain that arrives from elsewhere: head, blocks as received, object source.

Invariant: nothing of it is believed. A block is handed on only if its bytes hash to its name; what else is wrong with it is found by the rules
of chains (`receive_chain`). The two protocols differ in how they fill this, and in nothing after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from odfabric.domain.chain.walk import BlockSource, walk
from odfabric.errors import CorruptedSource, NotFound
from odfabric.formats.blocks.block import block_hash, decode_block
from odfabric.model.commit import EncodedBlock
from odfabric.model.metadata import MetadataBlock, MetadataEvent
from odfabric.model.multihash import Multihash
from odfabric.usecases.heads.judge_log import LogPlace

MEMORY_BYTES_MAX = 64 * 1024 * 1024
"""Blocks of one peer, encoded, that stay in memory."""
AHEAD_MAX = 256
"""Blocks that are asked for at once."""


class ObjectSource(Protocol):
    """Gives objects that received blocks name.

    `ports.sources.egress.RemoteDataset` is one.
    """

    def download(self, folder: str, object_hash: Multihash, *, size_max: int, into: Path) -> int:
        """Object of `data` or `checkpoints` into a new file; its size.

        Raises NotFound, LimitExceeded, Determinate, leaving no file.
        """


class BlockServer(Protocol):
    """Gives bytes that somebody says are a block.

    `ports.sources.egress.RemoteDataset` is one.
    """

    def block(self, block_hash: Multihash) -> bytes:
        """Bytes served for a block. Raises NotFound."""


class ChainServer(BlockServer, Protocol):
    """Gives blocks with predecessors; `ports.sources.egress.RemoteDataset` is one."""

    def blocks(self, block_hash: Multihash, *, count_max: int) -> Sequence[bytes]:
        """Bytes served for a block, then for some of its predecessors, newest first.

        From one to `count_max`. Raises NotFound, CorruptedSource.
        """


class EncodedBlocks(Protocol):
    """Blocks by hash with the very bytes that were received; a `BlockSource`."""

    def get(self, block_hash: Multihash) -> MetadataBlock:
        """The decoded block. Raises NotFound, CorruptedSource, InvalidBlock."""

    def get_bytes(self, name: Multihash) -> bytes:
        """Its bytes, which hash to the name. Raises NotFound, CorruptedSource."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrivingChain:
    """The chain that ends at `head`.

    `shown` names its source in messages; it holds no secret. `log` is where its head log is read, if that place has logs; with `leads` the
    chain may be followed from a newer head than `head`, if the log has signed one.
    """

    head: Multihash
    blocks: EncodedBlocks
    objects: ObjectSource
    shown: str
    log: LogPlace | None = None
    leads: bool = False


class ReceivedBlocks:
    """Blocks that a peer serves: each is asked for once, predecessors perhaps with it.

    How many may come at once doubles with each answer up to `AHEAD_MAX`, so that a pull of few new blocks asks for few that are here already.

    Those of a chain that is taken over are in memory until it is committed, decoded, so they are kept that way; what exceeds
    `MEMORY_BYTES_MAX`, which a peer may serve without end, is kept in a folder.
    """

    def __init__(
        self,
        server: BlockServer,
        folder: Path,
        known: Iterable[EncodedBlock] = (),
        *,
        chain: ChainServer | None = None,
    ) -> None:
        """`known`: blocks that need not be asked for; they hash to their names.

        `chain`: the server, if it may be asked for predecessors, since a whole chain is walked.
        """
        self._server = server
        self._chain = chain
        self._ahead = 1
        self._folder = folder
        self._known = {each.hash: each for each in known}
        self._bytes = 0

    def get_bytes(self, name: Multihash) -> bytes:
        """The bytes of a block.

        Raises CorruptedSource if it is missing or does not hash to its name, InvalidBlock.
        """
        return self._block(name).data

    def get(self, name: Multihash) -> MetadataBlock:
        """The decoded block. Raises CorruptedSource, InvalidBlock."""
        return self._block(name).block

    def _block(self, name: Multihash) -> EncodedBlock:
        found = self._known.get(name)
        if found is not None:
            return found
        path = self._folder / f"block-{name}"
        if self._bytes > MEMORY_BYTES_MAX and path.exists():
            return received_block(name, path.read_bytes())
        try:
            received = self._asked(name)
        except NotFound as error:
            raise CorruptedSource(f"source metadata chain is broken: block {name} is missing") from error
        found = self._keep(name, received[0])
        before = found
        for data in received[1:]:
            previous = before.block.prev_block_hash
            if previous is None:
                raise CorruptedSource(f"the source serves a block before {before.hash}, which begins the chain")
            before = self._known.get(previous) or self._keep(previous, data)
        return found

    def _asked(self, name: Multihash) -> Sequence[bytes]:
        if self._chain is None:
            return [self._server.block(name)]
        count, self._ahead = self._ahead, min(2 * self._ahead, AHEAD_MAX)
        return self._chain.blocks(name, count_max=count)

    def _keep(self, name: Multihash, data: bytes) -> EncodedBlock:
        """A block that came; it is kept. Raises CorruptedSource, InvalidBlock."""
        found = received_block(name, data)
        self._bytes += len(data)
        if self._bytes > MEMORY_BYTES_MAX:
            (self._folder / f"block-{name}").write_bytes(data)
        else:
            self._known[name] = found
        return found


def received_block(name: Multihash, data: bytes) -> EncodedBlock:
    """A block of which a peer says that it has this name.

    Raises CorruptedSource if its bytes do not hash to it, InvalidBlock.
    """
    if block_hash(data) != name:
        raise CorruptedSource(
            f"the block served as {name} does not hash to its name",
            hint="the source may re-encode blocks that an older version wrote",
        )
    return EncodedBlock(name, data, decode_block(data))


def oldest_event(blocks: BlockSource, head: Multihash, *, blocks_max: int) -> MetadataEvent | None:
    """The event of the first block of a chain, which should be a Seed."""
    oldest = None
    for link in walk(blocks, head, blocks_max=blocks_max):
        oldest = link.block.event
    return oldest
