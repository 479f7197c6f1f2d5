"""Find the records that withdrawals take back.

Invariant: a withdrawal takes the latest equal row that is still there, so reading down from it, each equal withdrawal on the way hides one
equal row before it. Rows are equal by their values, without offset, operation and system time. Each slice is read once for all of them.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from odfabric.domain.chain.walk import data_slices_down
from odfabric.domain.provenance.trace import Side, side_of
from odfabric.formats.slices.slice_parquet import SliceReader
from odfabric.model.identity import DatasetId
from odfabric.model.multihash import Multihash
from odfabric.model.offsets import OffsetRange
from odfabric.model.operation import OperationType
from odfabric.model.vocabulary import DatasetVocabulary
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.provenance.session_files import SessionFiles

FEW = 8
"""Below one row in so many, further columns are read of these rows alone."""
SAMPLE_ROWS = 65_536
"""Of row groups with more rows it is found out first which column leaves the fewest."""

Mask: TypeAlias = npt.NDArray[np.bool_]
Positions: TypeAlias = npt.NDArray[np.int64]


def withdrawn_records(
    dataset: DatasetId,
    head: Multihash,
    offsets: Iterable[int],
    vocabulary: DatasetVocabulary,
    *,
    files: SessionFiles,
    repository: Repository,
    rows_max: int,
) -> Mapping[int, int]:
    """Offsets of the records that the withdrawals at `offsets` take back.

    `head` is a block at or after all of them. Without those that take none back, or none among the `rows_max` records that are read.
    Raises Corrupt.
    """
    found: dict[int, int] = {}
    due: dict[int, int] = {}
    waiting = sorted(offsets)
    search = _Search(vocabulary)
    read = 0
    for data in data_slices_down(repository.blocks(dataset), head):
        begin = OffsetRange.from_wire(data.offset_interval).begin
        if not due and (not waiting or waiting[-1] < begin):
            continue
        with files.opened(dataset, data, vocabulary) as reader:
            here = [offset for offset in waiting if offset >= begin]
            waiting = waiting[: len(waiting) - len(here)]
            due |= dict.fromkeys(here, 1)
            search.seek(reader.rows_of(np.array(here, np.int64) - begin), due)
            for offset, equal, op in search.equal_rows_down(reader, begin, due):
                due[offset] += 1 if side_of(op) is Side.BEFORE else -1
                if due[offset] == 0:
                    del due[offset]
                    found[offset] = equal
            read += reader.rows
        if not (due or waiting) or read >= rows_max:
            break
    return found


class _Search:
    """Looks in slices, from their ends, for rows that are equal to some."""

    def __init__(self, vocabulary: DatasetVocabulary) -> None:
        self._offset, self._op = vocabulary.offset, vocabulary.operation_type
        self._given = (vocabulary.offset, vocabulary.operation_type, vocabulary.system_time)
        self._sought: pa.Table | None = None
        self._shares: dict[str, float] = {}

    def seek(self, here: pa.Table, due: Collection[int]) -> None:
        """From now on rows of `here`, too, and those looked for before that are due."""
        if self._sought is not None:
            known = self._sought.column(self._offset)
            left = self._sought.filter(pc.is_in(known, value_set=pa.array([*due], pa.int64())))
            here = pa.concat_tables([left, here], promote_options="permissive")
        self._sought = here

    def equal_rows_down(
        self, reader: SliceReader, begin: int, due: Collection[int]
    ) -> Iterator[tuple[int, int, OperationType]]:
        """Each offset that is due, with that of an equal row before it and its operation.

        The slice begins at offset `begin`. From its last row to the first, as long as anything is due.
        """
        assert self._sought is not None
        names = [name for name in self._sought.column_names if name not in self._given and name in reader.schema.names]
        alike: dict[str, list[int]] = {}
        for at, offset in enumerate(self._sought.column(self._offset).to_pylist()):
            alike.setdefault(_values(self._sought, at, names), []).append(offset)
        for group in reversed(reader.row_groups):
            if not due:
                return
            if begin + group.start >= max(due):
                continue
            positions = self._positions(reader, group, names)
            rows = reader.rows_of(positions, {*names, self._op})
            for at in range(len(positions) - 1, -1, -1):
                for offset in alike.get(_values(rows, at, names), ()):
                    if begin + positions[at] < offset and offset in due:
                        yield offset, begin + int(positions[at]), OperationType(rows.column(self._op)[at].as_py())

    def _positions(self, reader: SliceReader, group: range, names: Sequence[str]) -> Positions:
        """Where rows of a row group can be equal, and maybe more.

        It reads as few columns as make them few.
        """
        assert self._sought is not None
        values = {name: self._sought.column(name).combine_chunks() for name in names}
        plain = [name for name in names if _is_comparable(reader.schema.field(name).type, values[name].type)]
        if len(group) > SAMPLE_ROWS:
            self._sample(reader, group, {name: values[name] for name in plain})
        mask = np.ones(len(group), dtype=bool)
        for name in sorted(plain, key=lambda each: self._shares.get(each, 1.0)):
            mask &= np.concatenate(
                [_are_in(batch.column(name), values[name]) for batch in _column(reader, name, group)]
            )
            if np.count_nonzero(mask) * FEW < len(group):
                break
        return group.start + np.flatnonzero(mask)

    def _sample(self, reader: SliceReader, group: range, values: Mapping[str, pa.Array]) -> None:
        """Which share of rows each column leaves, by the first rows of a row group."""
        unknown = [name for name in values if name not in self._shares]
        for name in unknown:
            column = next(_column(reader, name, group)).column(name)
            self._shares[name] = float(_are_in(column, values[name]).mean())


def _column(reader: SliceReader, name: str, group: range) -> Iterator[pa.RecordBatch]:
    # Arrow takes a name with a dot for a member of a struct, too.
    return reader.batches(None if "." in name else [name], near=group)


def _are_in(column: pa.Array, values: pa.Array) -> Mask:
    found: Mask = pc.is_in(column, value_set=values).to_numpy(zero_copy_only=False)
    return found


def _is_comparable(column: pa.DataType, values: pa.DataType) -> bool:
    """Whether Arrow's equality is that of rows: not for zeros and NaN, also inside."""
    return bool(column == values) and not pa.types.is_nested(column) and not pa.types.is_floating(column)


def _values(table: pa.Table, position: int, names: list[str]) -> str:
    """Text that is the same for equal rows."""
    return repr([_exact(table.column(name)[position].as_py()) for name in names])


def _exact(value: object) -> object:
    """A value whose equality is that of rows: NaN equals itself, -0.0 is not 0.0."""
    if isinstance(value, float):
        return "nan" if value != value else struct.pack("<d", value)
    if isinstance(value, list | tuple):
        return [_exact(each) for each in value]
    if isinstance(value, dict):
        return {name: _exact(each) for name, each in value.items()}
    return value
