"""Guess columns from all rows of a file.

Names, the narrowest type that every value has, and why no narrower one.

Owns which values have which type, for cells of CSV and values of JSON, and which of them a reader takes as a chosen type. Invariant: a guessed
type is that of every value, and what is said against a type - how many values do not have it, the first of them and its line - is so; memory
does not grow with the rows. Not here: cutting a file into rows (`formats.files.file_rows`), what is stored (the engine).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from enum import Enum
from functools import cache, lru_cache
from typing import TypeAlias

from odfabric.formats.files.file_rows import RowBatch, Value
from odfabric.formats.files.time_formats import OFFSET_PATTERN

EXACT_FLOATS = 2**53
"""Whole numbers up to here are kept by a double."""
SHOWN_CHARACTERS_MAX = 60
"""Longest part of a value that is shown."""
_CACHED_CHARACTERS_MAX = 40
_CACHED_VALUES_MAX = 1 << 16
_EXACT_CHARACTERS_MAX = len(str(-EXACT_FLOATS))
_DIGITS_MAX = 1000
_INT64 = range(-(2**63), 2**63)
# A leading zero means something, e.g. in postal codes, and a number would lose it.
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,18}", re.ASCII)
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?", re.ASCII)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
# As engines read times that declare no format of their own: RFC 3339, a day alone is its midnight, and no zone means UTC.
_TIME = re.compile(
    r"(?P<day>[0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ](?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,9})?"
    r" ?(?:[Zz]|"
    rf"{OFFSET_PATTERN})?",
    re.ASCII,
)
# What engines take where a type is declared is more than what is guessed to be of that type.
_TAKEN_WHOLE = re.compile(r"([+-]?[0-9]+)(?:\.0+)?", re.ASCII)
_TAKEN_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", re.ASCII)
_NO_NUMBERS = frozenset({"nan", *(f"{sign}{word}" for sign in ("", "+", "-") for word in ("inf", "infinity"))})


class GuessedType(Enum):
    """Types that are guessed, in the order in which they are tried.

    Every value is a text.
    """

    BOOL = "Bool"
    INT64 = "Int64"
    FLOAT64 = "Float64"
    DATE = "Date"
    TIMESTAMP = "Timestamp"
    STRING = "String"


Fit: TypeAlias = frozenset[GuessedType]
"""The types that a value has, STRING left out: every value has it."""
_Classify: TypeAlias = Callable[[Value], Fit | None]
_NARROW = tuple(kind for kind in GuessedType if kind is not GuessedType.STRING)
_NOTHING: Fit = frozenset()
_BOOLS: Fit = frozenset({GuessedType.BOOL})
_FIRST_SIGNS = frozenset("-0123456789")
"""With which numbers and times begin."""


@dataclass(frozen=True, slots=True)
class Misfit:
    """What rules out a type: how many values lack it, and the first with its line."""

    type: GuessedType
    count: int
    line: int
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GuessedColumn:
    """A column.

    `values` counts those that are there, `missing` the others; `misfits` are of narrower types, the nearest first.
    """

    name: str
    type: GuessedType
    values: int
    missing: int
    misfits: tuple[Misfit, ...]


@dataclass(slots=True)
class _Seen:
    """Values of one column that have the same types: how many, and the first of them."""

    count: int
    line: int
    value: Value


class ColumnGuess:
    """What is known of the columns of a file after the rows so far.

    Columns in the order in which they are met, `names` first.
    """

    def __init__(self, names: Iterable[str] = (), *, cells: bool) -> None:
        """`cells`: values are cells of CSV, of which an empty one is missing."""
        self.rows = 0
        self._columns: dict[str, dict[Fit, _Seen]] = {name: {} for name in names}
        self._classify = _classify_cell if cells else _classify_json

    @property
    def width(self) -> int:
        """How many columns there are."""
        return len(self._columns)

    def add(self, batch: RowBatch) -> None:
        """Take rows into account."""
        self.rows += len(batch.lines)
        for name, values in batch.columns.items():
            seen = self._columns.setdefault(name, {})
            fits = list(map(self._classify, values))
            for fit, count in Counter(fits).items():
                if fit is None:
                    continue
                if fit in seen:
                    seen[fit].count += count
                else:
                    first = fits.index(fit)
                    seen[fit] = _Seen(count, batch.lines[first], values[first])

    def columns(self) -> list[GuessedColumn]:
        """What all rows so far say."""
        return [_guessed(name, seen, rows=self.rows) for name, seen in self._columns.items()]


def _guessed(name: str, seen: Mapping[Fit, _Seen], *, rows: int) -> GuessedColumn:
    values = sum(each.count for each in seen.values())
    found = GuessedType.STRING
    against: list[Misfit] = []
    for kind in _NARROW if values else ():
        wrong = [each for fit, each in seen.items() if kind not in fit]
        if not wrong:
            found = kind
            break
        count = sum(each.count for each in wrong)
        if count < values:
            first = min(wrong, key=lambda each: each.line)
            against.append(Misfit(kind, count, first.line, shown(first.value)))
    against.sort(key=lambda misfit: misfit.count)
    return GuessedColumn(name=name, type=found, values=values, missing=rows - values, misfits=tuple(against))


def shown(value: Value) -> str:
    """A value as people read it, cut off where it is long."""
    text = str(value)
    return text if len(text) <= SHOWN_CHARACTERS_MAX else f"{text[: SHOWN_CHARACTERS_MAX - 1]}…"


def _classify_cell(cell: Value) -> Fit | None:
    if not isinstance(cell, str) or not cell:
        return None
    return _classify_short(cell) if len(cell) <= _CACHED_CHARACTERS_MAX else _types_of_cell(cell)


@lru_cache(maxsize=_CACHED_VALUES_MAX)
def _classify_short(cell: str) -> Fit:
    return _types_of_cell(cell)


def _types_of_cell(cell: str) -> Fit:
    first = cell[0]
    if first not in _FIRST_SIGNS:
        # Most texts: nothing else begins so.
        return _BOOLS if first in "tTfF" and cell.lower() in ("true", "false") else _NOTHING
    if cell[4:5] == "-" and cell[:4].isdecimal():
        return _interned(False, False, False, *_times(cell))
    return _interned(False, _WHOLE.fullmatch(cell) is not None and int(cell) in _INT64, _is_number(cell), False, False)


def _classify_json(value: Value) -> Fit | None:
    match value:
        case None:
            return None
        case bool():
            return _interned(True, False, False, False, False)
        case int():
            return _interned(False, value in _INT64, abs(value) <= EXACT_FLOATS, False, False)
        case float():
            return _interned(False, False, math.isfinite(value), False, False)
        case str():
            return _interned(False, False, False, *_times(value))
        case _:
            return _interned(False, False, False, False, False)


@cache
def _interned(*has: bool) -> Fit:
    return frozenset(kind for kind, is_so in zip(_NARROW, has, strict=True) if is_so)


def _times(text: str) -> tuple[bool, bool]:
    """Whether it is a date, and whether it is a time."""
    is_date = _DATE.fullmatch(text) is not None and _is_date(text)
    found = None if is_date else _TIME.fullmatch(text)
    return is_date, is_date or (found is not None and _is_date(found["day"]))


def _is_number(cell: str) -> bool:
    if _NUMBER.fullmatch(cell) is None:
        return False
    if cell.lstrip("-").isdecimal():
        return len(cell) <= _EXACT_CHARACTERS_MAX and abs(int(cell)) <= EXACT_FLOATS
    return math.isfinite(float(cell))


def _is_date(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


class WantedType(Enum):
    """Kinds of types that a reader is asked to make of values.

    ANY is left to the reader.
    """

    BOOL = "truth values"
    WHOLE = "integers"
    NUMBER = "numbers"
    DATE = "dates"
    TIME = "times"
    TEXT = "texts"
    ANY = "anything"


@dataclass(frozen=True, slots=True)
class WantedColumn:
    """What a column is read as; `within` bounds integers.

    Without `is_optional` every row has a value.
    """

    name: str
    type: WantedType
    is_optional: bool
    within: range = _INT64


@dataclass(frozen=True, slots=True)
class RefusedValue:
    """A value that does not fit its column; its line, column, and what was wanted.

    None where a value is missing.
    """

    line: int
    column: str
    value: str | None
    wanted: WantedType


def refused_values(batch: RowBatch, wanted: Sequence[WantedColumn], *, cells: bool) -> Iterator[RefusedValue]:
    """What of some rows a reader refuses, by line."""
    found: list[RefusedValue] = []
    for column in wanted:
        values = batch.columns.get(column.name)
        is_taken = _reader(column, cells=cells)
        for line, value in zip(batch.lines, values or [None] * len(batch.lines), strict=True):
            is_missing = value is None or (cells and not value)
            if is_missing and not column.is_optional:
                found.append(RefusedValue(line, column.name, None, column.type))
            elif not is_missing and not is_taken(value):
                found.append(RefusedValue(line, column.name, shown(value), column.type))
    yield from sorted(found, key=lambda each: each.line)


def _reader(column: WantedColumn, *, cells: bool) -> Callable[[Value], bool]:
    def is_whole(value: Value) -> bool:
        if cells:
            found = _TAKEN_WHOLE.fullmatch(str(value))
            return found is not None and len(found[1]) < _DIGITS_MAX and int(found[1]) in column.within
        if isinstance(value, float):
            return abs(value) <= EXACT_FLOATS and value.is_integer() and int(value) in column.within
        return isinstance(value, int) and not isinstance(value, bool) and value in column.within

    readers: dict[WantedType, Callable[[Value], bool]] = {
        WantedType.BOOL: _takes_cell_as_bool if cells else lambda value: isinstance(value, bool),
        WantedType.WHOLE: is_whole,
        WantedType.NUMBER: _takes_cell_as_number if cells else _takes_as_number,
        WantedType.DATE: lambda value: isinstance(value, str) and _times(value)[0],
        WantedType.TIME: lambda value: isinstance(value, str) and _times(value)[1],
        WantedType.TEXT: lambda value: isinstance(value, str),
        WantedType.ANY: lambda _: True,
    }
    return readers[column.type]


def _takes_cell_as_bool(value: Value) -> bool:
    return str(value).lower() in ("true", "false")


def _takes_cell_as_number(value: Value) -> bool:
    text = str(value)
    is_number = _TAKEN_NUMBER.fullmatch(text) is not None and math.isfinite(float(text))
    return is_number or text.lower() in _NO_NUMBERS


def _takes_as_number(value: Value) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(float(value)) and (isinstance(value, float) or int(float(value)) == value)
    except OverflowError:
        return False
