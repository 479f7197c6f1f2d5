"""Large aggregate runs as Spark tasks.

Owns the three rounds of tasks: sums of the rows that a task reads go to the task which has that part of the keys; that one looks
up its groups, and leaves a file with their versions and with what is to be kept of them; the query's expressions make rows of the
versions, which tasks compare. Invariant: tasks call what the engine's process itself would, so both ways give the same records and
the same states; a task that runs twice leaves another file of the same content. Not here: what a version is (`group_versions`), when
a run is large (`streamed_aggregate`, `aggregate_stage`). Source:
docs/engine.md#steps-and-slicing; docs/engine.md#small-and-large-transactions.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import types
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from odfabric.errors import OdfError
from odfabric.formats.slices.canonical_rows import one_array, table_bytes
from odfabric.model.operation import OperationType
from odfabric_engine_spark.operators.aggregate.aggregate_run import AggregateRun
from odfabric_engine_spark.operators.aggregate.group_file import GroupFile, write_group_file
from odfabric_engine_spark.operators.aggregate.group_rows import GROUP_ID
from odfabric_engine_spark.operators.aggregate.group_state import GroupState
from odfabric_engine_spark.operators.aggregate.group_sums import GroupedRows, Marks, PartialSums, added_up
from odfabric_engine_spark.operators.aggregate.group_versions import GroupShape, GroupStates, GroupVersions
from odfabric_engine_spark.operators.aggregate.shuffled_sums import (
    rows_from_bytes,
    rows_to_bytes,
    sums_from_bytes,
    sums_to_bytes,
)
from odfabric_engine_spark.operators.aggregate.value_state import ValueState
from odfabric_engine_spark.rows.change_records import Records, changed
from odfabric_engine_spark.rows.output_shape import as_output
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.cluster.task_failures import raise_told, told_failure
from odfabric_engine_spark.spark.frames.local_rows import schema_of_rows
from odfabric_engine_spark.spark.frames.read_rows import column
from odfabric_engine_spark.spark.frames.result_rows import batches_of, loosened, whole
from odfabric_engine_spark.state.key_range import ALL_KEYS, KeyPart
from odfabric_engine_spark.state.row_state import RowState
from odfabric_engine_spark.state.run import RunFile
from odfabric_engine_spark.state.run_file import open_run_file
from odfabric_engine_spark.state.stored_runs import StateWork

_GROUPS_EACH = 4
"""Groups of a part, in pieces that a task has in hand at once."""

_ROWS_EACH = 4
"""How many rows of a piece a group, or a value of one, has to have for sums to be sent: fewer are sent as they are."""

_PART, _SUMS, _ROWS = "__odf_part", "__odf_sums", "__odf_rows"
_SENT = pa.schema({_PART: pa.int32(), _SUMS: pa.binary(), _ROWS: pa.binary()})
_TOLD = pa.schema(
    {
        "number": pa.int64(),
        "count": pa.int64(),
        "file": pa.string(),
        "was": pa.bool_(),
        "now": pa.bool_(),
        "failure": pa.binary(),
    }
)

_STEP, _END, _LEAD, _KEY, _SIDE = "__odf_step", "__odf_end", "__odf_lead", "__odf_key", "__odf_side"
_TIME, _PAIRED, _CONTENT = "__odf_time", "__odf_paired", "__odf_content"
_HIDDEN = pa.schema(
    {
        _STEP: pa.int64(),
        _END: pa.int64(),
        _LEAD: pa.int64(),
        _KEY: pa.binary(),
        _SIDE: pa.int32(),
        _TIME: pa.int64(),
        _PAIRED: pa.bool_(),
        _CONTENT: pa.binary(),
    }
)
"""What distinguishes sides of changes and orders them: 0 is the row that was, 1 the one that is. The lead is the time by which a change
is ordered, that of the new row of a pair.
"""
_SIDES_MAX = 1 << 33
"""Sides of one file: those of the next one have numbers from there."""


@dataclass(frozen=True, slots=True)
class StoredRows:
    """Where tasks find a state: its runs, oldest first, and which rows are removed."""

    files: tuple[RunFile, ...]
    dropped_to_us: int | None


@dataclass(frozen=True, slots=True)
class StoredGroups:
    """Where tasks find groups, and the values beside them by statistic."""

    groups: StoredRows
    values: Mapping[int, StoredRows]

    @classmethod
    def of(cls, states: GroupStates) -> StoredGroups:
        """Those of the engine's process."""
        groups = StoredRows(states.groups.files(), states.groups.dropped_to_us)
        values = {at: StoredRows(each.rows.files(), each.rows.dropped_to_us) for at, each in states.values.items()}
        return cls(groups, values)

    def opened(self, shape: GroupShape) -> GroupStates:
        """Open runs for reading only, without a place for writes."""
        work = StateWork(scratch=Path(os.devnull), piece_rows=1, added_bytes_max=0, check=lambda: None)
        schema, names, end_column = shape.state_schema, shape.key_names, shape.end_column
        stored = GroupState(schema, names, end_column=end_column, work=work).stored_schema
        runs = [open_run_file(file, stored) for file in self.groups.files]
        dropped_to_us = self.groups.dropped_to_us
        groups = GroupState(schema, names, end_column=end_column, work=work, runs=runs, dropped_to_us=dropped_to_us)
        values = {}
        for at, statistic in shape.accumulators.values_statistics.items():
            own, columns, timed = self.values[at], ValueState.schema(statistic), end_column is not None
            stored = RowState(columns, timed=timed, work=work).stored_schema
            runs = [open_run_file(file, stored) for file in own.files]
            rows = RowState(columns, timed=timed, work=work, runs=runs, dropped_to_us=own.dropped_to_us)
            values[at] = ValueState(statistic, rows)
        return GroupStates(groups, values)


@dataclass(frozen=True, slots=True)
class _Left:
    """A file left by a task, and whether groups of it had and have rows."""

    begin: Fraction
    path: Path
    was: bool
    now: bool


class GroupTasks:
    """The tasks of large runs of an aggregate.

    What they leave lies in scratch until the call ends: states are made of it.
    """

    def __init__(self, run: AggregateRun, call: EngineCall) -> None:
        self._run = run
        self._call = call
        self.work_folder = call.scratch / f"groups-{secrets.token_hex(8)}"
        self.work_folder.mkdir()

    def applied(self, rows: DataFrame, marks: Marks, *, rows_max: int) -> Iterator[Records]:
        """Add rows (keys, inputs, weight, step), one step a key, and move the watermark.

        `rows_max`: at most so many rows. When the first records come, the states have all of them. Raises InvalidData, Determinate,
        and what Spark raises on an expression.
        """
        settings = self._call.settings
        run, groups_max = self._run, self._run.shape.in_hand(settings.groups_max)
        # Parts of the keys, each of which is one task's.
        parts = min(max(1 + rows_max // (_GROUPS_EACH * groups_max), settings.tasks_at_once), settings.stage_tasks_max)
        sending = SumTask(run.shape, marks, parts, self._call.settings.state_piece_rows, groups_max)
        sent = loosened(rows).mapInArrow(sending, schema_of_rows(self._call.session, _SENT))
        if run.shape.end_column is not None:
            # Groups may close in a part that no row comes for.
            nothing = [F.lit(None).cast("binary").alias(name) for name in (_SUMS, _ROWS)]
            every = self._call.session.range(0, parts, 1, 1).select(F.col("id").cast("int").alias(_PART), *nothing)
            sent = sent.union(every)
        known = StoredGroups.of(run.states)
        task = GroupTask(run.shape, known, marks, parts, _GROUPS_EACH * groups_max, groups_max, self.work_folder)
        told = sent.repartitionById(parts, F.col(_PART)).mapInArrow(task, schema_of_rows(self._call.session, _TOLD))
        left = self._left(whole(self._call, told).to_pylist())
        values = run.grow_values()
        for each in left:
            file = GroupFile.opened(each.path)
            run.add_groups(file.groups(run.states.groups))
            for at, own in file.values(run.states).items():
                values[at].add(own)
        run.add_values(values)
        return self._records(left)

    def _left(self, told: Sequence[Mapping[str, Any]]) -> list[_Left]:
        """In the order of the keys."""
        raise_told(each["failure"] for each in sorted(told, key=_begin))
        return [
            _Left(_begin(each), self.work_folder / str(each["file"]), each["was"], each["now"])
            for each in sorted(told, key=_begin)
        ]

    def _records(self, left: Sequence[_Left]) -> Iterator[Records]:
        telling = [each for each in left if each.was or each.now]
        if not telling:
            return
        sides = self._sides(telling)
        output = sides.columns[len(_HIDDEN) :]
        if any(each.was for each in telling) and any(each.now for each in telling):
            sides = _without_returned(sides)
        side, paired = F.col(_SIDE), F.col(_PAIRED)
        of_pair = F.when(side == 0, int(OperationType.CORRECT_FROM)).otherwise(int(OperationType.CORRECT_TO))
        alone = F.when(side == 0, int(OperationType.RETRACT)).otherwise(int(OperationType.APPEND))
        operation = F.when(paired, of_pair).otherwise(alone).alias(GROUP_ID)
        told = sides.select(*(F.col(name) for name in _ORDER), operation, *(column(name) for name in output))
        order = [F.col(name) for name in _ORDER]
        size = sum(each.path.stat().st_size for each in telling)
        small = size <= self._call.settings.collected_bytes_max
        batches = batches_of(
            self._call,
            (lambda: told.repartition(1).sortWithinPartitions(*order)) if small else None,
            lambda: told.orderBy(*order),
        )
        for batch in batches:
            rows = as_output(pa.Table.from_batches([batch.select(output)]), self._run.output_schema)
            yield Records(batch.column(GROUP_ID).to_numpy().astype(np.int32), rows)

    def _sides(self, left: Sequence[_Left]) -> DataFrame:
        """Old and new rows that differ: a task per file makes and compares versions."""
        run, session = self._run, self._call.session
        paths = tuple(each.path for each in left)
        versions = GroupFile.opened(paths[0]).versions.rows.schema.append(pa.field(GROUP_ID, pa.int64()))
        read = session.range(0, len(paths), 1, len(paths)).mapInArrow(
            VersionsTask(paths, self._call.settings.batch_rows), schema_of_rows(session, versions)
        )
        rows = loosened(run.group_rows.mapping.frame([read]))
        shown = [each for each in rows.schema.fields if each.name != GROUP_ID]
        task = ChangesTask(paths, run.output_schema, run.event_time)
        return rows.mapInArrow(task, T.StructType([*schema_of_rows(session, _HIDDEN).fields, *shown]))


_ORDER = (_STEP, _END, _LEAD, _KEY, _SIDE)


def _without_returned(sides: DataFrame) -> DataFrame:
    """Strike rows that move between groups in a step; as `changes`, unpaired first."""
    content, side, time = [F.col(_CONTENT), F.col(_STEP)], F.col(_SIDE), F.col(_TIME)
    same = Window.partitionBy(*content)
    gone, come = (F.sum(F.when(side == which, 1).otherwise(0)).over(same) for which in (0, 1))
    order = [F.col(_PAIRED), *(F.col(name) for name in _ORDER)]
    rank = F.row_number().over(Window.partitionBy(*content, side).orderBy(*order))
    left = sides.withColumns({GROUP_ID: rank - F.least(gone, come)}).filter(F.col(GROUP_ID) > 0).drop(GROUP_ID)
    both = Window.partitionBy(_STEP, _KEY)
    paired = left.withColumn(_PAIRED, F.count(F.lit(1)).over(both) == 2)
    lead: Column = F.when(F.col(_PAIRED), F.max(F.when(side == 1, time)).over(both)).otherwise(time)
    return paired.withColumn(_LEAD, lead)


@dataclass(frozen=True)
class SumTask:
    """Sums up rows by group for each of `parts` parts. Runs in its own process.

    It sends on either sums or rows.

    It takes about `piece_rows` rows at once, and sends when it has more than `groups_max` groups and values of them.
    """

    shape: GroupShape
    marks: Marks
    parts: int
    piece_rows: int
    groups_max: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Parts, and sums or rows as bytes."""
        waiting: list[PartialSums] = []
        size = 0
        for piece in _pieces(batches, self.piece_rows):
            grouped = GroupedRows(piece, self.shape.columns)
            if len(grouped.keys) * _ROWS_EACH > piece.num_rows:
                yield from self._rows(grouped)
                continue
            sums = grouped.sums(self.marks, self.shape.accumulators, end_column=self.shape.end_column)
            if sums.size * _ROWS_EACH > piece.num_rows:
                yield from self._rows(grouped)
                continue
            waiting.append(sums)
            size += sums.size
            if size > self.groups_max:
                waiting = [added_up(waiting, self.shape.accumulators)]
                size = waiting[0].size
            if size > self.groups_max:
                yield from self._sums(waiting[0])
                waiting, size = [], 0
        if waiting:
            yield from self._sums(added_up(waiting, self.shape.accumulators))

    def _rows(self, grouped: GroupedRows) -> Iterator[pa.RecordBatch]:
        for part, rows in grouped.parted(self.parts):
            yield _sent(part, rows=rows_to_bytes(rows))

    def _sums(self, sums: PartialSums) -> Iterator[pa.RecordBatch]:
        for part in ALL_KEYS.divided(self.parts):
            own = sums.of_part(part)
            if len(own.keys):
                yield _sent(part.number, sums=sums_to_bytes(own))


@dataclass(frozen=True)
class GroupTask:
    """Advances the groups of one of `parts` parts. Runs in its own process.

    By all that is sent to it.

    It sums up about `piece_rows` rows and has about `groups_max` groups in hand at once, and leaves a file for each piece of its part.
    """

    shape: GroupShape
    known: StoredGroups
    marks: Marks
    parts: int
    piece_rows: int
    groups_max: int
    folder: Path

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """One row for each file, or for what failed."""
        first = next((batch for batch in batches if batch.num_rows), None)
        if first is None:
            return
        number = first.column(0)[0].as_py()
        try:
            sums = list(self._sums(chain([first], batches)))
            for told in self._advanced(KeyPart(number, self.parts), sums):
                yield pa.RecordBatch.from_pylist([told], schema=_TOLD)
        except (OdfError, OSError, pa.ArrowException) as error:
            failed = {"number": number, "count": self.parts, "failure": told_failure(error)}
            yield pa.RecordBatch.from_pylist([failed], schema=_TOLD)

    def _sums(self, batches: Iterator[pa.RecordBatch]) -> Iterator[PartialSums]:
        waiting: list[pa.Table] = []
        waiting_rows = 0
        for batch in batches:
            for sums, rows in zip(batch.column(1), batch.column(2), strict=True):
                if sums.is_valid:
                    yield sums_from_bytes(sums.as_py(), self.shape)
                if rows.is_valid:
                    waiting.append(rows_from_bytes(rows.as_py()))
                    waiting_rows += waiting[-1].num_rows
                if waiting_rows >= self.piece_rows:
                    yield self._summed(waiting)
                    waiting, waiting_rows = [], 0
        if waiting:
            yield self._summed(waiting)

    def _summed(self, tables: Sequence[pa.Table]) -> PartialSums:
        grouped = GroupedRows(pa.concat_tables(tables), self.shape.columns)
        return grouped.sums(self.marks, self.shape.accumulators, end_column=self.shape.end_column)

    def _advanced(self, part: KeyPart, sent: Sequence[PartialSums]) -> Iterator[dict[str, object]]:
        versions = GroupVersions(self.shape, self.known.opened(self.shape), self.marks)
        together = added_up(sent, self.shape.accumulators) if sent else self.shape.no_sums()
        for piece, own in versions.pieces(part, together, self.groups_max):
            found = versions.advanced(piece, own)
            if not len(found.versions.steps) and not len(found.groups) and not any(map(len, found.values.values())):
                continue
            name = secrets.token_hex(16)
            write_group_file(self.folder / name, found)
            was, now = (bool((each >= 0).any()) for each in (found.versions.was, found.versions.now))
            yield {"number": piece.number, "count": piece.count, "file": name, "was": was, "now": now}


@dataclass(frozen=True)
class VersionsTask:
    """Reads emitted versions of groups from files. Runs in its own process.

    The one before and the one after, numbered.
    """

    paths: tuple[Path, ...]
    batch_rows: int

    def __call__(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows of keys and results, then numbers."""
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                versions = GroupFile.opened(self.paths[number]).versions
                sides = np.stack([versions.was, versions.now], axis=1).ravel()
                there = np.nonzero(sides >= 0)[0]
                rows = versions.rows.take(pa.array(sides[there]))
                numbered = rows.append_column(GROUP_ID, pa.array(there + number * _SIDES_MAX))
                yield from numbered.combine_chunks().to_batches(self.batch_rows)


@dataclass(frozen=True)
class ChangesTask:
    """Compares the rows that versions of the groups of one file have made.

    Runs in a process of its own.
    """

    paths: tuple[Path, ...]
    output_schema: pa.Schema
    event_time: str | None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Sides of changes, then their rows as they came."""
        given = list(batches)
        if not sum(batch.num_rows for batch in given):
            return
        table = pa.Table.from_batches(given).combine_chunks()
        numbers = one_array(table.column(GROUP_ID)).to_numpy()
        versions = GroupFile.opened(self.paths[int(numbers[0]) // _SIDES_MAX]).versions
        places = np.full(2 * len(versions.steps), -1, dtype=np.int64)
        places[numbers % _SIDES_MAX] = np.arange(len(numbers))
        was, now = places[0::2], places[1::2]
        rows = as_output(table, self.output_schema)
        told = changed(rows, was, now)
        identities, sides = np.repeat(told, 2), np.tile(np.array([0, 1], dtype=np.int32), len(told))
        at = np.where(sides == 0, was[identities], now[identities])
        leads = np.where(now[identities] >= 0, now[identities], was[identities])
        there = at >= 0
        identities, sides, at, leads = identities[there], sides[there], at[there], leads[there]
        times = self._times(rows)
        ends = np.zeros(len(at), dtype=np.int64) if versions.ends is None else versions.ends[identities]
        hidden = [
            pa.array(versions.steps[identities]),
            pa.array(ends),
            times.take(pa.array(leads)),
            versions.keys.take(pa.array(identities)),
            pa.array(sides),
            times.take(pa.array(at)),
            pa.array((was[identities] >= 0) & (now[identities] >= 0)),
            table_bytes(rows.take(pa.array(at))),
        ]
        shown = table.drop_columns([GROUP_ID]).take(pa.array(at))
        told_rows = pa.Table.from_arrays([*hidden, *shown.columns], names=[*_HIDDEN.names, *shown.column_names])
        yield from told_rows.combine_chunks().to_batches()

    def _times(self, rows: pa.Table) -> pa.Array:
        """By which records are ordered before their keys."""
        if self.event_time is None:
            return pa.nulls(rows.num_rows, pa.int64())
        times = one_array(rows.column(self.event_time))
        return times.cast(pa.int32()).cast(pa.int64()) if types.is_date32(times.type) else times.cast(pa.int64())


def _sent(part: int, *, sums: bytes | None = None, rows: bytes | None = None) -> pa.RecordBatch:
    arrays = [pa.array([value], field.type) for value, field in zip((part, sums, rows), _SENT, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_SENT)


def _pieces(batches: Iterator[pa.RecordBatch], rows_max: int) -> Iterator[pa.Table]:
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= rows_max:
            yield pa.Table.from_batches(waiting).combine_chunks()
            waiting, rows = [], 0
    if rows:
        yield pa.Table.from_batches(waiting).combine_chunks()


def _begin(told: Mapping[str, Any]) -> Fraction:
    return Fraction(told["number"], told["count"])
