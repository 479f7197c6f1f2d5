"""Second reader for foreign Parquet that DuckDB did not confirm: Spark and Arrow.

Owns the comparison: a hash of every row, computed by the same expressions over the file as Spark reads it and over the rows that Arrow
has written to a file of ours. Only columns are read again of which a page carries no checksum and DuckDB (`duckdb_reader`) did not find the
same. Invariant: a column passes if two decoders
that share no code agree on every value and its place; what Spark cannot read is refused, for nobody can tell it from damage. Not here:
damage that both decoders must take for values, such as another digit in a page without compression (docs/howto/push-parquet.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from py4j.protocol import Py4JError
from pyarrow import types
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from odfabric.errors import External, InvalidData, LimitExceeded, Place
from odfabric_engine_spark.ingest.parquet.parquet_survey import DAMAGED, DAMAGED_HINT, RowGroup, Survey
from odfabric_engine_spark.ingest.staging import Staged
from odfabric_engine_spark.ingest.values.uuid_texts import is_uuid
from odfabric_engine_spark.rows.slice_writer import SINGLE_TASK_BYTES_MAX
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.failures import as_odf_error, is_silence
from odfabric_engine_spark.spark.frames.read_rows import ROW
from odfabric_engine_spark.spark.frames.spark_path import spark_path
from odfabric_engine_spark.spark.frames.spark_types import spark_type

_VECTORS = "spark.sql.parquet.enableVectorizedReader"
_NANOS = "spark.sql.legacy.parquet.nanosAsLong"
_NANOS_PER_MILLI = 1_000_000


@dataclass(frozen=True, slots=True)
class SecondReader:
    """Compares a file with the staged rows `staged` from `first_row` on.

    `found` are the columns as Arrow found them, `taken` as they were staged.
    """

    call: EngineCall
    path: Path
    name: str
    survey: Survey
    found: pa.Schema
    taken: pa.Schema

    def check(self, staged: Staged, first_row: int) -> None:
        """Raises InvalidData naming column and row that differ.

        Raises LimitExceeded for a column that is too large to be read again.
        """
        rows = self.survey.groups[-1].first_row + self.survey.groups[-1].rows if self.survey.groups else 0
        if not rows or not self.survey.unchecked:
            return
        ours = staged.frame
        if first_row or rows < staged.rows:
            ours = ours.where(F.col(ROW).between(first_row, first_row + rows - 1))
            ours = ours.withColumn(ROW, F.col(ROW) - F.lit(first_row))
        for names in self._portions():
            self.call.check()
            self._compare(names, ours)

    def _portions(self) -> Iterator[list[str]]:
        """Columns that Spark may hold at once."""
        maximum = self.call.settings.parquet_unchecked_bytes_max
        names, size = list[str](), 0
        for name, own in self.survey.unchecked.items():
            if name in self.survey.arrow_only or types.is_null(self.found.field(name).type):
                continue  # a column without a type has no values that two readers could read differently
            if own > maximum:
                raise LimitExceeded(
                    "A column without page checksums is too large in a row group to be read by two readers:"
                    " write page checksums, or smaller row groups",
                    limit="parquet_unchecked_bytes_max",
                    maximum=maximum,
                    place=Place(file=self.name, field=name),
                )
            if names and size + own > maximum:
                yield names
                names, size = [], 0
            names.append(name)
            size += own
        if names:
            yield names

    def _compare(self, names: list[str], ours: DataFrame) -> None:
        problem: Exception | None = None
        # Spark's own decoder first, then that of parquet-mr, which is slower and knows more encodings.
        for vectors in (True, False):
            with _reading(self.call.session, vectors=vectors):
                try:
                    theirs = self._read(names)
                    if self._agree(names, theirs, ours):
                        return
                    self._refuse_difference(names, theirs, ours)
                except (PySparkException, Py4JError) as error:
                    self.call.check()
                    problem = error
                    known = as_odf_error(error)
                    if is_silence(error):
                        raise
                    if isinstance(known, External):
                        raise known from error
        if len(names) > 1:
            half = len(names) // 2
            self._compare(names[:half], ours)
            self._compare(names[half:], ours)
            return
        raise InvalidData(
            f"{DAMAGED}, or written in a way that only one of two readers understands: column `{names[0]}`",
            place=Place(file=self.name, field=names[0]),
            hint=DAMAGED_HINT,
        ) from problem

    def _read(self, names: Sequence[str]) -> DataFrame:
        fields = [T.StructField(name, _as_read(self.found.field(name).type, name), True) for name in names]
        frame = self.call.session.read.schema(T.StructType(fields)).parquet(spark_path(self.path))
        row = frame.metadataColumn("_metadata").getField("row_index")
        return frame.select("*", row.alias(ROW))

    def _agree(self, names: Sequence[str], theirs: DataFrame, ours: DataFrame) -> bool:
        one, other = (
            frame.selectExpr(
                f"xxhash64({', '.join(self._parts(name, theirs=own) for name in names)}, {_quoted(ROW)}) AS hash",
                f"{sign} AS count",
            )
            for frame, own, sign in ((theirs, True, 1), (ours, False, -1))
        )
        return _same_rows(one, other, few=self.survey.unpacked <= SINGLE_TASK_BYTES_MAX)

    def _parts(self, name: str, *, theirs: bool) -> str:
        taken = self.taken.field(name).type
        return ", ".join(_parts(_quoted(name), taken, self.found.field(name).type if theirs else taken))

    def _refuse_difference(self, names: Sequence[str], theirs: DataFrame, ours: DataFrame) -> None:
        """Raises InvalidData with the first column that differs, and its first row."""
        one, other = (
            frame.selectExpr(
                _quoted(ROW), *(f"xxhash64({self._parts(name, theirs=own)}) AS h{n}" for n, name in enumerate(names))
            ).alias(alias)
            for frame, own, alias in ((theirs, True, "one"), (ours, False, "other"))
        )
        both = one.join(other, F.col(f"one.{ROW}") == F.col(f"other.{ROW}"), "full")
        row = F.coalesce(F.col(f"one.{ROW}"), F.col(f"other.{ROW}"))
        differs = [~F.col(f"one.h{n}").eqNullSafe(F.col(f"other.h{n}")) for n in range(len(names))]
        found = both.agg(*(F.min(F.when(each, row)) for each in differs)).collect()[0]
        first, name = min(
            ((found[n], name) for n, name in enumerate(names) if found[n] is not None), default=(0, names[0])
        )
        raise InvalidData(
            f"{DAMAGED} in row group {_group_of(self.survey.groups, first).index + 1}:"
            f" two readers find different values in column `{name}`",
            place=Place(file=self.name, field=name, row=first + 1),
            hint=DAMAGED_HINT,
        )


@contextmanager
def _reading(session: SparkSession, *, vectors: bool) -> Iterator[None]:
    wanted = {_VECTORS: str(vectors).lower(), _NANOS: "true"}
    before = {name: session.conf.get(name) for name in wanted}
    for name, value in wanted.items():
        session.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            session.conf.set(name, str(value))


def _same_rows(one: DataFrame, other: DataFrame, *, few: bool) -> bool:
    """Whether both have the same hashes: opposite signs cancel equal ones."""
    both = one.unionAll(other)
    if few:
        # An aggregate costs as much as all the rest of a small push.
        rows = both.toArrow()
        hashes, counts = (rows.column(name).to_numpy() for name in ("hash", "count"))
        return not np.bitwise_xor.reduce(hashes, initial=0) and not counts.sum()
    found = both.agg(F.bit_xor("hash"), F.sum("count")).collect()[0]
    return not found[0] and not found[1]


def _group_of(groups: Sequence[RowGroup], row: int) -> RowGroup:
    return next(group for group in reversed(groups) if group.first_row <= row)


def _as_read(arrow: pa.DataType, path: str) -> T.DataType:
    """The type in which Spark reads a column as it stands."""
    if types.is_dictionary(arrow):
        return _as_read(arrow.value_type, path)
    if isinstance(arrow, pa.BaseExtensionType):
        return _as_read(arrow.storage_type, path)
    if types.is_timestamp(arrow):
        return T.LongType() if arrow.unit == "ns" else T.TimestampType() if arrow.tz else T.TimestampNTZType()
    if types.is_date64(arrow):
        return T.DateType()
    if types.is_struct(arrow):
        return T.StructType(
            [T.StructField(member.name, _as_read(member.type, f"{path}.{member.name}"), True) for member in arrow]
        )
    if _is_list(arrow):
        return T.ArrayType(_as_read(arrow.value_type, f"{path}[]"), True)
    if types.is_map(arrow):
        key, item = _as_read(arrow.key_type, f"{path}{{key}}"), _as_read(arrow.item_type, f"{path}{{value}}")
        return T.MapType(key, item, True)
    return spark_type(arrow, path)


def _parts(value: str, taken: pa.DataType, found: pa.DataType) -> tuple[str, str]:
    """A value as parts of a hash, which by itself passes over nulls.

    `found` is the type in which Spark has it.
    """
    return f"isnull({value})", _hashable(value, taken, found)


def _hashable(value: str, taken: pa.DataType, found: pa.DataType) -> str:
    if types.is_struct(taken):
        members = zip(taken, found, strict=True)
        parts = [part for own, its in members for part in _parts(f"{value}.{_quoted(own.name)}", own.type, its.type)]
        return f"xxhash64({', '.join(parts)})"
    if _is_list(taken):
        item = f"item{value.count('item')}"
        parts = list(_parts(item, taken.value_type, found.value_type))
        return f"transform({value}, {item} -> xxhash64({', '.join(parts)}))"
    if types.is_map(taken):
        entry = f"entry{value.count('entry')}"
        parts = [
            *_parts(f"{entry}.key", taken.key_type, found.key_type),
            *_parts(f"{entry}.value", taken.item_type, found.item_type),
        ]
        return f"transform(map_entries({value}), {entry} -> xxhash64({', '.join(parts)}))"
    return value if found == taken else _as_taken(value, found, taken)


def _as_taken(value: str, found: pa.DataType, taken: pa.DataType) -> str:
    """A value as Spark read it, in the form in which it was staged."""
    if types.is_dictionary(found):
        return _as_taken(value, found.value_type, taken)
    if is_uuid(found) and types.is_string(taken):
        digits = f"lower(hex({value}))"
        return f"regexp_replace({digits}, '^(.{{8}})(.{{4}})(.{{4}})(.{{4}})', '$1-$2-$3-$4-')"
    if isinstance(found, pa.BaseExtensionType):
        return _as_taken(value, found.storage_type, taken)
    if types.is_timestamp(found):
        if found.unit == "ns":
            return f"timestamp_millis(({value} - pmod({value}, {_NANOS_PER_MILLI}L)) div {_NANOS_PER_MILLI}L)"
        return f"timestamp_millis(unix_millis(CAST({value} AS TIMESTAMP)))"
    wanted = spark_type(taken, "")
    return value if wanted == _as_read(found, "") else f"CAST({value} AS {wanted.simpleString()})"


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _is_list(arrow: pa.DataType) -> bool:
    return bool(types.is_list(arrow) or types.is_large_list(arrow) or types.is_fixed_size_list(arrow))
