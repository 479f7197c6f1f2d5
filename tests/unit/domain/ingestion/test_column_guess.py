"""Guessed columns hold for all rows of a file, as a naive look confirms."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.domain.ingestion.column_guess import (
    ColumnGuess,
    GuessedColumn,
    GuessedType,
    WantedColumn,
    WantedType,
    refused_values,
    shown,
)
from odfabric.formats.files.file_rows import FileRows, RowBatch, RowLimits
from odfabric.formats.files.time_formats import date_format, timestamp_format
from odfabric.model.file_shape import FileFormat, FileShape
from odfabric_engine_spark.ingest.json.json_values import Misfit, converter
from odfabric_engine_spark.ingest.values.text_values import TextFormats

LIMITS = RowLimits(columns_max=10, line_characters_max=1000)
FORMATS = TextFormats(date_format(None), timestamp_format(None))
NUMBERS = (
    *("1", "-7", "007", "-0", "0", "1.5", "1e999", "2e3"),
    *("9223372036854775807", "9223372036854775808", "9007199254740993"),
)
TIMES = ("2026-01-31", "2026-02-30", "2026-01-31T10:00:00Z", "2026-01-31 10:00", "2026-01-31 10:00:00.123456789 +02:00")
OFFSETS = ("+00", "-0330", "+18", "+19:00", "+1", " -05")
TEXTS = ("true", "FALSE", "", " 1", "+1", "abc", 'a "b"', "two\nlines", "a,b", "NaN", "\u0661", "a\\", '\\"')
LIKELY = st.one_of(
    *map(st.sampled_from, (NUMBERS, TIMES, TEXTS, tuple(f"2026-01-31 10:00:00{each}" for each in OFFSETS)))
)
CELLS = st.one_of(LIKELY, st.text(max_size=6).filter(lambda text: not set(text) & set("\0\r\u2028\ud800")))
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), FLOATS, LIKELY, st.lists(st.integers(), max_size=2)
)
NARROW = tuple(GuessedType)[:-1]


def number_of(text: str) -> int | float | None:
    try:
        found = json.loads(text)
    except ValueError:
        return None
    is_number = isinstance(found, int | float) and not isinstance(found, bool) and text == text.strip()
    return found if is_number and text not in ("NaN",) and abs(found) < float("inf") else None


def has_type(value: Any, kind: GuessedType, *, cells: bool) -> bool:
    """What a type promises of a value, in other words than those of the guess."""
    number = number_of(value) if cells else value if isinstance(value, int | float) else None
    match kind:
        case GuessedType.BOOL:
            return value.lower() in ("true", "false") if cells else isinstance(value, bool)
        case GuessedType.INT64:
            is_whole = isinstance(number, int) and not isinstance(number, bool) and -(2**63) <= number < 2**63
            return is_whole and (not cells or str(number) == value)
        case GuessedType.FLOAT64:
            if isinstance(number, int):
                return not isinstance(number, bool) and abs(number) <= 2**53
            return number is not None and abs(number) < float("inf")
        case GuessedType.DATE:
            return isinstance(value, str) and FORMATS.date.days(value) is not None
        case GuessedType.TIMESTAMP:
            return isinstance(value, str) and FORMATS.timestamp.millis(value) is not None
        case GuessedType.STRING:
            return True


def naive(values: list[tuple[int, Any]], *, rows: int, cells: bool) -> tuple[Any, ...]:
    """Type, values, missing ones, misfits of narrower types, found value by value."""
    against, found = [], GuessedType.STRING
    for kind in NARROW if values else ():
        wrong = [(line, value) for line, value in values if not has_type(value, kind, cells=cells)]
        if not wrong:
            found = kind
            break
        if len(wrong) < len(values):
            against.append((len(wrong), kind, wrong[0][0], shown(wrong[0][1])))
    against.sort(key=lambda each: each[0])
    return found, len(values), rows - len(values), against


def told(column: GuessedColumn) -> tuple[Any, ...]:
    misfits = [(misfit.count, misfit.type, misfit.line, misfit.value) for misfit in column.misfits]
    return column.type, column.values, column.missing, misfits


def guessed(path: Path, shape: FileShape, names: list[str], **sizes: int) -> ColumnGuess:
    guess = ColumnGuess(names, cells=shape.format is FileFormat.CSV)
    for batch in FileRows(path, shape, LIMITS, **sizes).batches():
        assert isinstance(batch, RowBatch)
        guess.add(batch)
    return guess


@given(st.lists(CELLS, min_size=1, max_size=12), st.integers(1, 5))
def test_what_is_said_of_cells_is_so(
    tmp_path_factory: pytest.TempPathFactory, cells: list[str], batch_rows: int
) -> None:
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n", quoting=csv.QUOTE_ALL)
    lines = []
    for row in (["name", "other"], *([cell.replace("\\", "/"), "x"] for cell in cells)):
        lines.append(written.getvalue().count("\n") + 1)
        writer.writerow(row)
    path = tmp_path_factory.mktemp("csv") / "f"
    path.write_bytes(written.getvalue().encode())
    guess = guessed(path, FileShape(format=FileFormat.CSV), ["name", "other"], batch_rows=batch_rows)
    values = [(line, cell.replace("\\", "/")) for line, cell in zip(lines[1:], cells, strict=True) if cell]
    column, other = guess.columns()
    assert told(column) == naive(values, rows=len(cells), cells=True)
    assert told(other)[:3] == (GuessedType.STRING, len(cells), 0)


@given(st.lists(VALUES, min_size=1, max_size=12), st.booleans(), st.integers(1, 5), st.integers(1, 40))
def test_what_is_said_of_json_is_so(
    tmp_path_factory: pytest.TempPathFactory, values: list[Any], is_array: bool, batch_rows: int, piece: int
) -> None:
    records = [json.dumps({"a": value}) for value in values]
    path = tmp_path_factory.mktemp("json") / "f"
    path.write_text("[" + ",\n".join(records) + "]\n" if is_array else "\n".join(records))
    shape = FileShape(format=FileFormat.JSON if is_array else FileFormat.NDJSON)
    (column,) = guessed(path, shape, [], batch_rows=batch_rows, piece_characters=piece).columns()
    there = [(line, value) for line, value in enumerate(values, start=1) if value is not None]
    assert told(column) == naive(there, rows=len(values), cells=False)


@given(VALUES.filter(lambda value: value is not None), st.sampled_from(list(WantedType)[:-1]))
def test_values_of_json_are_refused_that_the_engine_refuses(value: Any, wanted: WantedType) -> None:
    arrow = {
        WantedType.BOOL: pa.bool_(),
        WantedType.WHOLE: pa.int64(),
        WantedType.NUMBER: pa.float64(),
        WantedType.DATE: pa.date32(),
        WantedType.TIME: pa.timestamp("ms"),
        WantedType.TEXT: pa.string(),
    }[wanted]
    try:
        converter(arrow, FORMATS, path="a")(value)
        is_taken = True
    except (Misfit, ValueError, OverflowError):
        is_taken = False
    column = WantedColumn("a", wanted, is_optional=False)
    refused = list(refused_values(RowBatch([7], {"a": [value]}), [column], cells=False))
    assert [(each.line, each.value) for each in refused] == ([] if is_taken else [(7, shown(value))])


@given(
    st.from_regex(
        r"\A[0-9]{4}-[01][0-9]-[0-3][0-9]([Tt ][0-2][0-9]:[0-6][0-9](:[0-6][0-9](\.[0-9]{1,10})?)?( ?([Zz]|[+-][0-2][0-9]:?[0-6][0-9]))?)?\Z"
    )
)
def test_times_are_those_that_the_engine_reads(text: str) -> None:
    guess = ColumnGuess(["a"], cells=True)
    guess.add(RowBatch([1], {"a": [text]}))
    (column,) = guess.columns()
    assert (column.type is GuessedType.DATE) == (FORMATS.date.days(text) is not None)
    assert (column.type is not GuessedType.STRING) == (FORMATS.timestamp.millis(text) is not None)


def test_a_value_that_is_missing_is_refused_where_one_is_needed() -> None:
    batch = RowBatch([2, 3, 4], {"a": ["1", "", "x"], "b": ["", "", ""]})
    wanted = [
        WantedColumn("a", WantedType.WHOLE, is_optional=False, within=range(10)),
        WantedColumn("b", WantedType.TEXT, is_optional=True),
    ]
    refused = [(each.line, each.column, each.value) for each in refused_values(batch, wanted, cells=True)]
    assert refused == [(3, "a", None), (4, "a", "x")]


def test_memory_does_not_grow_with_rows() -> None:
    guess = ColumnGuess(["a"], cells=True)
    for number in range(50):
        guess.add(RowBatch(range(1000), {"a": [f"{number}-{row}" for row in range(1000)]}))
    (column,) = guess.columns()
    assert (column.values, len(guess._columns["a"])) == (50_000, 1)
