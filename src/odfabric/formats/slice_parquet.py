"""Data slices as Parquet files: writing them exactly as specified, reading those of anybody, checking their rows.

Invariant: the writer's bytes depend on schema and rows alone, not on the batches in which rows arrive, and a failed write
leaves no file. Readers find columns by name and take any integer width for offset and op. Not here: hashes
(`formats.logical_hash`, `formats.physical_hash`), the shape of slices (`formats.slice_schema`). Source: specification facts,
"Data slices"; RULINGS 18, 23.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import types

from odfabric.errors import IncompatibleSchema, InvalidData, Place
from odfabric.formats.arrow_schema import data_schema_to_arrow
from odfabric.formats.logical_hash_values import plain_type
from odfabric.formats.parquet_reading import Source, arrow_schema_of, batches_of, open_parquet
from odfabric.formats.slice_schema import (
    OFFSET_TYPE,
    OPERATION_TYPE,
    fit_to_slice,
    null_problems,
    types_interchangeable,
)
from odfabric.model.data_schema import DataSchema
from odfabric.model.instant import NANOS_PER_MILLI, NANOS_PER_SECOND, Instant
from odfabric.model.metadata import OffsetInterval
from odfabric.model.operation import OperationType
from odfabric.model.vocabulary import DatasetVocabulary

ROW_GROUP_ROWS_MAX: Final = 1_048_576
ROW_GROUP_BYTES_MAX: Final = 128 << 20
"""A row group is written when its rows take this many bytes in memory, so that wide rows do not exhaust it."""

PAGE_ROWS_MAX: Final = 20_000
_BLOCK_ROWS: Final = 8_192

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

_NANOS_OF_UNIT = {"s": NANOS_PER_SECOND, "ms": NANOS_PER_MILLI, "us": 1_000, "ns": 1}


class SliceWriter:
    """One slice file being written, as a context manager: an error inside it, or in it, removes the file.

    A row group is encoded while the rows of the next one come; an error of it comes with one of the next rows, or at the end.
    """

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        """Begin a file of a schema from `formats.slice_schema`. OSError passes through.

        Raises IncompatibleSchema for a type that Parquet does not have.
        """
        self.rows = 0
        self._path = path
        self._schema = schema.remove_metadata()
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = 0
        self._group: list[pa.RecordBatch] = []
        self._group_bytes = 0
        self._beside: ThreadPoolExecutor | None = None
        self._encoding: Future[None] | None = None
        try:
            self._writer = pq.ParquetWriter(path, self._schema, **_PROPERTIES)
        except pa.ArrowException as error:
            path.unlink(missing_ok=True)
            raise IncompatibleSchema(f"The schema has no Parquet form: {error}") from error

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows, fitted to the schema. Raises IncompatibleSchema, InvalidData as `fit_to_slice` does."""
        fitted = fit_to_slice(batch, self._schema)
        self.rows += fitted.num_rows
        self._waiting.append(fitted)
        self._waiting_rows += fitted.num_rows
        if self._waiting_rows >= _BLOCK_ROWS:
            self._form_blocks(at_least=_BLOCK_ROWS)

    def __enter__(self) -> SliceWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._form_blocks(at_least=1)
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

    def _form_blocks(self, *, at_least: int) -> None:
        """Cut waiting rows into blocks of one size, so that pages and row groups do not show how rows arrived."""
        if self._waiting_rows < at_least:
            return
        rows, start = pa.concat_batches(self._waiting), 0
        while rows.num_rows - start >= at_least:
            self._add_block(rows.slice(start, _BLOCK_ROWS))
            start += _BLOCK_ROWS
        rest = rows.slice(start)
        self._waiting = [rest] if rest.num_rows else []
        self._waiting_rows = rest.num_rows

    def _add_block(self, block: pa.RecordBatch) -> None:
        self._group.append(block)
        self._group_bytes += block.nbytes
        if len(self._group) * _BLOCK_ROWS >= ROW_GROUP_ROWS_MAX or self._group_bytes >= ROW_GROUP_BYTES_MAX:
            self._write_group()

    def _write_group(self) -> None:
        self._await_encoded()
        if self._beside is None:
            self._beside = ThreadPoolExecutor(1)
        self._encoding = self._beside.submit(self._encode, self._group)
        self._group, self._group_bytes = [], 0

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

    def __init__(self, file: pq.ParquetFile, name: str | None, vocabulary: DatasetVocabulary) -> None:
        self._file = file
        self.rows: int = file.metadata.num_rows
        self.schema: pa.Schema = _normal_schema(arrow_schema_of(file), vocabulary)
        """Columns as in the file; offset is Int64 and op Int32 whatever the file has, dictionaries are decoded."""
        for problem, column in _column_problems(self.schema, vocabulary):
            raise InvalidData(problem, place=Place(file=name, field=column, rule="file-no-slice"))

    def batches(
        self, columns: list[str] | None = None, *, near: range | None = None, bytes_max: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Rows in the order of the file; `columns` by name, in the order of the file. Raises InvalidData.

        With `near` only the row groups that hold rows at these positions, whole. With `bytes_max` batches of about so many bytes.
        """
        schema = self.schema
        if columns is not None:
            schema = pa.schema([field for field in schema if field.name in columns])
        groups = None if near is None else self._row_groups(near.start, near.stop)[0]
        if groups != []:
            for batch in batches_of(self._file, schema.names, row_groups=groups, bytes_max=bytes_max):
                yield batch.cast(schema)

    def rows_at(self, *, skip: int, limit: int) -> pa.Table:
        """At most `limit` rows after the first `skip`, reading no row group that has none of them. Raises InvalidData."""
        end = min(skip + limit, self.rows)
        groups, first_row = self._row_groups(skip, end)
        taken: list[pa.RecordBatch] = []
        position = first_row
        for batch in batches_of(self._file, row_groups=groups) if groups else ():
            start = max(skip - position, 0)
            if start < batch.num_rows:
                taken.append(batch.slice(start, min(end - position, batch.num_rows) - start).cast(self.schema))
            position += batch.num_rows
            if position >= end:
                break
        return pa.Table.from_batches(taken, schema=self.schema)

    def _row_groups(self, begin: int, end: int) -> tuple[list[int], int]:
        """The row groups that hold rows of `[begin, end)`, and the position of their first row."""
        groups: list[int] = []
        position, first_row = 0, 0
        for group in range(self._file.metadata.num_row_groups):
            following = position + self._file.metadata.row_group(group).num_rows
            if position < end and following > begin:
                first_row = first_row if groups else position
                groups.append(group)
            position = following
        return groups, first_row


@contextmanager
def open_slice(source: Source, vocabulary: DatasetVocabulary) -> Iterator[SliceReader]:
    """A slice for reading. Raises InvalidData if it is no Parquet file, lacks offset or op, or turns out damaged."""
    name = source.name if isinstance(source, Path) else None
    with open_parquet(source) as file:
        yield SliceReader(file, name, vocabulary)


def check_slice_rows(
    source: Source,
    interval: OffsetInterval,
    vocabulary: DatasetVocabulary,
    data_schema: DataSchema | None = None,
    *,
    system_time: Instant | None = None,
) -> list[str]:
    """What is wrong with the rows of a slice that declares `interval`; empty if nothing. At most one text per rule.

    Offsets must count through the interval, op must be an operation type, system_time one value (that of the block, if
    given, cut to milliseconds). With a schema, its columns must be there with their types and without forbidden nulls;
    optional columns may be missing, for they may have been added later. Raises InvalidData if the file is unreadable.
    """
    with open_slice(source, vocabulary) as reader:
        expected = _expected_schema(data_schema, vocabulary)
        problems = _Problems(_schema_problems(reader.schema, expected))
        rows = interval.end - interval.start + 1
        if reader.rows != rows:
            interval_text = f"[{interval.start}, {interval.end}]"
            problems.add("rows", f"the slice has {reader.rows} rows, its interval {interval_text} means {rows}")
        constant = _Constant(vocabulary.system_time, None if system_time is None else system_time.truncated_to_millis())
        position = 0
        for batch in reader.batches():
            _check_offsets(batch, vocabulary, interval.start + position, position, problems)
            _check_operations(batch, vocabulary, position, problems)
            constant.check(batch, position, problems)
            for column, field in _comparable(batch, expected):
                for text in null_problems(column, field):
                    problems.add(f"nulls of {field.name}", text)
            position += batch.num_rows
        return problems.texts


class _Problems:
    """The first finding of each rule, in the order found."""

    def __init__(self, found: dict[str, str]) -> None:
        self._found = found

    def add(self, rule: str, text: str) -> None:
        self._found.setdefault(rule, text)

    @property
    def texts(self) -> list[str]:
        return list(self._found.values())


class _Constant:
    """The one system time of a slice: the expected one, or else that of its first row."""

    def __init__(self, name: str, expected: Instant | None) -> None:
        self._name, self._expected = name, expected

    def check(self, batch: pa.RecordBatch, position: int, problems: _Problems) -> None:
        if self._name not in batch.schema.names:
            problems.add(f"column {self._name}", f"the slice has no column `{self._name}`")
            return
        column = batch.column(self._name)
        if not types.is_timestamp(column.type):
            problems.add(f"column {self._name}", f"column `{self._name}` is {column.type}, not a timestamp")
        elif column.null_count:
            problems.add("system_time", f"column `{self._name}` has nulls")
        else:
            unit = _NANOS_OF_UNIT[column.type.unit]
            self._compare(column.view(pa.int64()).to_numpy(), unit, position, problems)

    def _compare(self, values: npt.NDArray[np.int64], unit: int, position: int, problems: _Problems) -> None:
        expected = self._expected or Instant(int(values[0]) * unit)
        self._expected = expected
        for row in (values != expected.epoch_ns // unit).nonzero()[0][:1]:
            found = Instant(int(values[row]) * unit)
            text = f"row {position + row + 1} has the {self._name} {found}, {expected} is expected"
            problems.add("system_time", text)


def _check_offsets(
    batch: pa.RecordBatch, vocabulary: DatasetVocabulary, first: int, position: int, problems: _Problems
) -> None:
    column = batch.column(vocabulary.offset)
    if column.null_count:
        problems.add("offset", f"column `{vocabulary.offset}` has nulls")
        return
    values = column.to_numpy(zero_copy_only=False)
    for row in (values - np.arange(len(values)) != first).nonzero()[0][:1]:
        text = f"row {position + row + 1} has the offset {values[row]}, {first + row} is expected"
        problems.add("offset", text)


def _check_operations(batch: pa.RecordBatch, vocabulary: DatasetVocabulary, position: int, problems: _Problems) -> None:
    column = batch.column(vocabulary.operation_type)
    if column.null_count:
        problems.add("op", f"column `{vocabulary.operation_type}` has nulls")
        return
    values = column.to_numpy(zero_copy_only=False)
    for row in ((values < min(OperationType)) | (values > max(OperationType))).nonzero()[0][:1]:
        problems.add("op", f"row {position + row + 1} has {values[row]} as operation type, 0 to 3 are known")


def _expected_schema(data_schema: DataSchema | None, vocabulary: DatasetVocabulary) -> pa.Schema | None:
    if data_schema is None:
        return None
    return _normal_schema(data_schema_to_arrow(data_schema, encodings=False), vocabulary)


def _schema_problems(found: pa.Schema, expected: pa.Schema | None) -> dict[str, str]:
    problems: dict[str, str] = {}
    if expected is None:
        return problems
    for field in expected:
        if field.name not in found.names:
            if not field.nullable:
                problems[f"column {field.name}"] = f"the slice has no column `{field.name}`"
        elif not types_interchangeable(found.field(field.name).type, field.type):
            problems[f"column {field.name}"] = (
                f"column `{field.name}` is {found.field(field.name).type}, the dataset's schema says {field.type}"
            )
    for name in found.names:
        if name not in expected.names:
            problems[f"column {name}"] = f"column `{name}` is not in the dataset's schema"
    return problems


def _comparable(batch: pa.RecordBatch, expected: pa.Schema | None) -> Iterator[tuple[pa.Array, pa.Field]]:
    """Columns whose nulls can be judged: those of the expected type."""
    for field in expected or ():
        if field.name in batch.schema.names:
            column = batch.column(field.name)
            if types_interchangeable(column.type, field.type):
                yield column, field


def _column_problems(schema: pa.Schema, vocabulary: DatasetVocabulary) -> Iterator[tuple[str, str]]:
    for name in sorted({name for name in schema.names if schema.names.count(name) > 1}):
        yield f"The slice has several columns `{name}`", name
    for name, data_type in ((vocabulary.offset, OFFSET_TYPE), (vocabulary.operation_type, OPERATION_TYPE)):
        if name not in schema.names:
            yield f"The slice has no column `{name}`", name
        elif schema.field(name).type != data_type:
            yield f"Column `{name}` is {schema.field(name).type}, not an integer", name


def _normal_schema(schema: pa.Schema, vocabulary: DatasetVocabulary) -> pa.Schema:
    return pa.schema([_normal_field(field, vocabulary) for field in schema])


def _normal_field(field: pa.Field, vocabulary: DatasetVocabulary) -> pa.Field:
    if field.name == vocabulary.offset and types.is_integer(field.type):
        return field.with_type(OFFSET_TYPE)
    if field.name == vocabulary.operation_type and types.is_integer(field.type):
        return field.with_type(OPERATION_TYPE)
    return field.with_type(plain_type(field.type))
