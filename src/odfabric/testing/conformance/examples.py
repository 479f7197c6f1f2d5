"""Datasets, blocks and messages for storage suites: links matter, not contents."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from odfabric.formats.blocks.block import block_hash, encode_block
from odfabric.model.commit import CatalogEntry, EncodedBlock, OutboxMessage
from odfabric.model.identity import DatasetAlias, DatasetId, Name
from odfabric.model.instant import Instant
from odfabric.model.metadata import DatasetKind, MetadataBlock, Seed, SetInfo
from odfabric.model.multihash import Multihash, sha3_256_multihash
from odfabric.ports.datasets.catalog import Catalog
from odfabric.ports.datasets.chain_reader import ChainReader
from odfabric.ports.datasets.chain_writer import ChainWriter
from odfabric.ports.datasets.removed_datasets import RemovedDatasets
from odfabric.ports.datasets.search_documents import SearchDocuments
from odfabric.ports.subscriptions.outbox import Outbox
from odfabric.ports.subscriptions.subscriptions import Deliveries, Subscriptions

NOW = Instant.parse("2026-03-01T12:00:00.123456789Z")


def later(millis: int) -> Instant:
    """`NOW` and some milliseconds."""
    return Instant(NOW.epoch_ns + millis * 1_000_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoragePorts:
    """The ports that share transactions."""

    chains: ChainWriter
    catalog: Catalog
    search_documents: SearchDocuments
    outbox: Outbox
    removed: RemovedDatasets
    subscriptions: Subscriptions
    deliveries: Deliveries


def hash_of(text: str) -> Multihash:
    """A block hash made from a text."""
    return sha3_256_multihash(hashlib.sha3_256(text.encode()).digest())


def _time(number: int, label: str) -> Instant:
    """Time of a block; labels differ by less than a millisecond.

    A seed has nothing else to differ by.
    """
    return Instant(later(number).epoch_ns + zlib.crc32(label.encode()) % 800_000)


def encoded(block: MetadataBlock) -> EncodedBlock:
    """A block with the bytes that it has in a store."""
    data = encode_block(block)
    return EncodedBlock(block_hash(data), data, block)


def entry_of(name: str, *, account: str = "local", dataset: DatasetId | None = None) -> CatalogEntry:
    """A catalog entry; the id comes from the name in lower case."""
    key = hashlib.sha3_256(f"{account}/{name}".lower().encode()).digest()
    return CatalogEntry(
        id=dataset or DatasetId(key),
        alias=DatasetAlias(Name(account), Name(name)),
        kind=DatasetKind.ROOT,
        created_at=NOW,
    )


@dataclass
class GrowingChain:
    """A dataset, what was committed to it through this object, and how to commit more."""

    chains: ChainWriter
    entry: CatalogEntry
    blocks: list[EncodedBlock] = field(default_factory=list)

    @property
    def id(self) -> DatasetId:
        """The dataset."""
        return self.entry.id

    @property
    def head(self) -> Multihash | None:
        """The last block that was committed here."""
        return self.blocks[-1].hash if self.blocks else None

    def next_blocks(self, count: int = 1, *, label: str = "") -> list[EncodedBlock]:
        """Blocks that would follow the head; other labels give other hashes."""
        made: list[EncodedBlock] = []
        for number in range(len(self.blocks), len(self.blocks) + count):
            first = Seed(dataset_id=self.id, dataset_kind=self.entry.kind)
            event = SetInfo(description=label) if number else first
            block = MetadataBlock(
                system_time=_time(number, label),
                prev_block_hash=made[-1].hash if made else self.head,
                sequence_number=number,
                event=event,
            )
            made.append(encoded(block))
        return made

    def message(self, blocks: Sequence[EncodedBlock]) -> OutboxMessage:
        """The message of a move to the last of `blocks`."""
        return OutboxMessage(self.id, blocks[0].block.prev_block_hash, blocks[-1].hash, blocks[0].block.system_time)

    def grow(self, count: int = 1, *, label: str = "") -> list[EncodedBlock]:
        """Commit the next blocks, the first ones with the entry."""
        blocks = self.next_blocks(count, label=label)
        self.chains.append(
            self.id,
            expected=self.head,
            blocks=blocks,
            message=self.message(blocks),
            entry=None if self.blocks else self.entry,
        )
        self.blocks += blocks
        return blocks

    def remove(self) -> None:
        """Remove the dataset."""
        assert self.head is not None
        self.chains.remove(self.id, expected=self.head, message=OutboxMessage(self.id, self.head, None, NOW))


def new_chain(chains: ChainWriter, name: str = "flights", *, blocks: int = 1, account: str = "local") -> GrowingChain:
    """A dataset with some blocks."""
    chain = GrowingChain(chains, entry_of(name, account=account))
    chain.grow(blocks)
    return chain


def hashes_down(chains: ChainReader, dataset: DatasetId) -> list[Multihash]:
    """Hashes of the index, newest first."""
    return [row.hash for row in chains.rows_down(dataset)]
