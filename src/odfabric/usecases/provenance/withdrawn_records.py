"""Find the records that withdrawals take back.

Invariant: a withdrawal takes the latest equal row that is still there, so reading down from it, each equal withdrawal on the way hides one
equal row before it. Rows are equal by their values, without offset, operation and system time. Each slice is read once for all of them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from odfabric.domain.chain.walk import data_slices_down
from odfabric.domain.provenance.trace import Side, side_of
from odfabric.model.identity import DatasetId
from odfabric.model.multihash import Multihash
from odfabric.model.offsets import OffsetRange
from odfabric.model.operation import OperationType
from odfabric.model.vocabulary import DatasetVocabulary
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.provenance.session_files import SessionFiles


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
    sought: pa.Table | None = None
    read = 0
    for data in data_slices_down(repository.blocks(dataset), head):
        begin = OffsetRange.from_wire(data.offset_interval).begin
        if not due and (not waiting or waiting[-1] < begin):
            continue
        table = files.table(dataset, data, vocabulary)
        here = [offset for offset in waiting if offset >= begin]
        waiting = waiting[: len(waiting) - len(here)]
        due |= dict.fromkeys(here, 1)
        sought = _still_sought(
            sought, table.take(pa.array([offset - begin for offset in here], pa.int64())), due, vocabulary
        )
        for offset, position in _equal_rows_down(table, begin, sought, vocabulary):
            if offset in due:
                op = OperationType(table.column(vocabulary.operation_type)[position].as_py())
                due[offset] += 1 if side_of(op) is Side.BEFORE else -1
                if due[offset] == 0:
                    del due[offset]
                    found[offset] = begin + position
        read += table.num_rows
        if not (due or waiting) or read >= rows_max:
            break
    return found


def _still_sought(
    before: pa.Table | None, here: pa.Table, due: Mapping[int, int], vocabulary: DatasetVocabulary
) -> pa.Table:
    """Rows of withdrawals whose record is not found yet."""
    if before is None:
        return here
    left = before.filter(pc.is_in(before.column(vocabulary.offset), value_set=pa.array([*due], pa.int64())))
    return pa.concat_tables([left, here], promote_options="permissive")


def _equal_rows_down(
    table: pa.Table, begin: int, sought: pa.Table, vocabulary: DatasetVocabulary
) -> Iterator[tuple[int, int]]:
    """Pairs of an offset sought and the position of an equal row before it.

    From the last row to the first.
    """
    given = (vocabulary.offset, vocabulary.operation_type, vocabulary.system_time)
    names = [name for name in sought.column_names if name not in given and name in table.column_names]
    alike: dict[str, list[int]] = {}
    for at, offset in enumerate(sought.column(vocabulary.offset).to_pylist()):
        alike.setdefault(_values(sought, at, names), []).append(offset)
    mask = pa.array([True] * table.num_rows, pa.bool_())
    for name in names:
        mask = _narrowed(mask, table.column(name), sought.column(name))
    for position in reversed(pc.indices_nonzero(mask).to_pylist()):
        for offset in alike.get(_values(table, position, names), ()):
            if begin + position < offset:
                yield offset, position


def _narrowed(mask: pa.Array, column: pa.ChunkedArray, values: pa.ChunkedArray) -> pa.Array:
    """Rows that can be equal: a cheap superset, for types that Arrow compares."""
    if column.type != values.type or pa.types.is_nested(column.type) or pa.types.is_floating(column.type):
        return mask
    found = pc.is_in(column, value_set=values.combine_chunks())
    return pc.and_(mask, found.combine_chunks())


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
