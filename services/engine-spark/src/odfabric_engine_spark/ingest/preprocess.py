"""Preprocessing: the user's SQL over `input`, or default rules.

Owns what happens between reading and merging. Defaults apply only to inputs whose schema nobody declared: names of system
columns get an underscore in front, and event times that came as integers (Unix seconds) or texts become timestamps.
Invariant: the result has an order that is the same on every run: that of the input where the SQL keeps rows as they come,
else that of all columns. Source: specification, "Data Ingestion".
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from py4j.protocol import Py4JError
from pyarrow import types
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from odfabric.errors import InvalidData, OdfError, Place
from odfabric.formats.files.time_formats import MILLIS_PER_SECOND, RFC3339_DATE, RFC3339_TIMESTAMP
from odfabric.formats.slices.slice_schema import TIMESTAMP_TYPE
from odfabric.model.engine import RenamedColumn
from odfabric.model.metadata import TransformSql
from odfabric.model.source import MergeStrategy, MergeStrategyChangelogStream, MergeStrategyUpsertStream
from odfabric.model.vocabulary import DatasetVocabulary
from odfabric_engine_spark.arrays.parallel_columns import joined
from odfabric_engine_spark.ingest.values.spark_times import spark_timestamp
from odfabric_engine_spark.ingest.values.text_values import TextFormats, typed
from odfabric_engine_spark.rows.failing_rows import Described, FailedRows, computed_over
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.catalyst.plan_nodes import (
    analysed,
    children,
    expressions_of,
    inner_plan,
    simple_name,
    walk_expression,
)
from odfabric_engine_spark.spark.frames.exact_filters import with_exact_filters
from odfabric_engine_spark.spark.frames.local_rows import local_rows
from odfabric_engine_spark.spark.frames.plain_rows import NotPlain, renamed, with_column
from odfabric_engine_spark.spark.frames.read_rows import ROW, InputRows, column, raised
from odfabric_engine_spark.spark.frames.result_rows import SCRATCH_OPTIONS, ResultTooLarge, collected
from odfabric_engine_spark.spark.frames.spark_path import spark_path
from odfabric_engine_spark.spark.frames.spark_types import arrow_schema, spark_type
from odfabric_engine_spark.sql.gate import run_gated_steps
from odfabric_engine_spark.sql.parsed_plan_rules import Mode

_log = logging.getLogger(__name__)

INPUT_TABLE = "input"

_KEEP_ORDER = frozenset(
    "Project Filter Generate SubqueryAlias View Union LogicalRelation LocalRelation".split()  # noqa: SIM905
)
_EVENT_TIME_BITS_MIN = 16
_SECONDS_MIN, _SECONDS_MAX = -62_135_596_800, 253_402_300_799
"""Unix seconds of the years 1 to 9999."""

EVENT_TIME = "event-time"
"""Kind of the message that stops a job at an event time that is none."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """Rows to be merged; `ties` order rows that the strategy does not.

    `ordered`: in the order in which they were given.

    `renamed` are columns that do not have the name any more with which they came.
    """

    rows: InputRows
    ties: tuple[Column, ...]
    ordered: bool
    renamed: tuple[RenamedColumn, ...] = ()


def prepare(
    rows: InputRows,
    transform: TransformSql | None,
    *,
    strategy: MergeStrategy,
    vocabulary: DatasetVocabulary,
    call: EngineCall,
) -> Prepared:
    """The rows after preprocessing.

    Raises InvalidQuery for SQL that is refused, InvalidData.
    """
    if transform is not None:
        return _by_sql(rows, transform, call)
    if rows.declared:
        return Prepared(rows, (F.col(ROW),), ordered=True)
    names = _new_names(rows, strategy, vocabulary)
    rows = _event_time_by_default(_renamed(rows, names), vocabulary)
    renamed = tuple(RenamedColumn(name=name, stored_as=stored_as) for name, stored_as in names.items())
    return Prepared(rows, (F.col(ROW),), ordered=True, renamed=renamed)


def reserved_names(strategy: MergeStrategy, vocabulary: DatasetVocabulary) -> tuple[str, ...]:
    """Names of system columns that an input of the strategy must not have."""
    names = (vocabulary.offset, vocabulary.system_time)
    carries_op = isinstance(strategy, MergeStrategyChangelogStream | MergeStrategyUpsertStream)
    return names if carries_op else (*names, vocabulary.operation_type)


def _by_sql(rows: InputRows, transform: TransformSql, call: EngineCall) -> Prepared:
    result = _result(_stored(rows, call), rows.schema, transform, call)
    schema = arrow_schema(result.schema)
    ties: tuple[Column, ...] = (F.col(ROW),)
    ordered = _keeps_order(result)
    if not ordered:
        ties = tuple(column(name).asc_nulls_first() for name in schema.names)
    frame = result.withColumn(ROW, F.monotonically_increasing_id())
    at_hand = rows.bytes <= call.settings.collected_bytes_max
    explain = partial(_failed_row, rows, transform, call, row_wise=ordered) if at_hand else None
    computed = InputRows(
        make_frame=lambda: frame,
        schema=schema,
        declared=True,
        bytes=rows.bytes,
        locate=_nowhere,
        explain=explain,
        undeclared=rows.undeclared,
        found=rows.found,
    )
    return Prepared(computed, ties, ordered=ordered)


def _result(stored: DataFrame, schema: pa.Schema, transform: TransformSql, call: EngineCall) -> DataFrame:
    visible = stored.select(*(_not_null(item).alias(item.name) for item in schema))
    return run_gated_steps(
        call.session, transform, {INPUT_TABLE: visible}, mode=Mode.PREPROCESS, settings=call.settings
    )


def _failed_row(rows: InputRows, transform: TransformSql, call: EngineCall, *, row_wise: bool) -> OdfError | None:
    """Why the SQL fails, with the input row to blame and its place.

    None if it does not fail on it alone.
    """

    def compute(tables: Sequence[pa.Table]) -> pa.Table:
        return collected(_result(local_rows(call.session, tables[0]), rows.schema, transform, call))

    stored = joined([pq.read_table(file) for file in _files(call)])
    described = Described(INPUT_TABLE, tuple(rows.schema.names), lambda row: rows.locate(row.column(ROW)[0].as_py()))
    try:
        computed_over(compute, [stored], lambda: [described], row_wise=row_wise)
    except FailedRows as found:
        known = found.told(call.check)
        return known if isinstance(known, InvalidData) else None
    except (OdfError, PySparkException, Py4JError, pa.ArrowException, ResultTooLarge):
        _log.exception("the row that failed could not be found")  # the failure that is known says more
    return None


def _files(call: EngineCall) -> list[Path]:
    return sorted((call.scratch / INPUT_TABLE).glob("part-*.parquet"))


def _nowhere(_: int) -> Place:
    # What SQL has made of the rows stands in no file.
    return Place()


def _stored(rows: InputRows, call: EngineCall) -> DataFrame:
    """The rows in files in their order, so that the user's query meets plain tables.

    Of one file Spark makes partitions from front to back; of several it would not, so each is a table of its own.
    """
    folder = call.scratch / INPUT_TABLE
    single = rows.bytes <= call.settings.collected_bytes_max
    ordered = rows.frame.coalesce(1).sortWithinPartitions(ROW) if single else rows.frame.orderBy(ROW)
    ordered.write.options(**SCRATCH_OPTIONS).parquet(str(folder))
    read = call.session.read.schema(ordered.schema)
    frames = [with_exact_filters(read.parquet(spark_path(file))) for file in _files(call)]
    result = frames[0]
    for frame in frames[1:]:
        result = result.unionAll(frame)
    return result


def _not_null(item: pa.Field) -> Column:
    """The column, declared without nulls to Spark; reading has verified it."""
    value = column(item.name)
    default = None if item.nullable else _default(item.type)
    return value if default is None else F.coalesce(value, F.lit(default).cast(spark_type(item.type, item.name)))


def _default(arrow: pa.DataType) -> str | int | bool | None:
    if types.is_string(arrow):
        return ""
    if types.is_boolean(arrow):
        return False
    if types.is_date(arrow) or types.is_timestamp(arrow):
        return "1970-01-01"
    return 0 if types.is_integer(arrow) or types.is_floating(arrow) or types.is_decimal(arrow) else None


def _keeps_order(frame: DataFrame) -> bool:
    """Whether rows come out in the order in which they went in."""
    stack = [analysed(frame)]
    while stack:
        plan = stack.pop()
        if simple_name(plan) not in _KEEP_ORDER:
            return False
        for expression in expressions_of(plan):
            if any(inner_plan(node) is not None for node in walk_expression(expression)):
                return False
        stack.extend(children(plan))
    return True


def _new_names(rows: InputRows, strategy: MergeStrategy, vocabulary: DatasetVocabulary) -> dict[str, str]:
    """Columns with system names, and their new ones as in the reference.

    Raises InvalidData.
    """
    reserved = reserved_names(strategy, vocabulary)
    names = {name: f"_{name}" for name in rows.schema.names if name in reserved}
    for name, stored_as in names.items():
        if stored_as in rows.schema.names:
            raise InvalidData(
                f"Column `{name}` has the name of a system column, and `{stored_as}` is taken too",
                place=Place(field=name, rule="BadInputSchema"),
                hint="declare a schema or a preprocess query that renames it",
            )
    return names


def _renamed(rows: InputRows, names: dict[str, str]) -> InputRows:
    if not names:
        return rows
    schema = pa.schema([item.with_name(names.get(item.name, item.name)) for item in rows.schema])

    def of_frame(frame: DataFrame) -> DataFrame:
        return frame.select(*(column(item.name).alias(names.get(item.name, item.name)) for item in rows.schema), ROW)

    return rows.changed(schema, of_frame, renamed(names))


def _event_time_by_default(rows: InputRows, vocabulary: DatasetVocabulary) -> InputRows:
    index = rows.schema.get_field_index(vocabulary.event_time)
    if index < 0:
        return rows
    item = rows.schema.field(index)
    make: Callable[[Column], Column]
    if types.is_integer(item.type) and item.type.bit_width >= _EVENT_TIME_BITS_MIN:
        make, plain = _of_seconds, _seconds
    elif types.is_string(item.type):
        make, plain = spark_timestamp, _texts
    else:
        return rows
    schema = rows.schema.set(index, pa.field(item.name, TIMESTAMP_TYPE, nullable=item.nullable))

    def of_frame(frame: DataFrame) -> DataFrame:
        value = column(item.name)
        stop = raised(EVENT_TIME, F.col(ROW)).cast("timestamp")
        return frame.withColumn(item.name, F.coalesce(make(value), F.when(value.isNotNull(), stop)))

    return rows.changed(schema, of_frame, with_column(item.name, plain))


def _of_seconds(value: Column) -> Column:
    return F.when(value.between(_SECONDS_MIN, _SECONDS_MAX), F.timestamp_seconds(value))


def _seconds(values: pa.Array) -> pa.Array:
    seconds = values.cast(pa.int64())
    beyond = pc.or_(pc.less(seconds, _SECONDS_MIN), pc.greater(seconds, _SECONDS_MAX))
    if pc.any(beyond).as_py():
        raise NotPlain
    return pc.multiply(seconds, MILLIS_PER_SECOND).cast(TIMESTAMP_TYPE)


def _texts(values: pa.Array) -> pa.Array:
    times = typed(values, TIMESTAMP_TYPE, TextFormats(RFC3339_DATE, RFC3339_TIMESTAMP))
    if times.null_count != values.null_count:
        raise NotPlain
    return times
