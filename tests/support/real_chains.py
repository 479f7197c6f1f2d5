"""Chains with real slices and checkpoints, published or planted in a node.

In a memory node, also where they break every rule.

Owns making, changing and planting. Invariant: blocks link and hash to their names, whatever else is wrong with them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from odfabric.adapters.memory.datasets.chains import MemoryChains
from odfabric.domain.chain.state import ChainState, apply
from odfabric.formats.blocks.block import block_hash, encode_block
from odfabric.formats.identifiers.dataset_layout import BLOCKS, CHECKPOINTS, DATA, HEAD, dataset_prefix
from odfabric.formats.identifiers.physical_hash import physical_hash
from odfabric.formats.slices.logical_hash import logical_hash_of_parquet
from odfabric.formats.slices.slice_parquet import SliceWriter
from odfabric.formats.slices.slice_schema import TIMESTAMP_TYPE, new_slice_schema
from odfabric.model.commit import CatalogEntry, EncodedBlock, OutboxMessage
from odfabric.model.identity import DatasetAlias, Name
from odfabric.model.instant import Instant
from odfabric.model.metadata import (
    Checkpoint,
    DatasetKind,
    DataSlice,
    MetadataBlock,
    MetadataEvent,
    OffsetInterval,
    Seed,
)
from odfabric.model.multihash import Multihash
from odfabric.model.vocabulary import DatasetVocabulary
from odfabric.testing.chains import START, example_id
from odfabric.testing.memory_node import MemoryNode

COLUMNS = new_slice_schema([pa.field("city", pa.string())], vocabulary=DatasetVocabulary())
STEP_MS = 1000


def table(
    first: int,
    operations: Sequence[int],
    *,
    moment: Instant,
    columns: pa.Schema = COLUMNS,
    **changed: Any,
) -> pa.Table:
    """Rows of a slice from offset `first` written at a moment, one for each operation.

    Columns may be replaced by name.
    """
    count = len(operations)
    values: dict[str, Any] = {
        "offset": list(range(first, first + count)),
        "op": list(operations),
        "system_time": pa.array([moment.millis] * count).cast(TIMESTAMP_TYPE),
        "event_time": pa.array([START.millis + number for number in range(count)]).cast(TIMESTAMP_TYPE),
        "city": [f"city {first + number}" for number in range(count)],
    }
    values |= changed
    return pa.table([pa.array(values[one.name], one.type) for one in columns], schema=columns)


@dataclass
class RealChain:
    """A chain that grows by any blocks.

    `files` are its objects by their paths below the dataset.
    """

    folder: Path
    kind: DatasetKind = DatasetKind.ROOT
    name: str = "dataset"
    blocks: list[EncodedBlock] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    state: ChainState = field(default_factory=ChainState.empty)

    def __post_init__(self) -> None:
        self.add(Seed(dataset_id=example_id(self.name), dataset_kind=self.kind))

    @property
    def next_time(self) -> Instant:
        """System time of the next block."""
        return START if self.state.system_time is None else Instant.from_millis(self.state.system_time.millis + STEP_MS)

    def add(self, *events: MetadataEvent, system_time: Instant | None = None) -> None:
        """Append events whether or not the chain admits them, all at one time."""
        moment = system_time or self.next_time
        for event in events:
            encoded = _encoded(self.blocks[-1] if self.blocks else None, event, moment)
            self.blocks.append(encoded)
            self.state = apply(self.state, encoded.hash, encoded.block)

    def slice(self, rows: pa.Table) -> DataSlice:
        """Keep rows as a slice; described as they are."""
        path = self.folder / f"slice-{self.name}-{len(self.files)}"
        with SliceWriter(path, rows.schema) as writer:
            for batch in rows.to_batches():
                writer.write(batch)
        name, size = physical_hash(path)
        self.files[f"{DATA}/{name}"] = path.read_bytes()
        offsets = rows.column("offset")
        interval = OffsetInterval(start=offsets[0].as_py(), end=offsets[-1].as_py())
        logical = logical_hash_of_parquet(path).multihash
        return DataSlice(logical_hash=logical, physical_hash=name, offset_interval=interval, size=size)

    def next_slice(self, *operations: int, **changed: Any) -> DataSlice:
        """A slice that continues the chain."""
        return self.slice(table(self.state.next_offset, operations or (0,), moment=self.next_time, **changed))

    def checkpoint(self, text: str) -> Checkpoint:
        """Keep a text as a checkpoint."""
        path = self.folder / f"checkpoint-{self.name}-{text}"
        path.write_text(text)
        name, size = physical_hash(path)
        self.files[f"{CHECKPOINTS}/{name}"] = path.read_bytes()
        return Checkpoint(physical_hash=name, size=size)


def relinked(blocks: Sequence[EncodedBlock], position: int, changed: MetadataBlock) -> list[EncodedBlock]:
    """The chain with another block at a position, relinked and hashed after it."""
    found = list(blocks[:position])
    found.append(_as_encoded(changed))
    for encoded in blocks[position + 1 :]:
        found.append(_as_encoded(replace(encoded.block, prev_block_hash=found[-1].hash)))
    return found


def remote_files(blocks: Iterable[EncodedBlock], files: dict[str, bytes]) -> dict[str, bytes]:
    """What a peer serves of a chain; `files` are its other objects."""
    served = dict(files)
    for encoded in blocks:
        served[f"{BLOCKS}/{encoded.hash}"] = encoded.data
        served[HEAD] = str(encoded.hash).encode()
    return served


def plant(memory: MemoryNode, blocks: Sequence[EncodedBlock], files: dict[str, bytes]) -> CatalogEntry:
    """Put an unchecked chain into the node, like one from before the rules."""
    seed = blocks[0].block.event
    assert isinstance(seed, Seed)
    prefix = dataset_prefix(seed.dataset_id)
    for path, data in remote_files(blocks, files).items():
        if path != HEAD:
            memory.objects.put_bytes(prefix + path, data)
    alias = DatasetAlias(memory.node.account, Name("planted"))
    entry = CatalogEntry(id=seed.dataset_id, alias=alias, kind=seed.dataset_kind, created_at=START)
    message = OutboxMessage(seed.dataset_id, None, blocks[-1].hash, START)
    MemoryChains(memory.store).append(seed.dataset_id, expected=None, blocks=blocks, message=message, entry=entry)
    memory.restart()
    memory.node.commits.publish(seed.dataset_id)
    return entry


def hashes(blocks: Iterable[EncodedBlock]) -> list[Multihash]:
    """The names of blocks in their order."""
    return [encoded.hash for encoded in blocks]


def _encoded(last: EncodedBlock | None, event: MetadataEvent, system_time: Instant) -> EncodedBlock:
    return _as_encoded(
        MetadataBlock(
            system_time=system_time,
            prev_block_hash=last.hash if last else None,
            sequence_number=last.block.sequence_number + 1 if last else 0,
            event=event,
        )
    )


def _as_encoded(block: MetadataBlock) -> EncodedBlock:
    data = encode_block(block)
    return EncodedBlock(block_hash(data), data, block)
