"""Merge strategies: the changelog rows that a batch adds to a history.

Owns the strategies on Spark, and the projection of a changelog to the state it describes. `prev` is the history: a
frame with offset, op and the data columns (None if there is none). The result has the columns of the input, `op`, and `ROW`
(null for rows that come from history); its order is that of `order`. Invariant: whether a row exists is never guessed from
a null. Columns that must not be there are judged before (`ingest_files`), so that any types may be merged here.
Source: specification, "Merge Strategies"; ADR 0034.
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
from odfabric_engine_spark.ingest.merge.batch_keys import check_key_columns, unique_by_key, without_null_keys
from odfabric_engine_spark.ingest.merge.changelog_rows import (
    first_in_batch,
    in_turn,
    last_of_each_key,
    with_kinds,
    withdraws,
    without_turns,
)
from odfabric_engine_spark.ingest.merge.row_changes import any_of, changed
from odfabric_engine_spark.spark.catalyst.plan_nodes import OWN_PREFIX
from odfabric_engine_spark.spark.frames.read_rows import ROW, column

_OLD = f"{OWN_PREFIX}old"
_NEW = f"{OWN_PREFIX}new"
_CHANGES = f"{OWN_PREFIX}changes"
_LATEST = f"{OWN_PREFIX}latest"


@dataclass(frozen=True, slots=True)
class Merged:
    """Changelog rows and the columns that order them.

    `keys` are the primary key, empty for Append.
    """

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
    ordered: bool = True,
) -> Merged:
    """The rows to be added.

    `schema` names the input's columns; event time is one of them. `ordered`: `ROW` gives the order in which rows were
    given, else they have none.

    Raises InvalidData for key or compared columns that are not there, and for a column of kinds of change that is not there or is none.
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
            return Merged(frame, _by_key_and_kind(keys, vocabulary), keys)
        case MergeStrategyChangelogStream(primary_key=keys):
            check_key_columns(schema, keys)
            kinds = with_kinds(new, schema, vocabulary.operation_type, required=True)
            by_key = tuple(_ascending(name) for name in keys)
            order = (F.col(ROW),) if ordered else (_ascending(vocabulary.operation_type),)
            whole = without_null_keys(kinds, keys)
            turns = in_turn(whole, keys, vocabulary.operation_type, vocabulary.event_time, order)
            if prev is not None and schema.field(vocabulary.event_time).nullable:
                turns = _with_stored_times(turns, prev, keys, vocabulary)
            frame = without_turns(turns)
            return Merged(frame, (*by_key, *order), keys)
        case MergeStrategyUpsertStream(primary_key=keys):
            check_key_columns(schema, keys)
            kinds = with_kinds(new, schema, vocabulary.operation_type, required=False)
            whole = without_null_keys(kinds, keys)
            last = last_of_each_key(whole, keys) if ordered else unique_by_key(whole, keys)
            return Merged(_upserted(last, prev, keys, vocabulary), _by_key_and_kind(keys, vocabulary), keys)


def project(prev: DataFrame, keys: Sequence[str], *, vocabulary: DatasetVocabulary) -> DataFrame:
    """State of a changelog: each key's last row by offset, unless a retraction.

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


def _by_key_and_kind(keys: Sequence[str], vocabulary: DatasetVocabulary) -> tuple[Column, ...]:
    return (*(_ascending(name) for name in keys), _ascending(vocabulary.operation_type))


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
    pairs = _Pairs(fresh, keys, vocabulary)
    changes = (
        F.when(pairs.was & pairs.now, F.when(pairs.differs(compared), pairs.corrected))
        .when(pairs.was, pairs.retracted)
        .otherwise(pairs.appended)
    )
    return pairs.exploded(prev, "full_outer", changes)


def _upserted(last: DataFrame, prev: DataFrame | None, keys: Sequence[str], vocabulary: DatasetVocabulary) -> DataFrame:
    """Each key as its last row says; keys without rows stay as they are."""
    retracts = column(vocabulary.operation_type) == OperationType.RETRACT.value
    if prev is None:
        return _appended(last.where(~retracts), vocabulary)
    pairs = _Pairs(last, keys, vocabulary)
    gone = F.col(_NEW).getField(vocabulary.operation_type) == OperationType.RETRACT.value
    others = [name for name in last.columns if name not in (ROW, vocabulary.operation_type, *keys)]
    changes = (
        F.when(gone, F.when(pairs.was, pairs.retracted))
        .when(pairs.was, F.when(pairs.differs(others), pairs.corrected))
        .otherwise(pairs.appended)
    )
    return pairs.exploded(prev, "right_outer", changes)


def _with_stored_times(
    turns: DataFrame, prev: DataFrame, keys: Sequence[str], vocabulary: DatasetVocabulary
) -> DataFrame:
    """Withdrawn rows without an event time take that of the row they withdraw."""
    time, kind = vocabulary.event_time, vocabulary.operation_type
    stored = [column(name).alias(f"{_OLD}{index}") for index, name in enumerate(keys)]
    state = project(prev, keys, vocabulary=vocabulary).select(*stored, column(time).alias(_OLD))
    same_key = [column(name).eqNullSafe(F.col(f"{_OLD}{index}")) for index, name in enumerate(keys)]
    joined = turns.join(state, [withdraws(kind) & first_in_batch() & column(time).isNull(), *same_key], "left_outer")
    known = F.col(_OLD).cast(turns.schema[time].dataType)
    return joined.withColumn(time, F.coalesce(column(time), known)).select(*(column(name) for name in turns.columns))


class _Pairs:
    """A key's rows in state and batch, and what becomes of both."""

    def __init__(self, fresh: DataFrame, keys: Sequence[str], vocabulary: DatasetVocabulary) -> None:
        self._fresh = fresh
        self._keys = keys
        self._vocabulary = vocabulary
        self._columns = [each for each in fresh.schema.fields if each.name not in (ROW, vocabulary.operation_type)]
        self.was, self.now = F.col(_OLD).isNotNull(), F.col(_NEW).isNotNull()
        before, after = self._image(OperationType.CORRECT_FROM, _OLD), self._image(OperationType.CORRECT_TO, _NEW)
        self.corrected = F.array(before, after)
        self.retracted = F.array(self._image(OperationType.RETRACT, _OLD))
        self.appended = F.array(self._image(OperationType.APPEND, _NEW))

    def differs(self, compared: Sequence[str]) -> Column:
        """Whether one of these columns is another now."""
        old, new = F.col(_OLD), F.col(_NEW)
        return any_of(
            _differs(old, new, item, is_event_time=item.name == self._vocabulary.event_time)
            for item in self._columns
            if item.name in compared
        )

    def exploded(self, prev: DataFrame, how: str, changes: Column) -> DataFrame:
        """A row per change of the keys that a join of state and batch has."""
        state = project(prev, self._keys, vocabulary=self._vocabulary)
        values = (column(item.name).cast(item.dataType).alias(item.name) for item in self._columns)
        old_rows = state.select(F.struct(*values).alias(_OLD))
        new_rows = self._fresh.select(F.struct("*").alias(_NEW))
        same_key = [F.col(_OLD).getField(name).eqNullSafe(F.col(_NEW).getField(name)) for name in self._keys]
        pairs = old_rows.join(new_rows, same_key, how)
        return pairs.select(F.explode(changes).alias(_CHANGES)).select(f"{_CHANGES}.*")

    def _image(self, kind: OperationType, side: str) -> Column:
        row = F.col(side)
        position = row.getField(ROW) if side == _NEW else F.lit(None).cast("bigint")
        values = (row.getField(item.name).alias(item.name) for item in self._columns)
        return F.struct(F.lit(kind.value).alias(self._vocabulary.operation_type), *values, position.alias(ROW))


def _differs(old: Column, new: Column, item: T.StructField, *, is_event_time: bool) -> Column:
    different = changed(old.getField(item.name), new.getField(item.name), item.dataType)
    # An input without event times says nothing about when: that alone is no change.
    return new.getField(item.name).isNotNull() & different if is_event_time else different
