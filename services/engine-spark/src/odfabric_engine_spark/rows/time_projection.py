"""Rows in the place of records: what held then, and the last row of each key.

Owns AS OF and the projection to rows on Spark. Invariant: the rows are those of `domain.chain.projection`, with offset, op and system
time of the record that made each. Not here: AS AT, which is a choice of slices. Source: docs/reference/time.md.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from odfabric.model.engine import SliceFile
from odfabric.model.instant import Instant
from odfabric.model.operation import OperationType
from odfabric.model.table_function import Projection
from odfabric.model.vocabulary import DatasetVocabulary
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.frames.read_rows import column

_PREFIX = "_projection_"
"""Begins names of columns that are gone from the result."""


def projected(
    call: EngineCall,
    records: DataFrame,
    projection: Projection,
    *,
    vocabulary: DatasetVocabulary,
    slices: Sequence[SliceFile],
) -> DataFrame:
    """The rows that `records`, those of `slices`, leave."""
    only_appended = _only_appended(call, slices, vocabulary.operation_type)
    held = records
    if projection.as_of is not None:
        held = _held(records, projection.as_of, vocabulary, only_appended=only_appended)
    if projection.keys:
        return _last_of_keys(held, projection.keys, vocabulary)
    return held if only_appended else _net(held, vocabulary)


def _held(records: DataFrame, moment: Instant, names: DatasetVocabulary, *, only_appended: bool) -> DataFrame:
    """Records that happened by then, but for corrections whose new row happens later."""
    happened = column(names.event_time).cast("timestamp") <= F.timestamp_millis(F.lit(moment.millis))
    by_then = records.filter(happened)
    if only_appended:
        return by_then
    is_later = ~F.coalesce(happened, F.lit(False))
    later = records.filter((column(names.operation_type) == OperationType.CORRECT_TO.value) & is_later)
    before = f"{_PREFIX}before"
    firsts = later.select((column(names.offset) - 1).alias(before))
    is_first_half = (column(names.operation_type) == OperationType.CORRECT_FROM.value) & (
        column(names.offset) == column(before)
    )
    return by_then.join(firsts, is_first_half, "left_anti")


def _last_of_keys(records: DataFrame, keys: Sequence[str], names: DatasetVocabulary) -> DataFrame:
    rank = f"{_PREFIX}rank"
    window = Window.partitionBy(*map(column, keys)).orderBy(column(names.offset).desc())
    ranked = records.withColumn(rank, F.row_number().over(window))
    return ranked.filter((column(rank) == 1) & _adds(names)).drop(rank)


def _net(records: DataFrame, names: DatasetVocabulary) -> DataFrame:
    """Of equal rows as many as are left, the newest."""
    apart = {names.offset, names.operation_type, names.system_time}
    row = [_compared(field) for field in records.schema.fields if field.name not in apart]
    left, rank = f"{_PREFIX}left", f"{_PREFIX}rank"
    weight = F.when(_adds(names), 1).otherwise(-1)
    newest = Window.partitionBy(*row, _adds(names)).orderBy(column(names.offset).desc())
    counted = records.withColumn(left, F.sum(weight).over(Window.partitionBy(*row)))
    ranked = counted.withColumn(rank, F.row_number().over(newest))
    return ranked.filter(_adds(names) & (column(rank) <= column(left))).drop(left, rank)


def _adds(names: DatasetVocabulary) -> Column:
    return column(names.operation_type).isin(OperationType.APPEND.value, OperationType.CORRECT_TO.value)


def _compared(field: T.StructField) -> Column:
    """Values as rows compare: zeros of both signs differ, NaN equals itself."""
    if isinstance(field.dataType, T.FloatType | T.DoubleType):
        return column(field.name).cast("string")
    return column(field.name)


def _only_appended(call: EngineCall, slices: Sequence[SliceFile], operation: str) -> bool:
    """Whether the statistics of all slices say that nothing is ever withdrawn."""
    return all(_appends(call, one, operation) for one in slices)


def _appends(call: EngineCall, one: SliceFile, operation: str) -> bool:
    found = pq.read_metadata(call.exchange.input(one.path))
    position = next((at for at in range(found.num_columns) if found.schema.column(at).path == operation), None)
    if position is None:
        return False
    groups = (found.row_group(group).column(position).statistics for group in range(found.num_row_groups))
    return all(each is not None and each.has_min_max and each.max == OperationType.APPEND.value for each in groups)
