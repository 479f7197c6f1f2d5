"""Replay slices of a chain: their changes in turn, and what they add up to.

Invariant: memory holds one slice, the rows that are left, and about as many changes again - never a whole history. Each slice is hashed
on the way. Not here: the index, which gets to the same rows without a replay.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from odfabric.domain.chain.walk import data_slices_down
from odfabric.errors import Corrupt, InvalidData, LimitExceeded
from odfabric.formats.identifiers.dataset_layout import DATA
from odfabric.formats.slices.state_rows import Changes, Records, added_up, read_records, split_by_keys
from odfabric.model.identity import DatasetId
from odfabric.model.metadata import DataSlice
from odfabric.model.multihash import Multihash
from odfabric.model.vocabulary import DatasetVocabulary
from odfabric.ports.datasets.exchange import Exchange
from odfabric.usecases.chain.repository import Repository

ADD_UP_ROWS_MIN = 100_000
"""Changes are added up when there are as many of them as rows that are left, but not for fewer than this."""

KEPT_APART_ROWS_MAX = 1_000_000
"""Changes of a state that is there are added up together with it, but for more than this."""


def slices_up(
    dataset: DatasetId, head: Multihash, *, after: Multihash | None, repository: Repository, blocks_max: int
) -> Sequence[DataSlice]:
    """Data slices of (after, head], oldest first. Raises as `walk`.

    ChainsDiverged, LimitExceeded.
    """
    return list(data_slices_down(repository.blocks(dataset), head, tail=after, blocks_max=blocks_max))[::-1]


def changes_of(
    dataset: DatasetId,
    slices: Iterable[DataSlice],
    columns: pa.Schema,
    vocabulary: DatasetVocabulary,
    *,
    repository: Repository,
    exchange: Exchange,
) -> Iterator[Changes]:
    """The changes of each slice.

    Raises Corrupt for a slice that is missing, damaged, or does not fit the columns.
    """
    for records in records_of(dataset, slices, columns, vocabulary, repository=repository, exchange=exchange):
        yield records.as_changes()


def records_of(
    dataset: DatasetId,
    slices: Iterable[DataSlice],
    columns: pa.Schema,
    vocabulary: DatasetVocabulary,
    *,
    repository: Repository,
    exchange: Exchange,
) -> Iterator[Records]:
    """The records of each slice. Raises as `changes_of`."""
    for data in slices:
        with exchange.session() as folder:
            path = folder / str(data.physical_hash)
            repository.materialize(dataset, DATA, data.physical_hash, path)
            try:
                found = read_records(path, columns, vocabulary)
            except InvalidData as error:
                message = f"data object {data.physical_hash} of {dataset} cannot be read: {error.message}"
                raise Corrupt(message, object_name=str(data.physical_hash)) from error
        yield found


def net_rows(
    base: Iterable[pa.Table], changes: Iterable[Changes], columns: pa.Schema, *, rows_max: int
) -> tuple[pa.Table, pa.Array]:
    """Rows of `base` after changes: each once with its count, negative if unmatched.

    Raises LimitExceeded if more than `rows_max` rows are left.
    """
    pieces = [(rows, _once_each(rows.num_rows)) for rows in base]
    left, waiting = sum(rows.num_rows for rows, _ in pieces), 0
    for one in changes:
        pieces.append((one.rows, one.diffs))
        waiting += one.rows.num_rows
        if waiting >= max(left, ADD_UP_ROWS_MIN):
            rows, counts = added_up(pieces, columns)
            pieces, left, waiting = [(rows, pa.chunked_array([counts]))], rows.num_rows, 0
            _check_rows(left, rows_max)
    rows, counts = added_up(pieces, columns)
    _check_rows(rows.num_rows, rows_max)
    return rows, counts


def applied(
    base: Sequence[pa.Table], changes: Iterable[Changes], columns: pa.Schema, keys: Sequence[str], *, rows_max: int
) -> tuple[pa.Table, pa.Array]:
    """As `net_rows` for a `base` of which every row is there once.

    Only rows with a key that changes are added up: the others stay as they are.
    """
    pieces, stays = _few_pieces(changes, columns), []
    changed = pa.concat_tables([rows for rows, _ in pieces]) if pieces else columns.empty_table()
    for rows in base:
        touched, other = split_by_keys(rows, changed, keys) if changed.num_rows else (rows.slice(0, 0), rows)
        pieces.append((touched, _once_each(touched.num_rows)))
        stays.append(other)
    moved, moved_counts = added_up(pieces, columns)
    whole = pa.concat_tables([moved, *stays])
    _check_rows(whole.num_rows, rows_max)
    ones = pa.repeat(pa.scalar(1, pa.int64()), whole.num_rows - moved.num_rows)
    return whole, pa.concat_arrays([moved_counts, ones])


def _few_pieces(changes: Iterable[Changes], columns: pa.Schema) -> list[tuple[pa.Table, pa.ChunkedArray]]:
    """Rows of changes with their weights, added up where there are many."""
    pieces: list[tuple[pa.Table, pa.ChunkedArray]] = []
    waiting = 0
    for one in changes:
        pieces.append((one.rows, one.diffs))
        waiting += one.rows.num_rows
        if waiting >= KEPT_APART_ROWS_MAX:
            rows, counts = added_up(pieces, columns)
            pieces, waiting = [(rows, pa.chunked_array([counts]))], 0
    return pieces


def _once_each(rows: int) -> pa.ChunkedArray:
    return pa.chunked_array([pa.repeat(pa.scalar(1, pa.int64()), rows)])


def _check_rows(rows: int, maximum: int) -> None:
    if rows > maximum:
        raise LimitExceeded(f"the state has more than {maximum} rows", limit="state_rows_max", maximum=maximum)
