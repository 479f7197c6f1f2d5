"""Reading Parquet of users.

Owns which files Spark reads as they are and which are converted first. The footer is examined in this process; a file whose
types Spark takes over unchanged is read by Spark itself, others (nanoseconds, UInt64, dictionaries, ...) go through Arrow in
batches, with checked casts. Invariant: a value comes out exactly, but for digits of timestamps below the millisecond, which
slices do not hold; texts are valid UTF-8. Source: RULINGS 22; specification facts, "Spark", data exchange.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from py4j.protocol import Py4JError
from pyarrow import types
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from odfabric.errors import InvalidData, LimitExceeded, OdfError, Place
from odfabric.formats.arrow_cast import cast_array
from odfabric.formats.slice_schema import TIMESTAMP_TYPE
from odfabric_engine_spark.call import EngineCall
from odfabric_engine_spark.local_rows import loose
from odfabric_engine_spark.read.exact_filters import with_exact_filters
from odfabric_engine_spark.read.input_rows import ROW, InputRows, check_names, column
from odfabric_engine_spark.read.null_counts import NULLS_HINT, unexpected_nulls
from odfabric_engine_spark.read.slice_types import exactly_castable, read_by_spark, slice_field
from odfabric_engine_spark.read.spark_path import spark_path
from odfabric_engine_spark.read.staging import StagingWriter
from odfabric_engine_spark.read.time_formats import whole_millis
from odfabric_engine_spark.spark_types import spark_schema


@dataclass(frozen=True, slots=True)
class _File:
    """One file with content: what its footer says, and how many rows came before it."""

    path: Path
    name: str
    schema: pa.Schema
    rows: int
    first_row: int
    bytes: int

    def open(self) -> pq.ParquetFile:
        """For reading; timestamps of the old 96-bit form come as milliseconds, as nanoseconds would wrap around."""
        return pq.ParquetFile(
            self.path, coerce_int96_timestamp_unit="ms", pre_buffer=False, page_checksum_verification=True
        )


@dataclass(slots=True)
class ParquetReader:
    """Reads the files of one ingest. `schema` None means that the first file decides."""

    call: EngineCall
    schema: pa.Schema | None
    _files: list[_File] = field(default_factory=list)

    def read(self, files: Sequence[tuple[Path, str]]) -> InputRows | None:
        """The rows of all files (path, name) in order; None if there is neither schema nor file with content.

        Raises InvalidData with the place of what is wrong, LimitExceeded, IncompatibleSchema.
        """
        for path, name in files:
            if path.stat().st_size:
                self._examine(path, name)
        target = self.schema
        if target is None:
            if not self._files:
                return None
            target = pa.schema([slice_field(item) for item in self._files[0].schema])
        for file in self._files:
            self._check_columns(file, target)
        frames = [self._frame(file, target, number) for number, file in enumerate(self._files)]
        empty = self.call.session.createDataFrame([], spark_schema([*target, pa.field(ROW, pa.int64())]))
        frame = reduce(DataFrame.unionByName, frames) if frames else empty
        try:
            self._refuse_nulls(frame, target)
        except (PySparkException, Py4JError) as error:
            raise self._explain() or error from error
        return InputRows(
            frame=frame,
            schema=target,
            declared=self.schema is not None,
            bytes=sum(file.bytes for file in self._files),
            locate=self._locate,
            explain=self._explain,
        )

    def _examine(self, path: Path, name: str) -> None:
        settings = self.call.settings
        try:
            with pq.ParquetFile(path, coerce_int96_timestamp_unit="ms") as file:
                metadata = file.metadata
                rows = metadata.num_rows
                size = sum(metadata.row_group(index).total_byte_size for index in range(metadata.num_row_groups))
                found = file.schema_arrow.remove_metadata()
        except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
            raise InvalidData(f"Not a readable Parquet file: {_first_line(error)}", place=Place(file=name)) from None
        check_names(found.names, columns_max=settings.columns_max, file=name)
        before = self._files[-1].first_row + self._files[-1].rows if self._files else 0
        if before + rows > settings.input_rows_max:
            maximum = settings.input_rows_max
            raise LimitExceeded("Too many rows", limit="input_rows_max", maximum=maximum, place=Place(file=name))
        self._files.append(_File(path, name, found, rows, before, size))

    def _check_columns(self, file: _File, target: pa.Schema) -> None:
        """Columns are found by name; with a declared schema more columns are ignored, optional ones may be missing."""
        if self.schema is None and set(file.schema.names) != set(target.names):
            raise InvalidData(f"The columns differ from those of {self._files[0].name}", place=Place(file=file.name))
        for wanted in target:
            place = Place(file=file.name, field=wanted.name)
            index = file.schema.get_field_index(wanted.name)
            if index < 0:
                if not wanted.nullable:
                    raise InvalidData(f"Column `{wanted.name}` is missing", place=place)
                continue
            found = slice_field(file.schema.field(index)).type
            if not exactly_castable(found, wanted.type) and not _same_but_nulls(found, wanted.type):
                raise InvalidData(f"Column `{wanted.name}` is {found} instead of {wanted.type}", place=place)

    def _frame(self, file: _File, target: pa.Schema, number: int) -> DataFrame:
        wanted = [item for item in target if item.name in file.schema.names]
        direct = all(
            read_by_spark(file.schema.field(item.name).type)
            and _same_but_nulls(slice_field(file.schema.field(item.name)).type, item.type)
            for item in wanted
        )
        read = self._read_by_spark(file, wanted) if direct else self._converted(file, wanted, number)
        missing = {item.name for item in target} - {item.name for item in wanted}
        spark = {item.name: item.dataType for item in spark_schema(target)}
        columns = [
            (F.lit(None).cast(spark[item.name]) if item.name in missing else column(item.name)).alias(item.name)
            for item in target
        ]
        return read.select(*columns, (F.col(ROW) + F.lit(file.first_row)).alias(ROW))

    def _read_by_spark(self, file: _File, wanted: Sequence[pa.Field]) -> DataFrame:
        rows = with_exact_filters(self.call.session.read.schema(spark_schema(wanted)).parquet(spark_path(file.path)))
        columns = [_checked(item).alias(item.name) for item in wanted]
        return rows.select(*columns, F.col("_metadata.row_index").alias(ROW))

    def _converted(self, file: _File, wanted: Sequence[pa.Field], number: int) -> DataFrame:
        # Nulls within a column are found where it is written, as in files that Spark reads by itself.
        wanted = [item.with_type(loose(item.type)) for item in wanted]
        writer = StagingWriter(self.call, pa.schema(wanted), f"parquet-{number}")
        with file.open() as source:
            for batch in source.iter_batches(self._batch_rows(file), columns=[item.name for item in wanted]):
                arrays = [self._cast(batch.column(item.name), item, file, writer.rows) for item in wanted]
                writer.write(arrays)
        return writer.finish().frame

    def _batch_rows(self, file: _File) -> int:
        settings = self.call.settings
        row_bytes = max(1, file.bytes // max(1, file.rows))
        return max(1, min(settings.batch_rows, settings.batch_bytes // row_bytes))

    def _cast(self, array: pa.Array, item: pa.Field, file: _File, first_row: int) -> pa.Array:
        try:
            array.validate(full=True)
            return _cast(array, item.type)
        except pa.ArrowException as error:
            low = _first_failing(array, lambda part: _fails(part, item.type))
            place = Place(file=file.name, field=item.name, row=first_row + low + 1)
            raise InvalidData(f"A value is not {item.type}: {_first_line(error)}", place=place) from None

    def _refuse_nulls(self, frame: DataFrame, target: pa.Schema) -> None:
        doubtful = [
            item.name
            for item in target
            if not item.nullable and any(file.schema.field(item.name).nullable for file in self._files)
        ]
        if not doubtful:
            return
        nulls = [F.count_if(column(name).isNull()) for name in doubtful]
        rows = [F.min(F.when(column(name).isNull(), F.col(ROW))) for name in doubtful]
        found = frame.agg(*nulls, *rows).collect()[0]
        for index, name in enumerate(doubtful):
            if found[index]:
                place = self._locate(found[len(doubtful) + index])
                at = Place(file=place.file, row=place.row, field=name)
                raise InvalidData(unexpected_nulls(name, found[index]), place=at, hint=NULLS_HINT)

    def _locate(self, row: int) -> Place:
        file = next(file for file in reversed(self._files) if file.first_row <= row)
        return Place(file=file.name, row=row - file.first_row + 1)

    def _explain(self) -> OdfError | None:
        """What is wrong with files that Spark could not read to the end."""
        for file in self._files:
            row = 0
            try:
                with file.open() as source:
                    for batch in source.iter_batches(self._batch_rows(file)):
                        self.call.check()
                        for name, array in zip(batch.schema.names, batch.columns, strict=True):
                            array.validate(full=True)
                            if _is_beyond_micros(array):
                                at = row + _first_failing(array, _is_beyond_micros) + 1
                                place = Place(file=file.name, field=name, row=at)
                                return InvalidData("A timestamp is out of range", place=place)
                        row += batch.num_rows
            except (pa.ArrowException, OSError) as error:
                place = Place(file=file.name, row=row + 1)
                return InvalidData(f"Not a readable Parquet file: {_first_line(error)}", place=place)
        return None


def _checked(item: pa.Field) -> Column:
    """A column as Spark read it, held to what slices hold."""
    value = column(item.name)
    if types.is_string(item.type):
        return F.validate_utf8(value)
    return whole_millis(value) if types.is_timestamp(item.type) else value


def _cast(array: pa.Array, arrow: pa.DataType) -> pa.Array:
    if types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if types.is_timestamp(array.type):
        return _floor_millis(array)
    if types.is_uint64(arrow) and len(array) and (pc.max(array).as_py() or 0) > 2**63 - 1:
        raise pa.ArrowInvalid("integers above 2^63-1 are not supported")
    if pa.types.is_nested(arrow):
        return cast_array(array, arrow, safe=not _has_timestamp(arrow))
    return array.cast(arrow)


def _floor_millis(array: pa.Array) -> pa.Array:
    return cast_array(array.cast(pa.timestamp(array.type.unit, "UTC")), TIMESTAMP_TYPE, safe=False)


def _has_timestamp(arrow: pa.DataType) -> bool:
    inner = [arrow.field(index).type for index in range(arrow.num_fields)]
    return bool(types.is_timestamp(arrow)) or any(_has_timestamp(item) for item in inner)


def _first_failing(array: pa.Array, fails: Callable[[pa.Array], bool]) -> int:
    """Where the first value is for which the whole fails, by halves."""
    low, high = 0, len(array)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fails(array.slice(low, middle - low)) else (middle, high)
    return low


def _is_beyond_micros(array: pa.Array) -> bool:
    """Whether a timestamp in it, however deep, is one that Spark, which counts microseconds, cannot have."""
    if types.is_struct(array.type):
        return any(_is_beyond_micros(each) for each in array.flatten())
    if types.is_map(array.type):
        return _is_beyond_micros(array.keys) or _is_beyond_micros(array.items)
    if types.is_list(array.type) or types.is_large_list(array.type) or types.is_fixed_size_list(array.type):
        return _is_beyond_micros(array.flatten())
    if not types.is_timestamp(array.type):
        return False
    try:
        array.cast(pa.timestamp("us", array.type.tz))
    except pa.ArrowInvalid:
        return bool(array.type.unit != "ns")
    return False


def _fails(array: pa.Array, arrow: pa.DataType) -> bool:
    try:
        array.validate(full=True)
        _cast(array, arrow)
    except pa.ArrowException:
        return True
    return False


def _same_but_nulls(one: pa.DataType, other: pa.DataType) -> bool:
    return bool(one.id == other.id) and spark_schema([pa.field("x", one)]) == spark_schema([pa.field("x", other)])


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:300]
