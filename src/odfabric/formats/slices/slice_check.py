"""Whether a slice's rows are what its block and chain say.

Found in one reading together with the logical hash.

Owns the rules of rows: offsets, operations, times, columns, nulls; what the file's statistics say of its rows is judged in
`statistics_check`. Invariant: memory does not grow with the file, and a file of
anybody's making gives texts or InvalidData. Not here: which rules a chain makes for a slice (`domain.chain.slice_rules`), bytes and
sizes (`usecases.chain.check_slice`). Source: specification, "Data Slice"; ADR 0008; RFC-015.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import types

from odfabric.formats.parquet.parquet_reading import Source, arrow_schema_of, as_schema, batches_of, open_parquet
from odfabric.formats.slices.arrow_schema import data_schema_to_arrow
from odfabric.formats.slices.column_numbers import numbers_of
from odfabric.formats.slices.logical_hash import LogicalDigest, LogicalHasher
from odfabric.formats.slices.logical_hash_values import Mask, validity
from odfabric.formats.slices.slice_parquet import SliceReader, normal_schema
from odfabric.formats.slices.slice_schema import null_problems, types_interchangeable
from odfabric.formats.slices.statistics_check import statistics_check
from odfabric.model.data_schema import DataSchema
from odfabric.model.instant import (
    FIRST_INSTANT,
    LAST_INSTANT,
    NANOS_PER_DAY,
    NANOS_PER_MILLI,
    NANOS_PER_SECOND,
    Instant,
)
from odfabric.model.metadata import OffsetInterval
from odfabric.model.operation import OperationType
from odfabric.model.vocabulary import DatasetVocabulary

_NANOS_OF_UNIT: Final = {"s": NANOS_PER_SECOND, "ms": NANOS_PER_MILLI, "us": 1_000, "ns": 1}
_FROM, _TO = int(OperationType.CORRECT_FROM), int(OperationType.CORRECT_TO)

_Longs = npt.NDArray[np.signedinteger[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceRules:
    """What the rows of one slice must be.

    `system_time` is that of the block (None: any, but one for all rows); with `older_rows` rows may have an earlier one, as long as it
    does not go back. Without `data_schema` the columns are not judged. `whole_corrections`: a correct-from is directly followed by its
    correct-to, and neither is ever alone.
    """

    interval: OffsetInterval
    vocabulary: DatasetVocabulary
    data_schema: DataSchema | None = None
    system_time: Instant | None = None
    older_rows: bool = False
    event_time_required: bool = False
    whole_corrections: bool = False


@dataclass(frozen=True, slots=True)
class ExaminedSlice:
    """The logical hash of a slice, and what is wrong with its rows.

    At most one text for each rule.
    """

    digest: LogicalDigest
    problems: tuple[str, ...]


def examine_slice(source: Source, rules: SliceRules) -> ExaminedSlice:
    """Hash a slice and judge its rows in one reading.

    Raises InvalidData for a file that is no slice, IncompatibleSchema.
    """
    with open_parquet(source) as file:
        schema = arrow_schema_of(file)
        hasher = LogicalHasher(schema)
        checks = _Checks(SliceReader(file, _name(source), rules.vocabulary, schema=schema), rules)
        statistics = statistics_check(source, file.schema_arrow)
        for batch in batches_of(file, schema=schema):
            hasher.update(batch)
            checks.take(batch)
            statistics.take(batch)
        return ExaminedSlice(hasher.finish(), (*checks.problems(), *statistics.problems()))


def check_slice_rows(source: Source, rules: SliceRules) -> list[str]:
    """What is wrong with the rows of a slice, without its hash.

    Raises as `examine_slice`.
    """
    with open_parquet(source) as file:
        checks = _Checks(SliceReader(file, _name(source), rules.vocabulary), rules)
        for batch in batches_of(file):
            checks.take(batch)
        return checks.problems()


def _name(source: Source) -> str | None:
    return source.name if isinstance(source, Path) else None


class _Problems:
    """The first finding of each rule, in the order found."""

    def __init__(self) -> None:
        self._found: dict[str, str] = {}

    def add(self, rule: str, text: str) -> None:
        self._found.setdefault(rule, text)

    @property
    def texts(self) -> list[str]:
        return list(self._found.values())


class _Checks:
    """All rules over one file; batches are taken in order."""

    def __init__(self, reader: SliceReader, rules: SliceRules) -> None:
        self._schema, self._vocabulary = reader.schema, rules.vocabulary
        self._first = rules.interval.start
        self._found = _Problems()
        self._expected = _expected_schema(rules)
        _check_columns(reader.schema, self._expected, rules, self._found)
        interval = rules.interval
        rows = interval.end - interval.start + 1
        if reader.rows != rows:
            text = f"the slice has {reader.rows} rows, its interval [{interval.start}, {interval.end}] means {rows}"
            self._found.add("rows", text)
        self._system_times = _SystemTimes(rules)
        self._event_times = _EventTimes(rules)
        self._corrections = _Corrections() if rules.whole_corrections else None
        self._position = 0

    def take(self, batch: pa.RecordBatch) -> None:
        """Judge the next rows."""
        batch, position, found = as_schema(batch, self._schema), self._position, self._found
        _check_offsets(batch, self._vocabulary, self._first + position, position, found)
        operations = _operations(batch, self._vocabulary, position, found)
        if self._corrections is not None and operations is not None:
            self._corrections.check(operations, position, found)
        self._system_times.check(batch, position, found)
        self._event_times.check(batch, position, found)
        for column, field in _comparable(batch, self._expected):
            for text in null_problems(column, field):
                found.add(f"nulls of {field.name}", text)
        self._position += batch.num_rows

    def problems(self) -> list[str]:
        """What was found in all rows."""
        if self._corrections is not None:
            self._corrections.end(self._position, self._found)
        return self._found.texts


class _SystemTimes:
    """The system time of the rows.

    One, that of the block if it is known; or times that came before it, in order.
    """

    def __init__(self, rules: SliceRules) -> None:
        self._name, self._older = rules.vocabulary.system_time, rules.older_rows
        self._expected = None if rules.system_time is None else rules.system_time.truncated_to_millis()
        self._last: int | None = None

    def check(self, batch: pa.RecordBatch, position: int, problems: _Problems) -> None:
        if self._name not in batch.schema.names:
            return
        column = batch.column(self._name)
        if not types.is_timestamp(column.type):
            problems.add(f"column {self._name}", f"column `{self._name}` is {column.type}, not a timestamp")
        elif column.null_count:
            problems.add("system_time", f"column `{self._name}` has nulls")
        elif len(column):
            values = numbers_of(column)
            unit = _NANOS_OF_UNIT[column.type.unit]
            (self._compare_older if self._older else self._compare)(values, unit, position, problems)

    def _compare(self, values: _Longs, unit: int, position: int, problems: _Problems) -> None:
        expected = self._expected or Instant(int(values[0]) * unit)
        self._expected = expected
        for row in (values != expected.epoch_ns // unit).nonzero()[0][:1]:
            self._tell(position + row, Instant(int(values[row]) * unit), f"{expected} is expected", problems)

    def _compare_older(self, values: _Longs, unit: int, position: int, problems: _Problems) -> None:
        before = np.concatenate([values[:1] if self._last is None else [self._last], values[:-1]])
        self._last = int(values[-1])
        for row in (values < before).nonzero()[0][:1]:
            self._tell(position + row, Instant(int(values[row]) * unit), "which goes back", problems)
        if self._expected is not None:
            for row in (values > self._expected.epoch_ns // unit).nonzero()[0][:1]:
                found = Instant(int(values[row]) * unit)
                self._tell(position + row, found, f"which is after that of its block, {self._expected}", problems)

    def _tell(self, row: int, found: Instant, text: str, problems: _Problems) -> None:
        problems.add("system_time", f"row {row + 1} has the {self._name} {found}, {text}")


class _EventTimes:
    """Event times are timestamps or dates of years that calendars know."""

    def __init__(self, rules: SliceRules) -> None:
        self._name, self._required = rules.vocabulary.event_time, rules.event_time_required

    def check(self, batch: pa.RecordBatch, position: int, problems: _Problems) -> None:
        if self._name not in batch.schema.names:
            return
        column = batch.column(self._name)
        if not _is_moment(column.type):
            text = f"column `{self._name}` is {column.type}, neither a timestamp nor a date"
            problems.add(f"column {self._name}", text)
            return
        if self._required and column.null_count:
            row = int(_present(column).argmin())
            problems.add(f"nulls of {self._name}", f"row {position + row + 1} has no {self._name}")
        unit = _nanos_of(column.type)
        numbers = numbers_of(column)
        first, last = FIRST_INSTANT.epoch_ns // unit, LAST_INSTANT.epoch_ns // unit
        outside = (numbers < max(first, -(2**63))) | (numbers > min(last, 2**63 - 1))
        if column.null_count:
            outside &= _present(column)
        for row in outside.nonzero()[0][:1]:
            found = Instant(int(numbers[row]) * unit)
            text = (
                f"row {position + row + 1} has the {self._name} {found}, {FIRST_INSTANT} to {LAST_INSTANT} are possible"
            )
            problems.add("event_time", text)


class _Corrections:
    """A correct-from is followed by its correct-to, also across batches."""

    def __init__(self) -> None:
        self._last = int(OperationType.APPEND)

    def check(self, operations: _Longs, position: int, problems: _Problems) -> None:
        before = np.concatenate([[self._last], operations[:-1]])
        self._last = int(operations[-1]) if len(operations) else self._last
        for row in ((before == _FROM) & (operations != _TO)).nonzero()[0][:1]:
            self._tell_from(position + int(row), problems)
        for row in ((before != _FROM) & (operations == _TO)).nonzero()[0][:1]:
            text = f"row {position + row + 1} is a correct-to (3) that does not directly follow a correct-from (2)"
            problems.add("corrections", text)

    def end(self, rows: int, problems: _Problems) -> None:
        if self._last == _FROM:
            self._tell_from(rows, problems)

    def _tell_from(self, row: int, problems: _Problems) -> None:
        problems.add("corrections", f"row {row} is a correct-from (2) that no correct-to (3) directly follows")


def _check_offsets(
    batch: pa.RecordBatch, vocabulary: DatasetVocabulary, first: int, position: int, problems: _Problems
) -> None:
    column = batch.column(vocabulary.offset)
    if column.null_count:
        problems.add("offset", f"column `{vocabulary.offset}` has nulls")
        return
    values = numbers_of(column)
    for row in (values - np.arange(len(values)) != first).nonzero()[0][:1]:
        text = f"row {position + row + 1} has the offset {values[row]}, {first + row} is expected"
        problems.add("offset", text)


def _operations(
    batch: pa.RecordBatch, vocabulary: DatasetVocabulary, position: int, problems: _Problems
) -> _Longs | None:
    """The operations of the rows; None if they have nulls."""
    column = batch.column(vocabulary.operation_type)
    if column.null_count:
        problems.add("op", f"column `{vocabulary.operation_type}` has nulls")
        return None
    values = numbers_of(column)
    for row in ((values < min(OperationType)) | (values > max(OperationType))).nonzero()[0][:1]:
        problems.add("op", f"row {position + row + 1} has {values[row]} as operation type, 0 to 3 are known")
    return values


def _expected_schema(rules: SliceRules) -> pa.Schema | None:
    if rules.data_schema is None:
        return None
    return normal_schema(data_schema_to_arrow(rules.data_schema, encodings=False), rules.vocabulary)


def _check_columns(found: pa.Schema, expected: pa.Schema | None, rules: SliceRules, problems: _Problems) -> None:
    """Every column of the schema, no others, of equal types.

    A reader takes a missing one for nulls.
    """
    for field in expected or ():
        if field.name not in found.names:
            problems.add(f"column {field.name}", f"the slice has no column `{field.name}`")
        elif not types_interchangeable(found.field(field.name).type, field.type):
            text = f"column `{field.name}` is {found.field(field.name).type}, the dataset's schema says {field.type}"
            problems.add(f"column {field.name}", text)
    for name in found.names:
        if expected is not None and name not in expected.names:
            problems.add(f"column {name}", f"column `{name}` is not in the dataset's schema")
    for name in (rules.vocabulary.system_time, rules.vocabulary.event_time):
        if name not in found.names:
            problems.add(f"column {name}", f"the slice has no column `{name}`")


def _comparable(batch: pa.RecordBatch, expected: pa.Schema | None) -> Iterator[tuple[pa.Array, pa.Field]]:
    """Columns whose nulls can be judged: those of the expected type."""
    for field in expected or ():
        if field.name in batch.schema.names:
            column = batch.column(field.name)
            if types_interchangeable(column.type, field.type):
                yield column, field


def _present(column: pa.Array) -> Mask:
    """True where a row of a column with nulls has a value."""
    found = validity(column)
    return np.ones(len(column), np.bool_) if found is None else found


def _is_moment(data_type: pa.DataType) -> bool:
    return bool(types.is_timestamp(data_type) or types.is_date(data_type))


def _nanos_of(data_type: pa.DataType) -> int:
    if types.is_date32(data_type):
        return NANOS_PER_DAY
    return NANOS_PER_MILLI if types.is_date64(data_type) else _NANOS_OF_UNIT[data_type.unit]
