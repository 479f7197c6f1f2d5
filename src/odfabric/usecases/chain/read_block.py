"""One block for people: its event, its neighbours, and what its rows do.

Invariant: what is said of rows is counted in the very slice that the block names, hashed on the way.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import pyarrow.compute as pc

from odfabric.errors import LimitExceeded, NotFound
from odfabric.formats.identifiers.dataset_layout import DATA
from odfabric.formats.slices.slice_parquet import open_slice
from odfabric.model.commit import BlockRow, CatalogEntry
from odfabric.model.metadata import AddData, DataSlice, ExecuteTransform, MetadataBlock
from odfabric.model.multihash import Multihash
from odfabric.model.vocabulary import DatasetVocabulary
from odfabric.ports.datasets.exchange import Exchange
from odfabric.usecases.chain.repository import Repository

COMPARED_BLOCKS_MAX = 1000
"""Most blocks between two that are compared: the slices of all of them are read."""


@dataclass(frozen=True, slots=True)
class ReadBlock:
    """A block and where it stands. `following` is None at the head."""

    hash: Multihash
    block: MetadataBlock
    following: BlockRow | None

    @property
    def data(self) -> DataSlice | None:
        """The rows that came with it."""
        event = self.block.event
        return event.new_data if isinstance(event, AddData | ExecuteTransform) else None


def read_block(entry: CatalogEntry, wanted: Multihash, *, repository: Repository) -> ReadBlock:
    """A block of this very chain. Raises NotFound, Corrupt."""
    row = repository.chains.row(entry.id, wanted)
    if row is None:
        raise NotFound("block", str(wanted), hint=f"it is not in the chain of {entry.alias}")
    above = repository.chains.rows_down(entry.id, from_sequence=row.sequence_number + 1)
    following = next(iter(above), None)
    if following is not None and following.sequence_number == row.sequence_number:
        following = None
    return ReadBlock(wanted, repository.blocks(entry.id).get(wanted), following)


def read_blocks(
    entry: CatalogEntry,
    *,
    below: int | None,
    event_types: frozenset[str] | None,
    limit: int,
    repository: Repository,
) -> list[ReadBlock]:
    """At most `limit` blocks of some events, newest first, below number `below`.

    Raises Corrupt. Numbers are sequence numbers.
    """
    start = None if below is None else below - 1
    if start is not None and start < 0:
        return []
    rows = repository.chains.rows_down(entry.id, from_sequence=start, event_types=event_types)
    blocks = repository.blocks(entry.id)
    return [ReadBlock(row.hash, blocks.get(row.hash), None) for row in islice(rows, limit)]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Blocks between two of one chain, newest first, and rows by value of `op`."""

    older: ReadBlock
    newer: ReadBlock
    blocks: tuple[ReadBlock, ...]
    operations: dict[int, int]


def compare_blocks(
    entry: CatalogEntry, one: Multihash, another: Multihash, *, repository: Repository, exchange: Exchange
) -> Comparison:
    """The changes after the older block up to and with the newer one.

    Raises NotFound, LimitExceeded, Corrupt.
    """
    found = (read_block(entry, wanted, repository=repository) for wanted in (one, another))
    older, newer = sorted(found, key=lambda each: each.block.sequence_number)
    count = newer.block.sequence_number - older.block.sequence_number
    if count > COMPARED_BLOCKS_MAX:
        raise LimitExceeded(
            f"there are {count} blocks between the two: choose blocks that are nearer to each other",
            limit="compared_blocks_max",
            maximum=COMPARED_BLOCKS_MAX,
        )
    top = newer.block.sequence_number + 1
    blocks = read_blocks(entry, below=top, event_types=None, limit=count, repository=repository)
    operations: dict[int, int] = {}
    for each in blocks:
        if each.data is not None:
            for op, rows in count_operations(entry, each.data, repository=repository, exchange=exchange).items():
                operations[op] = operations.get(op, 0) + rows
    return Comparison(older, newer, tuple(blocks), operations)


def count_operations(
    entry: CatalogEntry, data: DataSlice, *, repository: Repository, exchange: Exchange
) -> dict[int, int]:
    """How many rows of a slice have each value of `op`. Raises Corrupt."""
    _, state = repository.current(entry.id)
    with exchange.session() as folder:
        path = folder / str(data.physical_hash)
        repository.materialize(entry.id, DATA, data.physical_hash, path)
        return count_in_file(path, state.vocabulary)


def count_in_file(path: Path, vocabulary: DatasetVocabulary) -> dict[int, int]:
    """The same of a slice file. Raises InvalidData."""
    counted: dict[int, int] = {}
    with open_slice(path, vocabulary) as reader:
        for batch in reader.batches([vocabulary.operation_type]):
            for each in pc.value_counts(batch.column(0)).to_pylist():
                counted[each["values"]] = counted.get(each["values"], 0) + each["counts"]
    return counted
