"""Reading Parquet of users.

Owns the way from strangers' files to rows of ours: every page is surveyed (`parquet_survey`), decoded by Arrow in bounded memory
(`parquet_rows`) with checked casts into a file of ours, and decoded again where pages carry no checksums: by DuckDB in step with Arrow
(`duckdb_reader`), and by Spark where that is not enough (`second_reader`).
Invariant: a value comes out exactly, but for digits of timestamps below the millisecond, which slices do not hold; texts are valid
UTF-8; Spark's own decoder gives no row to a dataset. Source: docs/engine.md#types.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from odfabric.errors import InvalidData, LimitExceeded, Place
from odfabric.formats.parquet.parquet_footer import Footer
from odfabric.formats.slices.arrow_cast import cast_array
from odfabric.formats.slices.slice_schema import TIMESTAMP_TYPE, null_problems
from odfabric_engine_spark.ingest.dataset_columns import DatasetColumns
from odfabric_engine_spark.ingest.parquet.duckdb_reader import DuckdbReader
from odfabric_engine_spark.ingest.parquet.parquet_rows import (
    READ_ERRORS,
    ParquetRows,
    first_line,
    is_of_the_system,
    open_strangers,
)
from odfabric_engine_spark.ingest.parquet.parquet_survey import DAMAGED_HINT, Survey, footer_of, survey
from odfabric_engine_spark.ingest.parquet.second_reader import SecondReader
from odfabric_engine_spark.ingest.staging import Staged, StagingWriter
from odfabric_engine_spark.ingest.values.slice_types import exactly_castable, slice_field
from odfabric_engine_spark.ingest.values.uuid_texts import is_uuid, without_extensions
from odfabric_engine_spark.ingest.values.value_hints import column_in_sql
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.frames.local_rows import loose
from odfabric_engine_spark.spark.frames.null_counts import NullCounts
from odfabric_engine_spark.spark.frames.read_rows import InputRows, check_names
from odfabric_engine_spark.spark.frames.spark_types import spark_schema, spark_type
from odfabric_engine_spark.spark.session import interpret


@dataclass(frozen=True, slots=True)
class _File:
    """One file with content: what its footer says, and how many rows came before it."""

    path: Path
    name: str
    footer: Footer
    schema: pa.Schema
    rows: int
    first_row: int


@dataclass(slots=True)
class ParquetReader:
    """Reads the files of one ingest.

    `schema` None means that `columns` decide, or the first file where these are None too.
    """

    call: EngineCall
    schema: pa.Schema | None
    columns: DatasetColumns | None = None
    _files: list[_File] = field(default_factory=list)
    _unpacked: int = 0
    _largest: int = 0

    def read(self, files: Sequence[tuple[Path, str]]) -> InputRows | None:
        """The rows of all files (path, name) in order.

        None if there is neither schema nor file with content.

        Raises InvalidData with the place of what is wrong, LimitExceeded, IncompatibleSchema.
        """
        for path, name in files:
            if path.stat().st_size:
                self._examine(path, name)
        target = self.schema
        if target is None:
            if not self._files:
                return None
            target = pa.schema(
                [item if self._is_known_null(item) else slice_field(item) for item in self._files[0].schema]
            )
            if self.columns is not None:
                target = self.columns.schema(target, place=Place(file=self._files[0].name), partial=False)
        spark_schema(target)  # refuses types that Spark would change
        for file in self._files:
            self._check_columns(file, target)
        writer = StagingWriter(self.call, pa.schema([item.with_type(loose(item.type)) for item in target]), "parquet")
        nulls = NullCounts(target)
        disputed = [self._stage(file, target, writer, nulls) for file in self._files]
        staged = writer.finish(largest_row_bytes=self._largest)

        def check() -> None:
            self._compare(staged, disputed, target)
            nulls.refuse(lambda row, index: self._locate(row, target.names[index]))

        return InputRows(
            make_frame=staged.make_frame,
            plain=staged.plain,
            check=check,
            schema=target,
            declared=self.schema is not None,
            bytes=staged.bytes,
            count=staged.rows,
            locate=self._locate,
        )

    def _compare(self, staged: Staged, disputed: Sequence[Survey], target: pa.Schema) -> None:
        """Raises InvalidData for rows that Spark reads in another way."""
        if any(found.unchecked for found in disputed) and staged.bytes < self.call.settings.compiled_bytes_min:
            interpret(self.call.session)
        for file, found in zip(self._files, disputed, strict=True):
            reader = SecondReader(self.call, file.path, file.name, found, file.schema, target)
            reader.check(staged, file.first_row)

    def _examine(self, path: Path, name: str) -> None:
        settings = self.call.settings
        footer = footer_of(path, name, bytes_max=settings.parquet_footer_bytes_max)
        rows = footer.rows
        try:
            with open_strangers(path) as file:
                found = file.schema_arrow.remove_metadata()
        except READ_ERRORS as error:
            if is_of_the_system(error):
                raise
            reason = f"Not a readable Parquet file: {first_line(error)}"
            raise InvalidData(reason, place=Place(file=name), hint=DAMAGED_HINT) from None
        check_names(found, settings=settings, file=name)
        before = self._files[-1].first_row + self._files[-1].rows if self._files else 0
        if before + rows > settings.input_rows_max:
            maximum = settings.input_rows_max
            raise LimitExceeded("Too many rows", limit="input_rows_max", maximum=maximum, place=Place(file=name))
        self._files.append(_File(path, name, footer, found, rows, before))

    def _is_known_null(self, item: pa.Field) -> bool:
        """Whether an all-null column of unknown type is one that the dataset knows.

        Writers leave it so that do not know its type.
        """
        return types.is_null(item.type) and self.columns is not None and self.columns.type_of(item.name) is not None

    def _check_columns(self, file: _File, target: pa.Schema) -> None:
        """Columns are found by name.

        With a declared schema more columns are ignored, optional ones may be missing.
        """
        if self.schema is None and set(file.schema.names) != set(target.names):
            raise InvalidData(f"The columns differ from those of {self._files[0].name}", place=Place(file=file.name))
        for wanted in target:
            place = Place(file=file.name, field=wanted.name)
            index = file.schema.get_field_index(wanted.name)
            if index < 0:
                if not wanted.nullable:
                    hint = "a column that may be missing is declared as `type: {kind: Option, inner: ..}`, and is null then"
                    raise InvalidData(f"Column `{wanted.name}` is missing", place=place, hint=hint)
                continue
            if types.is_null(file.schema.field(index).type):
                continue  # nulls fit every type
            found = slice_field(file.schema.field(index)).type
            if _is_bytes_of_uuid(file.schema.field(index).type, wanted.type):
                continue
            if not exactly_castable(found, wanted.type) and not _same_but_nulls(found, wanted.type):
                message = f"Column `{wanted.name}` is {found} instead of {wanted.type}"
                raise InvalidData(message, place=place, hint=_cast_hint(found, wanted))

    def _stage(self, file: _File, target: pa.Schema, writer: StagingWriter, nulls: NullCounts) -> Survey:
        """Writes the rows of one file, with nulls for columns that it does not have.

        Its survey, in which only those columns are left unchecked that a second reader has yet to read.
        """
        there = [item.name for item in target if item.name in file.schema.names]
        with open_strangers(file.path) as opened:
            found = survey(file.path, file.name, opened, file.footer, there, self.call, unpacked=self._unpacked)
        if found.unchecked and self.call.settings.parquet_checksums_required:
            raise InvalidData(
                "The pages of the file carry no checksums, which this node requires",
                place=Place(file=file.name, field=next(iter(found.unchecked))),
                hint="write it with page checksums (pyarrow: write_page_checksum=True; Spark writes them)",
            )
        rows = ParquetRows(file.path, file.name, found, self.call, unpacked=self._unpacked)
        second = DuckdbReader(
            file.path,
            found,
            file.schema,
            self.call.settings,
            lambda array, name: _cast(without_extensions(array, as_text=True), loose(target.field(name).type)),
        )
        with closing(second):
            for first_row, batch in rows.batches(there):
                columns = []
                for item in target:
                    if item.name in there:
                        columns.append(self._cast(batch.column(item.name), item, file, first_row))
                        self._check_within(columns[-1], item, file, first_row)
                    else:
                        columns.append(pa.nulls(batch.num_rows, loose(item.type)))
                second.compare(dict(zip(target.names, columns, strict=True)))
                nulls.add(columns, writer.rows)
                writer.write(columns)
        self._unpacked = max(rows.unpacked, found.unpacked)
        self._largest = max(self._largest, rows.largest)
        left = {name: size for name, size in found.unchecked.items() if name not in second.agreed}
        return replace(found, unchecked=left)

    def _cast(self, array: pa.Array, item: pa.Field, file: _File, first_row: int) -> pa.Array:
        arrow = loose(item.type)
        try:
            return _checked(array, arrow)
        except pa.ArrowException as error:
            low = _first_failing(array, lambda part: _fails(part, arrow))
            place = Place(file=file.name, field=item.name, row=first_row + low + 1)
            raise InvalidData(f"A value is not {item.type}: {first_line(error)}", place=place) from None

    def _check_within(self, array: pa.Array, item: pa.Field, file: _File, first_row: int) -> None:
        """Required members, items and values of a column.

        The nulls of the column itself are counted over all rows.
        """
        if not types.is_nested(item.type):
            return
        within = item.with_nullable(True)
        for problem in null_problems(array, within):
            low = _first_failing(array, lambda part: next(null_problems(part, within), None) is not None)
            raise InvalidData(problem, place=Place(file=file.name, field=item.name, row=first_row + low + 1))

    def _locate(self, row: int, name: str | None = None) -> Place:
        file = next(file for file in reversed(self._files) if file.first_row <= row)
        return Place(file=file.name, row=row - file.first_row + 1, field=name)


def _checked(array: pa.Array, arrow: pa.DataType) -> pa.Array:
    array.validate(full=True)
    found = _cast(without_extensions(array, as_text=not _is_bytes_of_uuid(array.type, arrow)), arrow)
    if _is_beyond_micros(found):
        raise pa.ArrowInvalid("the timestamp is out of range")
    return found


def _cast_hint(found: pa.DataType, wanted: pa.Field) -> str:
    """How a column of another type is taken in."""
    declared = _TYPE_NAMES.get(found, "a type that takes it")
    name = column_in_sql(wanted.name)
    sql_type = spark_type(wanted.type, wanted.name).simpleString().upper()
    return (
        f"declare the column as {declared} in the schema of the read step by `odf set-source`, and write "
        f"CAST({name} AS {sql_type}) AS {name} in the preprocess query"
    )


_TYPE_NAMES = {
    pa.string(): "String",
    pa.float64(): "Float64",
    pa.float32(): "Float32",
    pa.bool_(): "Bool",
    pa.date32(): "Date",
    TIMESTAMP_TYPE: "Timestamp",
    **{getattr(pa, f"{sign}int{bits}")(): f"{sign.upper()}Int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}


def _is_bytes_of_uuid(found: pa.DataType, wanted: pa.DataType) -> bool:
    return is_uuid(found) and (wanted.equals(found.storage_type) or bool(types.is_binary(wanted)))


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
    """Whether a timestamp, however nested, is beyond Spark's microseconds."""
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
        _checked(array, arrow)
    except pa.ArrowException:
        return True
    return False


def _same_but_nulls(one: pa.DataType, other: pa.DataType) -> bool:
    return bool(one.id == other.id) and spark_schema([pa.field("x", one)]) == spark_schema([pa.field("x", other)])
