"""The merge strategies: which changelog rows a batch of new rows adds to a history.

Owns Append, Ledger and Snapshot on Spark, and the projection of a changelog to the state it describes. `prev` is the history: a
frame with offset, op and the data columns (None if there is none). The result has the columns of the input, `op`, and `ROW`
(null for rows that come from history); its order is that of `order`. Invariant: whether a row exists is never guessed from
a null. Columns that must not be there are judged before (`ingest`), so that any types may be merged here.
Source: specification facts, "Merge"; RULINGS 21.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from odfabric.errors import InvalidData, Place
from odfabric.model.operation import OperationType
from odfabric.model.source import (
    MergeStrategy,
    MergeStrategyAppend,
    MergeStrategyChangelogStream,
    MergeStrategyLedger,
    MergeStrategySnapshot,
    MergeStrategyUpsertStream,
)
from odfabric.model.vocabulary import DatasetVocabulary
from odfabric_engine_spark.merge.batch_keys import check_key_columns, unique_by_key
from odfabric_engine_spark.merge.row_changes import any_of, changed
from odfabric_engine_spark.read.input_rows import HIDDEN_PREFIX, ROW, column

_OLD = f"{HIDDEN_PREFIX}old"
_NEW = f"{HIDDEN_PREFIX}new"
_CHANGES = f"{HIDDEN_PREFIX}changes"
_LATEST = f"{HIDDEN_PREFIX}latest"


@dataclass(frozen=True, slots=True)
class Merged:
    """Changelog rows and the columns that order them; `keys` are the primary key, empty for Append."""

    frame: DataFrame
    order: tuple[Column, ...]
    keys: tuple[str, ...]


def merge_rows(
    strategy: MergeStrategy,
    new: DataFrame,
    prev: DataFrame | None,
    *,
    schema: pa.Schema,
    vocabulary: DatasetVocabulary,
) -> Merged:
    """The rows to be added. `schema` names the input's columns; event time is one of them.

    Raises InvalidData for key or compared columns that are not there, and for strategies that are not supported.
    """
    match strategy:
        case MergeStrategyAppend():
            return Merged(_appended(new, vocabulary), _by_event_time(vocabulary), ())
        case MergeStrategyLedger(primary_key=keys):
            check_key_columns(schema, keys)
            fresh = unique_by_key(new, keys)
            unseen = fresh if prev is None else _unseen(fresh, prev, keys)
            return Merged(_appended(unseen, vocabulary), _by_event_time(vocabulary), keys)
        case MergeStrategySnapshot(primary_key=keys):
            check_key_columns(schema, keys)
            compared = _compared(strategy, schema)
            frame = _snapshot(unique_by_key(new, keys), prev, keys, compared, vocabulary)
            return Merged(frame, (*(_ascending(name) for name in keys), _ascending(vocabulary.operation_type)), keys)
        case MergeStrategyChangelogStream() | MergeStrategyUpsertStream():
            raise unsupported_strategy(strategy)


def unsupported_strategy(strategy: MergeStrategy) -> InvalidData:
    """The refusal of a strategy that this engine does not have."""
    kind = type(strategy).__name__.removeprefix("MergeStrategy")
    return InvalidData(
        f"The merge strategy {kind} is not supported by this engine yet",
        place=Place(rule="unsupported-merge-strategy"),
        hint="use Append, Ledger or Snapshot",
    )


def project(prev: DataFrame, keys: Sequence[str], *, vocabulary: DatasetVocabulary) -> DataFrame:
    """The state that a changelog describes: of each key the row with the greatest offset, unless it is a retraction.

    The columns are those of the changelog without offset; `op` is that of the row.
    """
    latest = Window.partitionBy(*(column(name) for name in keys)).orderBy(column(vocabulary.offset).desc())
    rows = prev.withColumn(_LATEST, F.row_number().over(latest)).where(F.col(_LATEST) == 1)
    alive = rows.where(column(vocabulary.operation_type) != F.lit(OperationType.RETRACT.value))
    return alive.drop(_LATEST, vocabulary.offset)


def _appended(rows: DataFrame, vocabulary: DatasetVocabulary) -> DataFrame:
    return rows.withColumn(vocabulary.operation_type, F.lit(OperationType.APPEND.value))


def _by_event_time(vocabulary: DatasetVocabulary) -> tuple[Column, ...]:
    return (_ascending(vocabulary.event_time),)


def _ascending(name: str) -> Column:
    return column(name).asc_nulls_first()


def _unseen(fresh: DataFrame, prev: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Rows whose key no row of the history has, whatever its op."""
    seen = prev.select(*(column(name).alias(f"{_OLD}{index}") for index, name in enumerate(keys)))
    same = [column(name).eqNullSafe(F.col(f"{_OLD}{index}")) for index, name in enumerate(keys)]
    return fresh.join(seen, same, "left_anti")


def _compared(strategy: MergeStrategySnapshot, schema: pa.Schema) -> list[str]:
    if strategy.compare_columns is None:
        return [name for name in schema.names if name not in strategy.primary_key]
    if not strategy.compare_columns:
        raise InvalidData("compareColumns is empty", place=Place(field="compareColumns", rule="BadInputSchema"))
    for name in strategy.compare_columns:
        if name not in schema.names:
            raise InvalidData(
                f"Compared column `{name}` is absent from the input", place=Place(field=name, rule="BadInputSchema")
            )
    return list(strategy.compare_columns)


def _snapshot(
    fresh: DataFrame,
    prev: DataFrame | None,
    keys: Sequence[str],
    compared: Sequence[str],
    vocabulary: DatasetVocabulary,
) -> DataFrame:
    if prev is None:
        return _appended(fresh, vocabulary)
    columns = [field for field in fresh.schema.fields if field.name != ROW]
    state = project(prev, keys, vocabulary=vocabulary)
    old_rows = state.select(
        F.struct(*(column(item.name).cast(item.dataType).alias(item.name) for item in columns)).alias(_OLD)
    )
    new_rows = fresh.select(F.struct(*(column(item.name) for item in columns), ROW).alias(_NEW))
    old, new = F.col(_OLD), F.col(_NEW)
    same_key = [old.getField(name).eqNullSafe(new.getField(name)) for name in keys]
    pairs = old_rows.join(new_rows, same_key, "full_outer")
    differs = any_of(
        _differs(old, new, item, is_event_time=item.name == vocabulary.event_time)
        for item in columns
        if item.name in compared
    )

    def image(op: OperationType, row: Column) -> Column:
        position = new.getField(ROW) if row is new else F.lit(None).cast("bigint")
        values = (row.getField(item.name).alias(item.name) for item in columns)
        return F.struct(F.lit(op.value).alias(vocabulary.operation_type), *values, position.alias(ROW))

    was, now = old.isNotNull(), new.isNotNull()
    corrected = F.array(image(OperationType.CORRECT_FROM, old), image(OperationType.CORRECT_TO, new))
    changes = (
        F.when(was & now, F.when(differs, corrected))
        .when(was, F.array(image(OperationType.RETRACT, old)))
        .otherwise(F.array(image(OperationType.APPEND, new)))
    )
    return pairs.select(F.explode(changes).alias(_CHANGES)).select(f"{_CHANGES}.*")


def _differs(old: Column, new: Column, item: T.StructField, *, is_event_time: bool) -> Column:
    different = changed(old.getField(item.name), new.getField(item.name), item.dataType)
    # An input without event times says nothing about when: that alone is no change.
    return new.getField(item.name).isNotNull() & different if is_event_time else different
