"""Find the record that a withdrawal takes back.

Invariant: a withdrawal takes the latest equal row that is still there, so reading down from it, each equal withdrawal on the way hides one
equal row before it. Rows are equal by their values, without offset, operation and system time.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from odfabric.domain.chain.walk import ChainLink, data_slices_down
from odfabric.domain.provenance.trace import Side, side_of
from odfabric.model.identity import DatasetId
from odfabric.model.offsets import OffsetRange
from odfabric.model.operation import OperationType
from odfabric.model.vocabulary import DatasetVocabulary
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.provenance.session_files import SessionFiles


def withdrawn_record(
    dataset: DatasetId,
    link: ChainLink,
    offset: int,
    vocabulary: DatasetVocabulary,
    *,
    files: SessionFiles,
    repository: Repository,
    rows_max: int,
) -> int | None:
    """Offset of the record that the withdrawal at `offset` in `link` takes back.

    None if there is none, or none among the `rows_max` records before it. Raises Corrupt.
    """
    sought: pa.Table | None = None
    due, read = 1, 0
    for data in data_slices_down(repository.blocks(dataset), link.hash):
        interval = OffsetRange.from_wire(data.offset_interval)
        table = files.table(dataset, data, vocabulary)
        if sought is None:
            sought = table.slice(offset - interval.begin, 1)
            table = table.slice(0, offset - interval.begin)
        for position in equal_rows_down(table, sought, vocabulary):
            op = OperationType(table.column(vocabulary.operation_type)[position].as_py())
            due += 1 if side_of(op) is Side.BEFORE else -1
            if due == 0:
                return interval.begin + position
        read += table.num_rows
        if read >= rows_max:
            return None
    return None


def equal_rows_down(table: pa.Table, sought: pa.Table, vocabulary: DatasetVocabulary) -> Iterator[int]:
    """Positions in a table of rows that equal the one of `sought`, last first."""
    given = (vocabulary.offset, vocabulary.operation_type, vocabulary.system_time)
    names = [name for name in sought.column_names if name not in given and name in table.column_names]
    exact = _values(sought, 0, names)
    mask = pa.array([True] * table.num_rows, pa.bool_())
    for name in names:
        mask = _narrowed(mask, table.column(name), sought.column(name)[0])
    for position in reversed(pc.indices_nonzero(mask).to_pylist()):
        if _values(table, position, names) == exact:
            yield position


def _narrowed(mask: pa.Array, column: pa.ChunkedArray, value: pa.Scalar) -> pa.Array:
    """Rows that can be equal: a cheap superset, for types that Arrow compares."""
    if not value.is_valid:
        return pc.and_(mask, pc.is_null(column).combine_chunks())
    if pa.types.is_nested(column.type) or pa.types.is_floating(column.type):
        return mask
    found = pc.fill_null(pc.equal(column, value.cast(column.type)), False)
    return pc.and_(mask, found.combine_chunks())


def _values(table: pa.Table, position: int, names: list[str]) -> Mapping[str, object]:
    return {name: _exact(table.column(name)[position].as_py()) for name in names}


def _exact(value: object) -> object:
    """A value whose equality is that of rows: NaN equals itself, -0.0 is not 0.0."""
    if isinstance(value, float):
        return "nan" if value != value else struct.pack("<d", value)
    if isinstance(value, list | tuple):
        return [_exact(each) for each in value]
    if isinstance(value, dict):
        return {name: _exact(each) for name, each in value.items()}
    return value
