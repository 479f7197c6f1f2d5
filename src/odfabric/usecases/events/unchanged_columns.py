"""Columns in which a move of a head changed nothing.

Invariant: rows that come or go change every column; a move that is too large to be compared changes every column. Not here: which
subscriptions look at which columns (`usecases.events.filter_moves`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from odfabric.domain.chain.walk import walk
from odfabric.formats.identifiers.dataset_layout import DATA
from odfabric.formats.slices.slice_parquet import open_slice
from odfabric.model.identity import DatasetId
from odfabric.model.metadata import AddData, DataSlice, ExecuteTransform
from odfabric.model.multihash import Multihash
from odfabric.model.operation import OperationType
from odfabric.model.vocabulary import DatasetVocabulary
from odfabric.ports.datasets.exchange import Exchange
from odfabric.usecases.chain.head_move import BLOCKS_READ_MAX
from odfabric.usecases.chain.repository import Repository

BATCH_BYTES_MAX = 16 * 1024 * 1024
"""Rows that are compared at once."""

ALL_CHANGED: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class UnchangedColumns:
    """Compares corrected rows with those that they replace.

    `bytes_max` bounds the slices of a move together.
    """

    repository: Repository
    exchange: Exchange
    bytes_max: int

    def of_move(self, dataset: DatasetId, old_head: Multihash | None, new_head: Multihash) -> frozenset[str]:
        """Columns with the same values before and after `(old_head, new_head]`.

        Raises ChainsDiverged, LimitExceeded for a move that does not go forwards or is too long; NotFound, Corrupt, InvalidBlock,
        InvalidData for what cannot be read, Determinate.
        """
        slices = self._slices(dataset, old_head, new_head)
        if not slices or sum(each.size for each in slices) > self.bytes_max:
            return ALL_CHANGED
        _, state = self.repository.current(dataset)
        found: frozenset[str] | None = None
        for each in slices:
            same = self._of_slice(dataset, each, state.vocabulary)
            found = same if found is None else found & same
            if not found:
                break
        return found or ALL_CHANGED

    def _slices(self, dataset: DatasetId, old_head: Multihash | None, new_head: Multihash) -> list[DataSlice]:
        links = walk(self.repository.blocks(dataset), new_head, tail=old_head, blocks_max=BLOCKS_READ_MAX)
        events = [link.block.event for link in links]
        return [
            event.new_data
            for event in events
            if isinstance(event, AddData | ExecuteTransform) and event.new_data is not None
        ]

    def _of_slice(self, dataset: DatasetId, data: DataSlice, vocabulary: DatasetVocabulary) -> frozenset[str]:
        with self.exchange.session() as folder:
            path = folder / "slice"
            self.repository.materialize(dataset, DATA, data.physical_hash, path)
            with open_slice(path, vocabulary) as reader:
                return unchanged_columns(reader.batches(bytes_max=BATCH_BYTES_MAX), vocabulary)


def unchanged_columns(batches: Iterable[pa.RecordBatch], vocabulary: DatasetVocabulary) -> frozenset[str]:
    """Columns of a slice's rows that every correction leaves as they were.

    In order: their value is the same in each correction and in the row that it corrects.

    None at all as soon as one row is neither, or has no partner beside it.
    """
    same: set[str] | None = None
    rest: pa.Table | None = None
    for batch in batches:
        table = pa.Table.from_batches([batch])
        table = pa.concat_tables([rest, table]) if rest is not None else table
        paired = table.num_rows - table.num_rows % 2
        rest = table.slice(paired)
        old, new = (_every_second(table, first, paired) for first in (0, 1))
        if not _all_are(old, OperationType.CORRECT_FROM, vocabulary) or not _all_are(
            new, OperationType.CORRECT_TO, vocabulary
        ):
            return ALL_CHANGED
        names = same if same is not None else set(table.column_names)
        same = {name for name in names if old[name].equals(new[name])}
        if not same:
            return ALL_CHANGED
    if rest is None or rest.num_rows or same is None:
        return ALL_CHANGED
    return frozenset(same)


def _every_second(table: pa.Table, first: int, end: int) -> pa.Table:
    return table.take(pa.array(np.arange(first, end, 2)))


def _all_are(rows: pa.Table, operation: OperationType, vocabulary: DatasetVocabulary) -> bool:
    found = rows[vocabulary.operation_type].to_numpy()
    return bool((found == operation.value).all())
