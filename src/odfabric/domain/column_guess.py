"""Guess columns from a sample of a file: names, the narrowest type that every value has, and why no narrower one.

Owns which values have which type, for cells of CSV and values of JSON. Invariant: a guessed type is that of every value of the sample, and what
is said against a type - how many values do not have it, the first of them and its line - is so. Not here: what a reader makes of a file (the
engine); a sample tells nothing of the rows behind it.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from enum import Enum
from typing import TypeAlias

from odfabric.errors import InvalidData, Place

SampleValue: TypeAlias = object
"""A cell of CSV as text, or a value of JSON. Empty cells and null are missing."""

EXACT_FLOATS = 2**53
"""Whole numbers up to here are kept by a double."""
_EXACT_CHARACTERS_MAX = len(str(-EXACT_FLOATS))
_INT64 = range(-(2**63), 2**63)
# A leading zero means something, e.g. in postal codes, and a number would lose it.
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,18}", re.ASCII)
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?", re.ASCII)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
# As engines read times that declare no format of their own: RFC 3339, a day alone is its midnight, and no zone means UTC.
_TIME = re.compile(
    r"(?P<day>[0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ](?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,9})?"
    r" ?(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])?",
    re.ASCII,
)


class GuessedType(Enum):
    """Types that are guessed, in the order in which they are tried; every value is a text."""

    BOOL = "Bool"
    INT64 = "Int64"
    FLOAT64 = "Float64"
    DATE = "Date"
    TIMESTAMP = "Timestamp"
    STRING = "String"


@dataclass(frozen=True, slots=True)
class Misfit:
    """What speaks against a type: how many values do not have it, and the first of them with its line."""

    type: GuessedType
    count: int
    line: int
    value: SampleValue


@dataclass(frozen=True, slots=True, kw_only=True)
class GuessedColumn:
    """A column. `values` counts those that are there, `missing` the others; `misfits` are of narrower types, the nearest first."""

    name: str
    type: GuessedType
    values: int
    missing: int
    misfits: tuple[Misfit, ...]


@dataclass(frozen=True, slots=True)
class SampleRow:
    """Values of a row by column, and the line on which it begins, from 1."""

    line: int
    values: dict[str, SampleValue]


def guess_columns(rows: Iterable[SampleRow], names: Sequence[str] = ()) -> list[GuessedColumn]:
    """The columns of rows, in the order in which they are met; `names` come first, also if no row has them."""
    columns: dict[str, list[tuple[int, SampleValue]]] = {name: [] for name in names}
    count = 0
    for row in rows:
        count += 1
        for name, value in row.values.items():
            found = columns.setdefault(name, [])
            if not _is_missing(value):
                found.append((row.line, value))
    return [_guess(name, values, missing=count - len(values)) for name, values in columns.items()]


def has_type(value: SampleValue, guessed: GuessedType) -> bool:
    """Whether a value can be read as this type and keeps its meaning: whole numbers all their digits, texts their zeros."""
    match guessed:
        case GuessedType.STRING:
            return True
        case GuessedType.BOOL:
            return isinstance(value, bool) or (isinstance(value, _Cell) and value.lower() in ("true", "false"))
        case GuessedType.INT64:
            return _is_whole(value)
        case GuessedType.FLOAT64:
            return _is_number(value)
        case GuessedType.DATE:
            return isinstance(value, str) and _DATE.fullmatch(value) is not None and _is_date(value)
        case GuessedType.TIMESTAMP:
            return isinstance(value, str) and (has_type(value, GuessedType.DATE) or _is_time(value))


def _is_missing(value: SampleValue) -> bool:
    return value is None or (isinstance(value, _Cell) and not value)


class _Cell(str):
    """Text of a file without types, which may be a number; texts of JSON are texts."""

    __slots__ = ()


def csv_rows(text: str, *, separator: str = ",", header: bool) -> tuple[list[str], list[SampleRow]]:
    """Names of columns and rows of a CSV sample. Without a header columns are `column_1` and so on.

    Raises InvalidData for a row that has more or fewer cells than the first, and for what is no CSV.
    """
    names: list[str] | None = None
    rows: list[SampleRow] = []
    for line, cells in _records(text, separator):
        if names is None:
            names = [cell.removeprefix("\ufeff").strip() if header else "" for cell in cells]
            names = [name or f"column_{number}" for number, name in enumerate(names, start=1)]
            if header:
                continue
        if len(cells) != len(names):
            raise InvalidData(
                f"{len(cells)} cells where the first row has {len(names)}",
                place=Place(line=line),
                hint="look at the separator, and at quotes that are not closed",
            )
        rows.append(SampleRow(line, dict(zip(names, map(_Cell, cells), strict=True))))
    return names or [], rows


def json_rows(text: str) -> list[SampleRow]:
    """Records of a JSON array, or of JSON values one after the other, as NDJSON has them. One that is cut off at the end is left out.

    Raises InvalidData for a record that is no object, and for what is no JSON.
    """
    decoder = json.JSONDecoder()
    rows: list[SampleRow] = []
    position = _skip(text, len(text) - len(text.removeprefix("\ufeff")), "[")
    while position < len(text) and text[position] != "]":
        line = text.count("\n", 0, position) + 1
        try:
            value, end = decoder.raw_decode(text, position)
        except (ValueError, RecursionError) as error:
            if rows and _is_cut_off(text, error):
                break
            raise InvalidData(
                f"no JSON: {getattr(error, 'msg', 'too deep')}", place=_place(text, error, line)
            ) from None
        if not isinstance(value, dict):
            raise InvalidData("a record is no JSON object", place=Place(line=line), hint="one object for each row")
        rows.append(SampleRow(line, value))
        position = _skip(text, end, ",")
    return rows


def _guess(name: str, values: Sequence[tuple[int, SampleValue]], *, missing: int) -> GuessedColumn:
    against: list[Misfit] = []
    for guessed in GuessedType if values else ():
        misfits = [(line, value) for line, value in values if not has_type(value, guessed)]
        if not misfits:
            break
        if len(misfits) < len(values):
            against.append(Misfit(guessed, len(misfits), *misfits[0]))
    else:
        guessed = GuessedType.STRING
    against.sort(key=lambda misfit: misfit.count)
    return GuessedColumn(name=name, type=guessed, values=len(values), missing=missing, misfits=tuple(against))


def _is_whole(value: SampleValue) -> bool:
    if isinstance(value, _Cell):
        return _WHOLE.fullmatch(value) is not None and int(value) in _INT64
    return isinstance(value, int) and not isinstance(value, bool) and value in _INT64


def _is_number(value: SampleValue) -> bool:
    if isinstance(value, _Cell):
        if _NUMBER.fullmatch(value) is None:
            return False
        if value.lstrip("-").isdecimal():
            return len(value) <= _EXACT_CHARACTERS_MAX and abs(int(value)) <= EXACT_FLOATS
        return math.isfinite(float(value))
    if isinstance(value, bool):
        return False
    return abs(value) <= EXACT_FLOATS if isinstance(value, int) else isinstance(value, float) and math.isfinite(value)


def _is_date(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _is_time(text: str) -> bool:
    found = _TIME.fullmatch(text)
    return found is not None and _is_date(found["day"])


def _records(text: str, separator: str) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    line = 1
    while True:
        try:
            cells = next(reader, None)
        except csv.Error as error:
            raise InvalidData(f"no CSV: {error}", place=Place(line=reader.line_num)) from None
        if cells is None:
            return
        if cells:
            yield line, cells
        line = reader.line_num + 1


def _skip(text: str, position: int, sign: str) -> int:
    """The position behind white space and at most one `sign`."""
    match = re.compile(rf"\s*(?:{re.escape(sign)}\s*)?").match(text, position)
    assert match is not None
    return match.end()


def _is_cut_off(text: str, error: Exception) -> bool:
    if not isinstance(error, json.JSONDecodeError):
        return False
    return error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string")


def _place(text: str, error: Exception, line: int) -> Place:
    position = getattr(error, "pos", None)
    if position is None:
        return Place(line=line)
    start = text.rfind("\n", 0, position) + 1
    return Place(line=text.count("\n", 0, position) + 1, column=position - start + 1)
