"""Updates as Arrow: columns of data, a time and a diff.

Owns what makes two rows one (all columns equal, bit by bit for floating point, null equal to null), their order, and the bytes
of a part. Invariant: rows stay columns from the first call to the last; nothing here makes a Python object of a row.
Source: ADR 0017; ADR 0015.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from odfabric_persist.canonical import comparable, is_supported, quoted, type_name
from odfabric_persist.errors import Corrupt, UsageError
from odfabric_persist.frontier import Frontier
from odfabric_persist.ordering import GROUP, Ordered, added_up, in_order

TIME, DIFF = "persist_time", "persist_diff"
_TIME_TYPE = _DIFF_TYPE = pa.int64()
ROW_GROUP_ROWS = 128 * 1024
"""Rows of a part that are decoded at once at most."""


@dataclass(frozen=True, slots=True)
class RowCodec:
    """The columns of a shard. `keys` are the columns by which rows are sorted first."""

    schema: pa.Schema
    keys: tuple[str, ...]

    def __post_init__(self) -> None:
        for field in self.schema:
            if field.name in (TIME, DIFF, GROUP) or not is_supported(field.type):
                raise UsageError("unsupported-column", f"{field.name}: {field.type}")
        missing = set(self.keys) - set(self.schema.names)
        if missing or len(set(self.schema.names)) != len(self.schema):
            raise UsageError("unsupported-column", f"no such key column, or a name twice: {sorted(missing)}")

    @property
    def name(self) -> str:
        """Equal for equal codecs only; stored with the shard."""
        columns = ",".join(f"{quoted(field.name)}:{type_name(field.type)}" for field in self.schema)
        return f"{columns}|{','.join(quoted(key) for key in self.keys)}"

    def evolves_to(self, other: RowCodec) -> bool:
        """Whether `other` adds at most nullable columns, with the same columns and keys."""
        count = len(self.schema)
        added = list(other.schema)[count:]
        return (
            list(other.schema)[:count] == list(self.schema)
            and self.keys == other.keys
            and all(field.nullable for field in added)
        )

    @property
    def update_schema(self) -> pa.Schema:
        """Columns of updates: those of the data, time, diff."""
        return pa.schema([*self.schema, pa.field(TIME, _TIME_TYPE), pa.field(DIFF, _DIFF_TYPE)])

    @property
    def no_rows(self) -> pa.Table:
        """An empty table of updates."""
        return self.update_schema.empty_table()

    def updates(self, table: pa.Table) -> pa.Table:
        """The table with exactly our columns. Raises UsageError (`codec-mismatch`)."""
        try:
            given = table.select(self.update_schema.names).cast(self.update_schema)
        except (KeyError, pa.ArrowException) as error:
            raise UsageError("codec-mismatch", str(error)) from error
        if given.column(TIME).null_count or given.column(DIFF).null_count:
            raise UsageError("codec-mismatch", "a time or a diff is null")
        return given

    @property
    def order(self) -> tuple[str, ...]:
        """Sort columns of parts and runs: key columns (all, if none) and time."""
        return (*(self.keys or self.schema.names), TIME)

    def consolidated(self, updates: pa.Table) -> pa.Table:
        """Equal rows of equal times added up, what comes to nothing left out.

        Sorted by `order`, then other columns.
        """
        if not updates.num_rows:
            return self.no_rows
        ordered = self._in_order(updates)
        if ordered.in_place and not pc.any(pc.equal(updates.column(DIFF), 0)).as_py():
            return updates.select(self.update_schema.names).combine_chunks()
        rows, sums = added_up(ordered, updates.column(DIFF))
        found = updates.select([*self.schema.names, TIME]).take(rows)
        return found.append_column(self.update_schema.field(DIFF), sums).combine_chunks()

    def sorted(self, updates: pa.Table) -> pa.Table:
        """By `order`, then the other columns; null last."""
        return updates.take(self._in_order(updates).rows).combine_chunks() if updates.num_rows else updates

    def comparable(self, updates: pa.Table, names: Sequence[str]) -> pa.Table:
        """Some columns in a form that kernels can compare and order."""
        return pa.table([comparable(updates.column(name)) for name in names], names=list(names))

    def position(self, updates: pa.Table, row: int) -> pa.Table:
        """A row's position in the order, to compare with `is_at_or_after` and `first`."""
        return self.comparable(updates.slice(row, 1), self.order)

    def is_at_or_after(self, one: pa.Table, other: pa.Table) -> bool:
        """Whether position `one` is not before `other`."""
        return self.first([other, one]) == 0

    def first(self, positions: Sequence[pa.Table]) -> int:
        """Which of several positions is not after any other; of equal ones the first."""
        order = [(name, "ascending") for name in self.order]
        return int(pc.sort_indices(pa.concat_tables(positions), sort_keys=order)[0].as_py())

    def before(self, order: pa.Table, position: pa.Table) -> int:
        """How many rows are before a position, in a table of the columns of `order`.

        It is sorted by them.
        """
        found: pa.ChunkedArray | None = None
        for name in reversed(self.order):
            column, bound = order.column(name), position.column(name)[0]
            found = _before(column, bound, found)
        assert found is not None
        return int(pc.sum(found).as_py() or 0)

    def _in_order(self, updates: pa.Table) -> Ordered:
        others = [name for name in self.schema.names if name not in self.order]
        return in_order(self.comparable(updates, self.order), lambda: self.comparable(updates, others))


def advanced(updates: pa.Table, to: Frontier) -> pa.Table:
    """Times moved up to at least `to`.

    None moves nothing, for then nobody can read them.
    """
    if to is None or to == 0:
        return updates
    times = pc.max_element_wise(updates.column(TIME), pa.scalar(to, _TIME_TYPE))
    return updates.set_column(updates.schema.get_field_index(TIME), updates.schema.field(TIME), times)


def between(updates: pa.Table, lower: int, upper: Frontier) -> pa.Table:
    """Updates with lower <= time < upper."""
    mask = pc.greater_equal(updates.column(TIME), lower)
    if upper is not None:
        mask = pc.and_(mask, pc.less(updates.column(TIME), upper))
    return updates if pc.all(mask, min_count=0).as_py() else updates.filter(mask)


def encode_inline(updates: pa.Table) -> bytes:
    """A small part: Arrow IPC, deflated, for most of it is the schema."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, updates.schema) as writer:
        writer.write_table(updates)
    return zlib.compress(sink.getvalue())


def encode_blob(updates: pa.Table) -> bytes:
    """A part in a blob: Parquet."""
    sink = pa.BufferOutputStream()
    pq.write_table(updates, sink, compression="zstd", use_dictionary=False, row_group_size=ROW_GROUP_ROWS)
    return bytes(sink.getvalue())


def decode_inline(data: bytes, schema: pa.Schema) -> pa.Table:
    """The updates of a small part. Raises Corrupt."""
    try:
        return _with_columns(read_inline(data), schema)
    except (pa.ArrowException, KeyError) as error:
        raise Corrupt(f"a part cannot be read: {error}") from error


def read_inline(data: bytes) -> pa.Table:
    """A small part with whatever columns it has. Raises Corrupt."""
    try:
        return pa.ipc.open_stream(zlib.decompress(data)).read_all()
    except (pa.ArrowException, OSError, zlib.error) as error:
        raise Corrupt(f"a part cannot be read: {error}") from error


def read_blob(data: bytes) -> Iterator[pa.RecordBatch]:
    """A part in a blob with whatever columns it has, piece by piece. Raises Corrupt."""
    try:
        with pq.ParquetFile(pa.BufferReader(data)) as file:
            yield from file.iter_batches(ROW_GROUP_ROWS, use_threads=False)
    except (pa.ArrowException, OSError) as error:
        raise Corrupt(f"a part cannot be read: {error}") from error


def decode_blob(data: bytes, schema: pa.Schema, rows: int) -> Iterator[pa.Table]:
    """The updates of a part in a blob, at most `rows` at a time. Raises Corrupt."""
    try:
        with pq.ParquetFile(pa.BufferReader(data)) as file:
            there = [name for name in schema.names if name in file.schema_arrow.names]
            for batch in file.iter_batches(rows, columns=there, use_threads=False):
                yield _with_columns(pa.Table.from_batches([batch]), schema)
    except (pa.ArrowException, KeyError, OSError) as error:
        raise Corrupt(f"a part cannot be read: {error}") from error


def _with_columns(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table with these columns; one that was added after it was written is null.

    Raises KeyError, pa.ArrowException.
    """
    columns = []
    for field in schema:
        if field.name in table.schema.names:
            columns.append(table.column(field.name))
        elif field.nullable and field.name not in (TIME, DIFF):
            columns.append(pa.nulls(table.num_rows, field.type))
        else:
            raise KeyError(field.name)
    return pa.table(columns, names=schema.names).cast(schema)


def check(data: bytes, crc: int) -> bytes:
    """The bytes of a part. Raises Corrupt if they are not what was written."""
    if checksum(data) != crc:
        raise Corrupt("a part is not what was written")
    return data


def checksum(data: bytes) -> int:
    """CRC-32 of the bytes of a part."""
    return zlib.crc32(data)


def concatenated(tables: Sequence[pa.Table], schema: pa.Schema) -> pa.Table:
    """One table of all."""
    return pa.concat_tables([schema.empty_table(), *tables])


def _before(column: pa.ChunkedArray, bound: pa.Scalar, later: pa.ChunkedArray | None) -> pa.ChunkedArray:
    """Where a column is below a bound, or equal and `later` columns below theirs.

    Null is the greatest value.
    """
    if not bound.is_valid:
        less, equal = column.is_valid(), column.is_null()
    else:
        less = pc.fill_null(pc.less(column, bound), False)
        equal = pc.fill_null(pc.equal(column, bound), False)
    return less if later is None else pc.or_(less, pc.and_(equal, later))


def in_pieces(tables: Iterable[pa.Table], rows: int) -> Iterator[pa.Table]:
    """The same rows in tables of exactly `rows` rows, but for the last."""
    waiting: list[pa.Table] = []
    count = 0
    for table in tables:
        waiting.append(table)
        count += table.num_rows
        if count < rows:
            continue
        together = pa.concat_tables(waiting)
        whole = count - count % rows
        for start in range(0, whole, rows):
            yield together.slice(start, rows)
        waiting, count = [together.slice(whole)], count - whole
    if count:
        yield pa.concat_tables(waiting)
