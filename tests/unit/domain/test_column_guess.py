"""Guessed columns: what is said of a sample is so for every value of it."""

from __future__ import annotations

import csv
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.domain.column_guess import GuessedType, csv_rows, guess_columns, has_type, json_rows
from odfabric.errors import InvalidData
from odfabric_engine_spark.read.time_formats import date_format, timestamp_format

NUMBERS = (
    "1",
    "-7",
    "007",
    "-0",
    "0",
    "9223372036854775807",
    "9223372036854775808",
    "9007199254740993",
    "1.5",
    "1e999",
)
TIMES = ("2026-01-31", "2026-02-30", "2026-01-31T10:00:00Z", "2026-01-31 10:00", "2026-01-31 10:00:00.123456789 +02:00")
TEXTS = ("true", "FALSE", "", " 1", "+1", "abc", 'a "b"', "two\nlines", "a,b", "NaN", "\u0661")
LIKELY = st.one_of(*map(st.sampled_from, (NUMBERS, TIMES, TEXTS)))
CELLS = st.one_of(LIKELY, st.text(max_size=8).filter(lambda text: "\x00" not in text and "\r" not in text))
VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), LIKELY, st.lists(st.integers(), max_size=2)
)


def means_the_same(value: object, guessed: GuessedType) -> bool:
    """What a type promises of a value, said in other words than the guess."""
    text = str(value)
    match guessed:
        case GuessedType.STRING:
            return True
        case GuessedType.BOOL:
            return text.lower() in ("true", "false")
        case GuessedType.INT64:
            return str(int(text)) == text and -(2**63) <= int(text) < 2**63
        case GuessedType.FLOAT64:
            whole = text.lstrip("-").isdecimal()
            return int(float(text)) == int(text) if whole else abs(float(text)) < float("inf")
        case GuessedType.DATE:
            return date_format(None).days(text) is not None
        case GuessedType.TIMESTAMP:
            return timestamp_format(None).millis(text) is not None


@given(st.lists(CELLS, min_size=1, max_size=12))
def test_what_is_said_of_cells_is_so(cells: list[str]) -> None:
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerows([["name", "other"], *([cell, "x"] for cell in cells)])
    text = written.getvalue()
    names, rows = csv_rows(text, header=True)
    assert names == ["name", "other"]
    column, other = guess_columns(rows, names)
    there = [cell for cell in cells if cell]
    assert (column.values, column.missing) == (len(there), len(cells) - len(there))
    assert other.type is GuessedType.STRING
    assert all(means_the_same(cell, column.type) for cell in there)
    lines = text.split("\n")
    for misfit in column.misfits:
        wrong = [
            row.values["name"] for row in rows if row.values["name"] and not has_type(row.values["name"], misfit.type)
        ]
        assert (misfit.count, misfit.value) == (len(wrong), wrong[0])
        assert 0 < misfit.count < column.values
        first = str(misfit.value).split("\n")[0].replace('"', '""')
        assert lines[misfit.line - 1].startswith((first, f'"{first}'))
    assert list(GuessedType).index(column.type) > max(
        (list(GuessedType).index(misfit.type) for misfit in column.misfits), default=-1
    )


@given(st.lists(VALUES, min_size=1, max_size=12), st.booleans())
def test_what_is_said_of_json_is_so(values: list[object], as_array: bool) -> None:
    records = [json.dumps({"a": value}) for value in values]
    rows = json_rows("[" + ",\n".join(records) + "]" if as_array else "\n".join(records))
    assert [row.line for row in rows] == list(range(1, len(values) + 1))
    (column,) = guess_columns(rows)
    there = [value for value in values if value is not None]
    assert (column.values, column.missing) == (len(there), len(values) - len(there))
    assert all(means_the_same(value, column.type) for value in there)
    if column.type is not GuessedType.STRING:
        texts = column.type in (GuessedType.DATE, GuessedType.TIMESTAMP)
        assert all(isinstance(value, str) is texts for value in there)
    for misfit in column.misfits:
        wrong = [row for row in rows if row.values["a"] is not None and not has_type(row.values["a"], misfit.type)]
        assert (misfit.count, misfit.line) == (len(wrong), wrong[0].line)


@given(
    st.from_regex(
        r"\A[0-9]{4}-[01][0-9]-[0-3][0-9]([Tt ][0-2][0-9]:[0-6][0-9](:[0-6][0-9](\.[0-9]{1,10})?)?( ?([Zz]|[+-][0-2][0-9]:?[0-6][0-9]))?)?\Z"
    )
)
def test_times_are_those_that_the_engine_reads(text: str) -> None:
    assert has_type(text, GuessedType.TIMESTAMP) == (timestamp_format(None).millis(text) is not None)
    assert has_type(text, GuessedType.DATE) == (date_format(None).days(text) is not None)


def test_the_nearest_misfit_names_its_line() -> None:
    names, rows = csv_rows("id,zip\n1,01234\n2,20000\nabc,30000\n", header=True)
    number, post = guess_columns(rows, names)
    assert (number.type, post.type) == (GuessedType.STRING, GuessedType.STRING)
    assert [(each.type, each.count, each.line, each.value) for each in number.misfits] == [
        (GuessedType.INT64, 1, 4, "abc"),
        (GuessedType.FLOAT64, 1, 4, "abc"),
    ]
    assert (post.misfits[0].type, post.misfits[0].line, post.misfits[0].value) == (GuessedType.INT64, 2, "01234")


def test_names_come_from_the_header_or_are_made() -> None:
    assert csv_rows("\ufeffa;;c\n1;2;3\n", separator=";", header=True)[0] == ["a", "column_2", "c"]
    names, rows = csv_rows("1,2\n", header=False)
    assert (names, len(rows)) == (["column_1", "column_2"], 1)
    assert csv_rows("", header=True) == ([], [])


def test_columns_of_json_are_those_of_all_records() -> None:
    columns = guess_columns(json_rows('{"a": 1}\n{"b": {"c": 1}}\n'))
    assert [(each.name, each.type.value, each.missing) for each in columns] == [("a", "Int64", 1), ("b", "String", 1)]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ('[{"a": 1},\n {"a": 2}]', 2),
        ('[{"a": 1},\n {"a":', 1),
        ('{"a": 1}\n{"a": "cut o', 1),
        ('{"a": 1}\n\n{"a": 2}\n', 2),
        ("", 0),
        ("[]", 0),
    ],
)
def test_records_are_read_up_to_where_the_sample_was_cut(text: str, count: int) -> None:
    assert len(json_rows(text)) == count


@pytest.mark.parametrize(
    ("text", "line"),
    [('{"a": 1}\n{"a": nothing}\n{"a": 2}', 2), ("[1]", 1), ("abc", 1), ('{"a": 1}\n[2]', 2), ("[" * 100_000, 1)],
)
def test_what_is_no_record_is_told_with_its_line(text: str, line: int) -> None:
    with pytest.raises(InvalidData) as caught:
        json_rows(text)
    assert caught.value.place.line == line


def test_a_row_of_another_width_is_told_with_its_line() -> None:
    with pytest.raises(InvalidData) as caught:
        csv_rows('a,b\n1,"x\ny"\n1,2,3\n', header=True)
    assert caught.value.place.line == 4
