"""Updates as Arrow: columns of data, a time and a diff.

Owns what makes two rows one (all columns equal, bit by bit for floating point, null equal to null), their order, and the bytes
of a part. Invariant: rows stay columns from the first call to the last; nothing here makes a Python object of a row.
Source: persist facts, section 5; persist architecture, section 1.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import types

from odfabric_persist.errors import Corrupt, UsageError
from odfabric_persist.frontier import Frontier

TIME, DIFF = "persist_time", "persist_diff"
_TIME_TYPE = _DIFF_TYPE = pa.int64()
_BITS = {pa.float16(): pa.int16(), pa.float32(): pa.int32(), pa.float64(): pa.int64()}


@dataclass(frozen=True, slots=True)
class RowCodec:
    """The columns of a shard. `keys` are the columns by which rows are sorted first."""

    schema: pa.Schema
    keys: tuple[str, ...]

    def __post_init__(self) -> None:
        for field in self.schema:
            if field.name in (TIME, DIFF) or types.is_nested(field.type) or types.is_dictionary(field.type):
                raise UsageError("unsupported-column", f"{field.name}: {field.type}")
        missing = set(self.keys) - set(self.schema.names)
        if missing or len(set(self.schema.names)) != len(self.schema):
            raise UsageError("unsupported-column", f"no such key column, or a name twice: {sorted(missing)}")

    @property
    def name(self) -> str:
        """Equal for equal codecs; stored with the shard."""
        columns = ",".join(f"{field.name}:{field.type}" for field in self.schema)
        return f"{columns}|{','.join(self.keys)}"

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

    def consolidated(self, updates: pa.Table) -> pa.Table:
        """Equal rows of equal times added up, what comes to nothing left out; sorted by key columns, time, other columns."""
        if not updates.num_rows:
            return self.no_rows
        names = [*self.schema.names, TIME]
        bits = pa.table([_as_bits(updates.column(name)) for name in [*names, DIFF]], names=[*names, DIFF])
        summed = bits.group_by(names, use_threads=False).aggregate([(DIFF, "sum")])
        kept = summed.filter(pc.not_equal(summed.column(f"{DIFF}_sum"), 0))
        fields = [self.update_schema.field(name) for name in names]
        columns = [_from_bits(kept.column(field.name), field.type) for field in fields]
        table = pa.Table.from_arrays([*columns, kept.column(f"{DIFF}_sum")], schema=self.update_schema)
        return self.sorted(table)

    def sorted(self, updates: pa.Table) -> pa.Table:
        """By key columns, time, then the other columns; null last."""
        others = [name for name in self.schema.names if name not in self.keys]
        order = [(name, "ascending") for name in (*self.keys, TIME, *others)]
        bits = pa.table([_as_bits(updates.column(name)) for name, _ in order], names=[name for name, _ in order])
        return updates.take(pc.sort_indices(bits, sort_keys=order)).combine_chunks()

    def position(self, updates: pa.Table, row: int) -> pa.Table:
        """Key columns and time of one row, to be compared with `is_at_or_after`."""
        return updates.select([*self.keys, TIME]).slice(row, 1)

    def is_at_or_after(self, one: pa.Table, other: pa.Table) -> bool:
        """Whether position `one` is not before `other` in the order of `sorted`."""
        both = pa.concat_tables([other, one])
        order = [(name, "ascending") for name in (*self.keys, TIME)]
        bits = pa.table([_as_bits(both.column(name)) for name in both.schema.names], names=both.schema.names)
        return bool(pc.sort_indices(bits, sort_keys=order)[0].as_py() == 0)


def advanced(updates: pa.Table, to: Frontier) -> pa.Table:
    """Times moved up to at least `to`; None moves nothing, for then nobody can read them."""
    if to is None or to == 0:
        return updates
    times = pc.max_element_wise(updates.column(TIME), pa.scalar(to, _TIME_TYPE))
    return updates.set_column(updates.schema.get_field_index(TIME), updates.schema.field(TIME), times)


def between(updates: pa.Table, lower: int, upper: Frontier) -> pa.Table:
    """Updates with lower <= time < upper."""
    mask = pc.greater_equal(updates.column(TIME), lower)
    if upper is not None:
        mask = pc.and_(mask, pc.less(updates.column(TIME), upper))
    return updates.filter(mask)


def encode_inline(updates: pa.Table) -> bytes:
    """A small part: Arrow IPC."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, updates.schema) as writer:
        writer.write_table(updates)
    return bytes(sink.getvalue())


def encode_blob(updates: pa.Table) -> bytes:
    """A part in a blob: Parquet."""
    sink = pa.BufferOutputStream()
    pq.write_table(updates, sink, compression="zstd", use_dictionary=False)
    return bytes(sink.getvalue())


def decode(data: bytes, crc: int, schema: pa.Schema, *, inline: bool) -> pa.Table:
    """The updates of a part. Raises Corrupt."""
    if checksum(data) != crc:
        raise Corrupt("a part is not what was written")
    try:
        table = pa.ipc.open_stream(data).read_all() if inline else pq.read_table(pa.BufferReader(data))
        return table.select(schema.names).cast(schema)
    except (pa.ArrowException, KeyError, OSError) as error:
        raise Corrupt(f"a part cannot be read: {error}") from error


def checksum(data: bytes) -> int:
    """CRC-32 of the bytes of a part."""
    return zlib.crc32(data)


def concatenated(tables: Sequence[pa.Table], schema: pa.Schema) -> pa.Table:
    """One table of all."""
    return pa.concat_tables([schema.empty_table(), *tables])


def _as_bits(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Floats as the integers of the same bits: NaN is equal to itself then, and -0.0 is not 0.0."""
    bits = _BITS.get(column.type)
    if bits is None:
        return column
    return pa.chunked_array([chunk.view(bits) for chunk in column.chunks], type=bits)


def _from_bits(column: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    if column.type.equals(wanted):
        return column
    return pa.chunked_array([chunk.view(wanted) for chunk in column.chunks], type=wanted)
