"""Rows of a changelog as changes: added up, compared, sorted, check-summed.

Owns what an operation does to a relation (+1, -1), when two rows are the same one (bit by bit, all NaN alike, null like
null; nested values by their canonical bytes), and what a well-formed changelog is. Invariant: rows stay Arrow columns from the file to the answer; no Python object is made
of one. This is the exception of ADR 0015 to rows living in the engine. Not here: which columns make a row (`domain.chain.state_index`).
Source: ADR 0015; RFC-015.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import types

from odfabric.errors import InvalidData, LimitExceeded, Place
from odfabric.formats.parquet.parquet_reading import Source
from odfabric.formats.slices.canonical_rows import BYTES_MAX, one_array, row_bytes
from odfabric.formats.slices.slice_parquet import open_slice
from odfabric.formats.slices.slice_schema import OFFSET_TYPE, OPERATION_TYPE
from odfabric.model.operation import OperationType
from odfabric.model.vocabulary import DatasetVocabulary

_BITS = {pa.float32(): pa.int32(), pa.float64(): pa.int64()}
_KEY_CHARACTERS_MAX = 100
_STATE_FILE = {"compression": "lz4", "use_dictionary": False, "write_page_checksum": True}


@cache
def _codes(*operations: OperationType) -> pa.Array:
    """The codes, not made at import: the first array makes pyarrow import pandas.

    Many a process does not need pandas.
    """
    return pa.array([operation.value for operation in operations], OPERATION_TYPE)


_U64 = npt.NDArray[np.uint64]
_MIX = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_STEP = 0x100000001B3
"""Odd, so that multiplying by it modulo 2^64 can be undone."""


@dataclass(frozen=True, slots=True)
class Changes:
    """Rows, the weight of each (+1 or -1, or more once added up), and its offset."""

    rows: pa.Table
    diffs: pa.ChunkedArray
    offsets: pa.ChunkedArray

    def as_added(self) -> Changes:
        """The same rows, all added: to ask whether there ever was such a row."""
        once = pa.repeat(pa.scalar(1, pa.int64()), self.rows.num_rows)
        return Changes(self.rows, pa.chunked_array([once]), self.offsets)


@dataclass(frozen=True, slots=True)
class Records:
    """Rows, the operation of each (Int32), and its offset."""

    rows: pa.Table
    operations: pa.ChunkedArray
    offsets: pa.ChunkedArray

    def as_changes(self) -> Changes:
        """The same with weights."""
        added = pc.is_in(self.operations, value_set=_codes(OperationType.APPEND, OperationType.CORRECT_TO))
        diffs = pc.if_else(added, pa.scalar(1, pa.int64()), pa.scalar(-1, pa.int64()))
        return Changes(self.rows, diffs, self.offsets)


def read_records(source: Source, columns: pa.Schema, vocabulary: DatasetVocabulary) -> Records:
    """The records in a slice, rows with exactly `columns`; missing ones are null.

    Raises InvalidData if the file is not such a slice.
    """
    with open_slice(source, vocabulary) as reader:
        wanted = [vocabulary.offset, vocabulary.operation_type, *columns.names]
        held = pa.schema([field for field in reader.schema if field.name in wanted])
        table = pa.Table.from_batches(reader.batches(held.names), schema=held)
    operations = table.column(vocabulary.operation_type)
    known = pc.is_in(operations, value_set=_codes(*OperationType))
    if operations.null_count or not pc.all(known, min_count=0).as_py():
        raise InvalidData("a slice has unknown operation types", place=Place(field=vocabulary.operation_type))
    rows = [_column(table, field) for field in columns]
    return Records(pa.table(rows, schema=columns), operations, table.column(vocabulary.offset))


def read_changes(source: Source, columns: pa.Schema, vocabulary: DatasetVocabulary) -> Changes:
    """The changes in a slice, rows with exactly `columns`; missing ones are null.

    Raises InvalidData if the file is not such a slice.
    """
    return read_records(source, columns, vocabulary).as_changes()


def _column(table: pa.Table, field: pa.Field) -> pa.ChunkedArray:
    index = table.schema.get_field_index(field.name)
    if index < 0:
        return pa.chunked_array([pa.nulls(table.num_rows, field.type)])
    try:
        return one_nan(table.column(index).cast(field.type))
    except pa.ArrowException as error:
        raise InvalidData(f"a slice does not fit the schema: {error}", place=Place(field=field.name)) from error


def one_nan(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column with one and the same bits for every NaN."""
    if not types.is_floating(column.type):
        return column
    return pc.if_else(pc.is_nan(column), pa.scalar(float("nan"), column.type), column)


def added_up(pieces: Sequence[tuple[pa.Table, pa.ChunkedArray]], columns: pa.Schema) -> tuple[pa.Table, pa.Array]:
    """Every row that does not come to nothing, once, and what it comes to.

    In no order.

    Raises LimitExceeded where nested values of a piece are more than Arrow has offsets for.
    """
    names = [f"c{index}" for index in range(len(columns))]
    kept = [(rows, diffs) for rows, diffs in pieces if rows.num_rows]
    if not kept:
        return columns.empty_table(), pa.array([], pa.int64())
    compared = ([*map(_compared, rows.columns), diffs] for rows, diffs in kept)
    together = pa.concat_tables([pa.table(arrays, names=[*names, "diff"]) for arrays in compared])
    asked = [("diff", "sum")]
    if any(types.is_nested(field.type) for field in columns):
        together = together.append_column("at", pa.array(np.arange(together.num_rows)))
        asked.append(("at", "min"))
    summed = together.group_by(names, use_threads=False).aggregate(asked)
    left = summed.filter(pc.not_equal(summed.column("diff_sum"), 0)).combine_chunks()
    whole = pa.concat_tables([rows for rows, _ in kept])
    found = [
        # A row that has the value has it whole; what is compared of nested values is one way.
        one_array(whole.column(field.name)).take(one_array(left.column("at_min")))
        if types.is_nested(field.type)
        else _from_bits(left.column(name), field.type)
        for name, field in zip(names, columns, strict=True)
    ]
    return pa.table(found, schema=columns), left.column("diff_sum").combine_chunks()


def repeated(rows: pa.Table, diffs: pa.Array) -> pa.Table:
    """Each row as often as it is there.

    What an ill-formed changelog owes is not there.
    """
    counts = np.maximum(np.asarray(diffs), 0)
    if (counts == 1).all():
        return rows
    return rows.take(pa.array(np.repeat(np.arange(len(counts)), counts)))


def in_order(rows: pa.Table, keys: Sequence[str]) -> pa.Table:
    """Rows by key columns, then by all others; nulls first, then NaN.

    The order of equal rows does not show.
    """
    others = [name for name in rows.schema.names if name not in keys]
    order = [*keys, *others]
    columns = [_compared(each) if types.is_nested(each.type) else each for each in map(rows.column, order)]
    # Zeros of either sign are equal to a comparison, and their bits are not: those decide last.
    columns += [_as_bits(column) for column in columns if types.is_floating(column.type)]
    table = pa.table(columns, names=[f"c{index}" for index in range(len(columns))])
    by = [(name, "ascending", "at_start") for name in table.schema.names]
    return rows.take(pc.sort_indices(table, sort_keys=by)) if columns else rows


@dataclass(frozen=True, slots=True)
class IllFormed:
    """A change that cannot follow the one before: its offset, and its key as text."""

    offset: int
    key: str


def first_ill_formed(state: pa.Table, changes: Changes, keys: Sequence[str]) -> IllFormed | None:
    """The first change that is not one of a relation with one row for each key.

    None if all are.

    `state` holds the rows before them, at least those of the keys that are changed. A row can be added if its key has none, and taken
    away if it is the row of its key: only then do the rows that are left over and the last row of each key say the same.
    """
    rows = pa.concat_tables([state, changes.rows]).combine_chunks()
    diffs = np.concatenate([np.ones(state.num_rows, np.int64), np.asarray(changes.diffs)])
    offsets = np.concatenate([np.full(state.num_rows, -1, np.int64), np.asarray(changes.offsets)])
    if not rows.num_rows:
        return None
    key_columns = [key_values(rows.column(name)) for name in keys]
    names = [f"k{index}" for index in range(len(keys))]
    table = pa.table([*key_columns, pa.array(offsets)], names=[*names, "offset"])
    order = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in table.schema.names])
    positions = np.asarray(order)
    same_key = _like_the_one_before(key_columns, order)
    same_row = _like_the_one_before(map(_as_bits, rows.columns), order) & same_key
    diff = diffs[positions]
    before = np.concatenate([[0], diff[:-1]]) * same_key
    fits = np.where(diff > 0, before <= 0, (before > 0) & same_row)
    wrong = np.flatnonzero(~fits)
    if not len(wrong):
        return None
    first = positions[wrong[np.argmin(offsets[positions[wrong]])]]
    key = ", ".join(f"{name} = {rows.column(name)[int(first)].as_py()}" for name in keys)
    return IllFormed(int(offsets[first]), key[:_KEY_CHARACTERS_MAX])


def of_keys_in(state: pa.Table, changed: pa.Table, keys: Sequence[str]) -> pa.Table:
    """Rows of `state` with a key of `changed`: all that have one, perhaps others."""
    values = pc.unique(key_values(changed.column(keys[0])))
    return state.filter(pc.is_in(key_values(state.column(keys[0])), value_set=values))


def split_by_keys(state: pa.Table, changed: pa.Table, keys: Sequence[str]) -> tuple[pa.Table, pa.Table]:
    """Rows of `state` that may have a key of `changed`, and those that have none."""
    values = pc.unique(key_values(changed.column(keys[0])))
    among = pc.is_in(key_values(state.column(keys[0])), value_set=values)
    return state.filter(among), state.filter(pc.invert(among))


def key_values(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Values as keys compare: zeros of both signs alike, NaN like NaN."""
    if not types.is_floating(column.type):
        return column
    unsigned = pc.if_else(pc.equal(column, 0.0), pa.scalar(0.0, column.type), column)
    return _as_bits(one_nan(unsigned))


def _like_the_one_before(columns: object, order: pa.Array) -> npt.NDArray[np.bool_]:
    """For each position of `order`, whether it equals the one before; nulls are equal."""
    alike = np.ones(len(order), np.bool_)
    alike[0] = False
    for column in columns:  # type: ignore[attr-defined]
        values = column.take(order)
        one, other = values.slice(1), values.slice(0, len(order) - 1)
        same = pc.or_(pc.fill_null(pc.equal(one, other), False), pc.and_(pc.is_null(one), pc.is_null(other)))
        alike[1:] &= np.asarray(same)
    return alike


def check_sum(rows: pa.Table, diffs: pa.ChunkedArray | pa.Array) -> int:
    """Sum of diff times a hash of the row, modulo 2^64.

    Of two tables that add up to the same rows it is the same.

    It finds accidents, not forgeries.
    """
    hashes = np.zeros(rows.num_rows, np.uint64)
    with np.errstate(over="ignore"):
        for index, column in enumerate(rows.columns):
            values = np.where(np.asarray(column.is_null()), np.uint64(1), _value_hashes(column))
            hashes = _mixed((hashes ^ values) + np.uint64(index + 1) * _MIX[0])
        return int((hashes * np.asarray(diffs).astype(np.uint64)).sum(dtype=np.uint64))


def _mixed(values: _U64) -> _U64:
    values = (values ^ (values >> np.uint64(30))) * _MIX[1]
    values = (values ^ (values >> np.uint64(27))) * _MIX[2]
    return values ^ (values >> np.uint64(31))


def _value_hashes(column: pa.ChunkedArray) -> _U64:
    """A hash of each value, whatever of null."""
    array = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    if types.is_boolean(array.type):
        array = array.cast(pa.uint8())
    if types.is_primitive(array.type) and array.type.bit_width <= 64:
        width = array.type.bit_width
        numbers = np.asarray(array.view(f"int{width}").fill_null(0))
        return _mixed(numbers.astype(np.int64).astype(np.uint64) + _MIX[0])
    binary = array.cast(pa.binary()) if not types.is_decimal(array.type) else array.cast(pa.string()).cast(pa.binary())
    return _bytes_hashes(binary.fill_null(b""))


def _bytes_hashes(array: pa.Array) -> _U64:
    """Polynomial hashes of byte ranges, by prefix sums over the whole buffer.

    Differences of them are shifted back to the start.
    """
    _, offsets_buffer, data_buffer = array.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32)[array.offset : array.offset + len(array) + 1].astype(np.int64)
    data = np.frombuffer(data_buffer or b"", np.uint8)[offsets[0] : offsets[-1]]
    offsets = offsets - offsets[0]
    powers = _powers(_STEP, len(data))
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum((data.astype(np.uint64) + np.uint64(1)) * powers)])
    starts, ends = offsets[:-1], offsets[1:]
    back = _powers(pow(_STEP, -1, 1 << 64), len(data))
    shifts = np.concatenate([back, np.ones(1, np.uint64)])[starts]
    return _mixed((sums[ends] - sums[starts]) * shifts + (ends - starts).astype(np.uint64) * _MIX[0])


def _powers(base: int, count: int) -> _U64:
    """1, base, base^2, ... modulo 2^64."""
    factors = np.full(count, base, np.uint64)
    factors[:1] = 1
    return np.cumprod(factors, dtype=np.uint64)


def write_state_file(path: str, tables: Iterable[pa.Table], columns: pa.Schema, vocabulary: DatasetVocabulary) -> int:
    """Write rows as a slice for an engine, appended with offsets from 0; how many.

    The file has no system time and is never stored.
    """
    system = [pa.field(vocabulary.offset, OFFSET_TYPE), pa.field(vocabulary.operation_type, OPERATION_TYPE)]
    count = 0
    with pq.ParquetWriter(path, pa.schema([*system, *columns]), **_STATE_FILE) as writer:
        for rows in tables:
            offsets = pa.array(np.arange(count, count + rows.num_rows, dtype=np.int64), OFFSET_TYPE)
            operations = pa.repeat(pa.scalar(OperationType.APPEND.value, OPERATION_TYPE), rows.num_rows)
            writer.write_table(pa.table([offsets, operations, *rows.columns], schema=writer.schema))
            count += rows.num_rows
    return count


def _as_bits(column: pa.ChunkedArray) -> pa.ChunkedArray:
    bits = _BITS.get(column.type)
    if bits is None:
        return column
    if isinstance(column, pa.Array):
        return column.view(bits)
    return pa.chunked_array([chunk.view(bits) for chunk in column.chunks], type=bits)


def _compared(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Values that are equal where the column's are the same.

    Floats by their bits, nested ones by their canonical bytes.
    """
    if not types.is_nested(column.type):
        return _as_bits(column)
    try:
        return pa.chunked_array([row_bytes([chunk]) for chunk in column.chunks], pa.binary())
    except pa.ArrowCapacityError as error:
        raise LimitExceeded(
            f"nested values of a slice are too large to be compared: {error}", limit="nested_bytes", maximum=BYTES_MAX
        ) from error


def _from_bits(column: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    if column.type.equals(wanted):
        return column
    return pa.chunked_array([chunk.view(wanted) for chunk in column.chunks], type=wanted)
