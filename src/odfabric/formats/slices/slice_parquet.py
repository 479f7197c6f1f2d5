"""Data slices as Parquet files: written exactly as specified, any are read.

Invariant: the writer's bytes depend on schema and rows alone, not on the batches in which rows arrive, and a failed write
leaves no file. Readers find columns by name and take any integer width for offset and op. Not here: hashes
(`formats.slices.logical_hash`, `formats.identifiers.physical_hash`), the shape of slices (`formats.slices.slice_schema`), whether rows are what a block
says (`formats.slices.slice_check`). Source: specification, "Data Slice"; docs/engine.md#types; docs/engine.md#columns-of-inputs-and-output.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from types import TracebackType
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import types

from odfabric.errors import IncompatibleSchema, InvalidData, Place
from odfabric.formats.parquet.parquet_page_rows import Positions, page_rows
from odfabric.formats.parquet.parquet_reading import Source, arrow_schema_of, batches_of, open_parquet
from odfabric.formats.slices.array_sizes import row_sizes
from odfabric.formats.slices.logical_hash_values import plain_type
from odfabric.formats.slices.slice_schema import OFFSET_TYPE, OPERATION_TYPE, fit_to_slice
from odfabric.model.vocabulary import DatasetVocabulary

ROW_GROUP_ROWS_MAX: Final = 1_048_576
ROW_GROUP_BYTES_MAX: Final = 128 << 20
"""A row group is written when its rows take this many bytes in memory, so that wide rows do not exhaust it."""

PAGE_ROWS_MAX: Final = 20_000
PAGED_ROWS_MIN: Final = 2 * PAGE_ROWS_MAX
"""A smaller row group is read faster as a whole than its pages are found."""
_BLOCK_ROWS: Final = 8_192
_BLOCK_BYTES: Final = 32 << 20
"""A block ends before its rows would take more, unless one row alone does: long texts reach the size of a row group in a few rows."""

_PROPERTIES: Final = {
    "version": "2.6",
    "data_page_version": "1.0",
    "compression": "snappy",
    "use_dictionary": True,
    "write_statistics": True,
    "write_page_index": True,
    "write_page_checksum": True,
    "store_schema": True,
    "max_rows_per_page": PAGE_ROWS_MAX,
}
"""Delta encodings stay off: not every engine reads them."""


class SliceWriter:
    """One slice file being written, as a context manager; errors remove the file.

    A row group is encoded while the rows of the next one come; an error of it comes with one of the next rows, or at the end.
    """

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        """Begin a file of a schema from `formats.slices.slice_schema`.

        OSError passes through.

        Raises IncompatibleSchema for a type that Parquet does not have.
        """
        self.rows = 0
        self._path = path
        self._schema = schema.remove_metadata()
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = 0
        self._waiting_bytes = 0
        self._group: list[pa.RecordBatch] = []
        self._group_rows = self._group_bytes = 0
        self._beside: ThreadPoolExecutor | None = None
        self._encoding: Future[None] | None = None
        try:
            self._writer = pq.ParquetWriter(path, self._schema, **_PROPERTIES)
        except pa.ArrowException as error:
            path.unlink(missing_ok=True)
            raise IncompatibleSchema(f"The schema has no Parquet form: {error}") from error

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows, fitted to the schema.

        Raises IncompatibleSchema, InvalidData as `fit_to_slice` does.
        """
        fitted = fit_to_slice(batch, self._schema)
        self.rows += fitted.num_rows
        self._waiting.append(fitted)
        self._waiting_rows += fitted.num_rows
        self._waiting_bytes += fitted.nbytes
        if self._waiting_rows >= _BLOCK_ROWS or self._waiting_bytes >= _BLOCK_BYTES:
            self._form_blocks(last=False)

    def __enter__(self) -> SliceWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._form_blocks(last=True)
                self._await_encoded()
                self._encode(self._group)
            elif self._encoding is not None:
                wait([self._encoding])
            self._writer.close()
        except BaseException:
            self._path.unlink(missing_ok=True)
            raise
        finally:
            if self._beside is not None:
                self._beside.shutdown()
        if kind is not None:
            self._path.unlink(missing_ok=True)

    def _form_blocks(self, *, last: bool) -> None:
        """Cut waiting rows into blocks by rows and bytes, independent of arrival.

        Pages and row groups do not show how rows arrived.
        """
        if not self._waiting:
            return
        rows, start = pa.concat_batches(self._waiting), 0
        ends = np.cumsum(sum((row_sizes(column) for column in rows.columns), np.zeros(rows.num_rows, np.int64)))
        while start < rows.num_rows:
            before = int(ends[start - 1]) if start else 0
            fitting = int(np.searchsorted(ends, before + _BLOCK_BYTES, side="right"))
            end = min(start + _BLOCK_ROWS, max(fitting, start + 1))
            if end >= rows.num_rows and end - start < _BLOCK_ROWS and not last:
                break  # the next row may belong to it
            self._add_block(rows.slice(start, end - start))
            start = end
        rest = rows.slice(start)
        self._waiting = [rest] if rest.num_rows else []
        self._waiting_rows, self._waiting_bytes = rest.num_rows, rest.nbytes

    def _add_block(self, block: pa.RecordBatch) -> None:
        if self._group_rows + block.num_rows > ROW_GROUP_ROWS_MAX:
            self._write_group()
        self._group.append(block)
        self._group_bytes += block.nbytes
        self._group_rows += block.num_rows
        if self._group_rows >= ROW_GROUP_ROWS_MAX or self._group_bytes >= ROW_GROUP_BYTES_MAX:
            self._write_group()

    def _write_group(self) -> None:
        self._await_encoded()
        if self._beside is None:
            self._beside = ThreadPoolExecutor(1)
        self._encoding = self._beside.submit(self._encode, self._group)
        self._group, self._group_rows, self._group_bytes = [], 0, 0

    def _encode(self, group: list[pa.RecordBatch]) -> None:
        if group:
            self._writer.write_table(pa.Table.from_batches(group), row_group_size=ROW_GROUP_ROWS_MAX)

    def _await_encoded(self) -> None:
        """Waits for the row group before. Raises what encoding it raised."""
        encoding, self._encoding = self._encoding, None
        if encoding is not None:
            encoding.result()


class SliceReader:
    """An open slice file of anybody's making."""

    def __init__(
        self,
        file: pq.ParquetFile,
        name: str | None,
        vocabulary: DatasetVocabulary,
        *,
        schema: pa.Schema | None = None,
        path: Path | None = None,
    ) -> None:
        """`schema`: that of `arrow_schema_of`, if it is known.

        `path`: where its pages can be read.
        """
        self._file = file
        self._path = path
        self.rows: int = file.metadata.num_rows
        self.schema: pa.Schema = normal_schema(arrow_schema_of(file) if schema is None else schema, vocabulary)
        """Columns as in the file; offset is Int64 and op Int32 whatever the file has, dictionaries are decoded."""
        for problem, column in _column_problems(self.schema, vocabulary):
            raise InvalidData(problem, place=Place(file=name, field=column, rule="file-no-slice"))

    @property
    def row_groups(self) -> list[range]:
        """Positions of the rows of each row group, in order; none is empty."""
        sizes = [self._file.metadata.row_group(group).num_rows for group in range(self._file.metadata.num_row_groups)]
        ends = list(accumulate(sizes))
        return [range(end - size, end) for end, size in zip(ends, sizes, strict=True) if size]

    def batches(
        self, columns: list[str] | None = None, *, near: range | None = None, bytes_max: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Rows in the order of the file; `columns` by name, in the order of the file.

        Raises InvalidData.

        With `near` only the row groups that hold rows at these positions, whole. With `bytes_max` batches of about so many bytes.
        """
        schema = self.schema
        if columns is not None:
            schema = pa.schema([field for field in schema if field.name in columns])
        groups = None if near is None else self._row_groups(near.start, near.stop)[0]
        if groups != []:
            for batch in batches_of(self._file, schema.names, row_groups=groups, bytes_max=bytes_max):
                yield batch.cast(schema)

    def rows_at(self, *, skip: int, limit: int, columns: Collection[str] | None = None) -> pa.Table:
        """At most `limit` rows after the first `skip`. Raises InvalidData.

        It reads no row group that has none of them, nor other columns.
        """
        names = self.schema.names
        places = [place for place, name in enumerate(names) if columns is None or name in columns]
        schema = pa.schema([self.schema.field(place) for place in places])
        # Arrow takes a name with a dot for a member of a struct, too.
        read = None if columns is None or any("." in name for name in names) else schema.names
        end = min(skip + limit, self.rows)
        groups, first_row = self._row_groups(skip, end)
        taken: list[pa.RecordBatch] = []
        position = first_row
        for batch in batches_of(self._file, read, row_groups=groups) if groups else ():
            start = max(skip - position, 0)
            if start < batch.num_rows:
                piece = batch.slice(start, min(end - position, batch.num_rows) - start)
                taken.append((piece.select(places) if read is None else piece).cast(schema))
            position += batch.num_rows
            if position >= end:
                break
        return pa.Table.from_batches(taken, schema=schema)

    def rows_of(
        self, positions: Positions, columns: Collection[str] | None = None, *, paged_rows_min: int = PAGED_ROWS_MIN
    ) -> pa.Table:
        """Rows at ascending positions, each below `rows`. Raises InvalidData.

        In row groups of `paged_rows_min` rows only the pages of flat columns are read that have some of them; others are read whole.
        """
        names = [name for name in self.schema.names if columns is None or name in columns]
        schema = pa.schema([self.schema.field(name) for name in names])
        taken: list[pa.Table] = []
        first = 0
        for group in range(self._file.metadata.num_row_groups):
            rows = self._file.metadata.row_group(group).num_rows
            begin, end = np.searchsorted(positions, [first, first + rows])
            if begin < end:
                own = positions[begin:end] - first
                taken.append(self._rows_of_group(group, own, schema, paged=rows >= paged_rows_min))
            first += rows
        return pa.concat_tables(taken) if taken else schema.empty_table()

    def _rows_of_group(self, group: int, positions: Positions, schema: pa.Schema, *, paged: bool) -> pa.Table:
        found: dict[str, pa.Array | pa.ChunkedArray] = {}
        if paged and self._path is not None:
            found |= page_rows(self._path, group, positions, schema.names)
        rest = [name for name in schema.names if name not in found]
        position = 0
        parts: list[pa.RecordBatch] = []
        for batch in batches_of(self._file, rest, row_groups=[group]) if rest else ():
            begin, end = np.searchsorted(positions, [position, position + batch.num_rows])
            if begin < end:
                parts += _taken(batch, positions[begin:end] - position)
            position += batch.num_rows
        if parts:
            others = pa.Table.from_batches(parts)
            found |= {name: others.column(name) for name in rest}
        return pa.Table.from_arrays([found[name] for name in schema.names], names=schema.names).cast(schema)

    def _row_groups(self, begin: int, end: int) -> tuple[list[int], int]:
        """The row groups with rows of `[begin, end)`, and their first row's position."""
        groups: list[int] = []
        position, first_row = 0, 0
        for group in range(self._file.metadata.num_row_groups):
            following = position + self._file.metadata.row_group(group).num_rows
            if position < end and following > begin:
                first_row = first_row if groups else position
                groups.append(group)
            position = following
        return groups, first_row


def _taken(batch: pa.RecordBatch, places: Positions) -> list[pa.RecordBatch]:
    """Some rows of a batch."""
    try:
        return [batch.take(pa.array(places))]
    except pa.ArrowNotImplementedError:  # of views Arrow takes no single rows
        return [batch.slice(place, 1) for place in places.tolist()]


@contextmanager
def open_slice(source: Source, vocabulary: DatasetVocabulary) -> Iterator[SliceReader]:
    """A slice for reading.

    Raises InvalidData if it is no Parquet file, lacks offset or op, or turns out damaged.
    """
    name = source.name if isinstance(source, Path) else None
    with open_parquet(source) as file:
        yield SliceReader(file, name, vocabulary, path=source if isinstance(source, Path) else None)


def _column_problems(schema: pa.Schema, vocabulary: DatasetVocabulary) -> Iterator[tuple[str, str]]:
    counted = Counter(schema.names)
    for name in sorted(name for name, count in counted.items() if count > 1):
        yield f"The slice has several columns `{name}`", name
    for name, data_type in ((vocabulary.offset, OFFSET_TYPE), (vocabulary.operation_type, OPERATION_TYPE)):
        if name not in counted:
            yield f"The slice has no column `{name}`", name
        elif schema.field(name).type != data_type:
            yield f"Column `{name}` is {schema.field(name).type}, not an integer", name


def normal_schema(schema: pa.Schema, vocabulary: DatasetVocabulary) -> pa.Schema:
    """Columns as readers give them.

    Offset is Int64 and op Int32 whatever the file has, dictionaries are decoded.
    """
    return pa.schema([_normal_field(field, vocabulary) for field in schema])


def _normal_field(field: pa.Field, vocabulary: DatasetVocabulary) -> pa.Field:
    if field.name == vocabulary.offset and types.is_integer(field.type):
        return field.with_type(OFFSET_TYPE)
    if field.name == vocabulary.operation_type and types.is_integer(field.type):
        return field.with_type(OPERATION_TYPE)
    return field.with_type(plain_type(field.type))
