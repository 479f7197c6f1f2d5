"""Reading any Parquet files: errors name the file, types as the reference reads.

Owns the one place where pyarrow reads a file differently: types that Parquet cannot express and that writers leave as a hint
in `ARROW:schema`. The logical hash covers types, so both readers must agree. Memory is bounded by small read buffers, a row
group is never held as a whole. Source: specification, "Data Hashing".
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import types

from odfabric.errors import InvalidData, Place

BATCH_ROWS = 65_536
"""Rows read at once: few enough to stay in the processor's cache."""

READ_BUFFER_BYTES = 1 << 20

THREADS_FROM_BYTES = 16 << 20
"""Row groups from this size on, decoded, are decoded by threads: handing a smaller one over costs more than it gains."""

Source: TypeAlias = Path | BinaryIO

_HINT_KEY = b"ARROW:schema"


@contextmanager
def open_parquet(source: Source) -> Iterator[pq.ParquetFile]:
    """A Parquet file, closed at the end.

    Raises InvalidData if it is none or turns out damaged while it is read.
    """
    with readable(source, "Parquet"), pq.ParquetFile(source, pre_buffer=False, buffer_size=READ_BUFFER_BYTES) as file:
        yield file


@contextmanager
def readable(source: Source, form: str) -> Iterator[None]:
    """Turn Arrow's errors into InvalidData that names the file and its due `form`.

    OSError passes through if the system raised it: Arrow reports damaged content by one without an errno.
    """
    try:
        yield
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise _unreadable(source, form, error) from error
    except OSError as error:
        if error.errno is not None:
            raise
        raise _unreadable(source, form, error) from error


def arrow_schema_of(file: pq.ParquetFile) -> pa.Schema:
    """The schema of a file with hints honoured; batches of `batches_of` have it."""
    schema = file.schema_arrow.remove_metadata()
    encoded = (file.metadata.metadata or {}).get(_HINT_KEY)
    if encoded is None:
        return schema
    hints = pa.ipc.read_schema(pa.BufferReader(base64.b64decode(encoded)))
    if len(hints) != len(schema):
        return schema
    return pa.schema([_hinted_field(field, hint) for field, hint in zip(schema, hints, strict=True)])


def batches_of(
    file: pq.ParquetFile,
    columns: Sequence[str] | None = None,
    *,
    row_groups: Sequence[int] | None = None,
    bytes_max: int | None = None,
    schema: pa.Schema | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows in order, of some columns and row groups.

    `columns` are top-level names (default all), `row_groups` (all). `schema`: that of `arrow_schema_of`, if it is known.

    Batches have about `bytes_max` bytes at most where the file says what rows have: of values that repeat it gives less.
    """
    schema = arrow_schema_of(file) if schema is None else schema
    if columns is not None:
        schema = pa.schema([field for field in schema if field.name in columns])
    groups = range(file.num_row_groups) if row_groups is None else row_groups
    rows = BATCH_ROWS if bytes_max is None else _rows_within(file, groups, bytes_max)
    threads = any(file.metadata.row_group(group).total_byte_size >= THREADS_FROM_BYTES for group in groups)
    for batch in file.iter_batches(rows, row_groups=row_groups, columns=columns, use_threads=threads):
        yield as_schema(batch, schema)


def as_schema(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch with the columns, and without the metadata, of the schema.

    A cast of columns that are right already would cost as much as the checks of a small slice.
    """
    if batch.schema.equals(schema):
        return pa.RecordBatch.from_arrays(batch.columns, schema=schema)
    return batch.cast(schema)


def _rows_within(file: pq.ParquetFile, groups: Sequence[int], bytes_max: int) -> int:
    """How many rows have about so many bytes over all columns of a row group.

    Taken where the row group is the largest.
    """
    rows_max = BATCH_ROWS
    # Metadata of single columns is not asked for: over footers of strangers pyarrow may end the process there.
    for group in map(file.metadata.row_group, groups):
        if group.num_rows > 0 and group.total_byte_size > 0:
            rows_max = min(rows_max, max(bytes_max * group.num_rows // group.total_byte_size, 1))
    return rows_max


def _unreadable(source: Source, form: str, error: Exception) -> InvalidData:
    name = source.name if isinstance(source, Path) else None
    return InvalidData(f"Not a readable {form} file: {error}", place=Place(file=name, rule="file-unreadable"))


def _hinted_field(field: pa.Field, hint: pa.Field) -> pa.Field:
    return field.with_type(_hinted(field.type, hint.type))


def _hinted(data_type: pa.DataType, hint: pa.DataType) -> pa.DataType:
    if types.is_struct(data_type) and types.is_struct(hint) and data_type.num_fields == hint.num_fields:
        return pa.struct([_hinted_field(data_type.field(i), hint.field(i)) for i in range(data_type.num_fields)])
    if types.is_list(data_type) and types.is_list(hint):
        return pa.list_(_hinted_field(data_type.value_field, hint.value_field))
    if types.is_large_list(data_type) and types.is_large_list(hint):
        return pa.large_list(_hinted_field(data_type.value_field, hint.value_field))
    return hint if _is_lost(data_type, hint) else data_type


def _is_lost(data_type: pa.DataType, hint: pa.DataType) -> bool:
    if types.is_date64(hint):
        return bool(types.is_int64(data_type) or types.is_date32(data_type))
    if types.is_timestamp(hint) or types.is_time64(hint):
        return bool(types.is_int64(data_type))
    return bool(types.is_time32(hint) and types.is_int32(data_type))
