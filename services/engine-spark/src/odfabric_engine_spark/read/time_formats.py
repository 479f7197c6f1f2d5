"""Formats of dates and timestamps in texts: `rfc3339` and strftime.

Owns what a format admits and which value a text has, once for Python (`value`) and once for Spark (`spark_value`); a test
holds both together. Invariant: a text has exactly one value or none: days that do not exist, second 60 and hour 24 are
refused; a text without offset is UTC; digits below the millisecond are cut, as slices hold milliseconds. Source: RULINGS 24,
specification facts, "Ingestion" 5 and 10.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cached_property

from pyspark.sql import Column
from pyspark.sql import functions as F

from odfabric.errors import InvalidManifest, Place

RFC3339 = "rfc3339"
EPOCH = date(1970, 1, 1)
MILLIS_PER_SECOND = 1000
MILLIS_PER_DAY = 86_400_000

_MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()  # noqa: SIM905
_MONTHS_FULL = "January February March April May June July August September October November December".split()  # noqa: SIM905
_DAYS = "Mon|Tue|Wed|Thu|Fri|Sat|Sun"
_DAYS_FULL = "Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday"
_YEAR = r"(000[1-9]|00[1-9]\d|0[1-9]\d\d|[1-9]\d{3})"
_OFFSET = r"(Z|[+-](?:[01]\d|2[0-3]):?[0-5]\d)"

# Directive: name of the group and its pattern. Numbers may lack leading zeros, as strptime has it.
_DIRECTIVES = {
    "Y": ("year", _YEAR),
    "y": ("year_of_century", r"(\d{2})"),
    "m": ("month", r"(1[0-2]|0?[1-9])"),
    "d": ("day", r"(3[01]|[12]\d|0?[1-9])"),
    "e": ("day", r" ?(3[01]|[12]\d|[1-9])"),
    "j": ("day_of_year", r"(\d{1,3})"),
    "b": ("month_name", f"({'|'.join(_MONTHS)})"),
    "h": ("month_name", f"({'|'.join(_MONTHS)})"),
    "B": ("month_name", f"({'|'.join(_MONTHS_FULL)})"),
    "a": (None, f"(?:{_DAYS})"),
    "A": (None, f"(?:{_DAYS_FULL})"),
    "H": ("hour", r"(2[0-3]|1\d|0?\d)"),
    "I": ("hour_of_half", r"(1[0-2]|0?[1-9])"),
    "p": ("half", r"(AM|PM|am|pm)"),
    "P": ("half", r"(AM|PM|am|pm)"),
    "M": ("minute", r"([0-5]?\d)"),
    "S": ("second", r"([0-5]?\d)"),
    "f": ("fraction", r"(\d{1,9})"),
    "3f": ("fraction", r"(\d{3})"),
    "6f": ("fraction", r"(\d{6})"),
    "9f": ("fraction", r"(\d{9})"),
    ".f": ("fraction", r"(?:\.(\d{1,9}))?"),
    ".3f": ("fraction", r"\.(\d{3})"),
    ".6f": ("fraction", r"\.(\d{6})"),
    ".9f": ("fraction", r"\.(\d{9})"),
    "z": ("offset", _OFFSET),
    ":z": ("offset", _OFFSET),
    "Z": (None, "(?:UTC|GMT|Z)"),
    "s": ("epoch", r"(-?\d{1,12})"),
    "%": (None, "%"),
}
_COMPOUND = {"F": "%Y-%m-%d", "T": "%H:%M:%S", "R": "%H:%M", "D": "%m/%d/%y", "n": "\n", "t": "\t"}
_DIRECTIVE = re.compile(r"%(\.?[369]?f|:?z|[A-Za-z%])")

_DATE_PATTERN = rf"{_YEAR}-(\d{{2}})-(\d{{2}})"
_TIMESTAMP_PATTERN = (
    rf"{_DATE_PATTERN}(?:[Tt ]([01]\d|2[0-3]):([0-5]\d):([0-5]\d)(?:\.(\d{{1,9}}))?"
    r" ?([Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)?)?"
)


@dataclass(frozen=True)
class TimeFormat:
    """How texts of one column are read; `groups` names the groups of `pattern` in order.

    The pattern means the same to Python and to Java: ASCII digits, no names, no look-around.
    """

    text: str
    pattern: str
    groups: tuple[str, ...]
    castable: bool = False
    """Whether Spark's own cast gives the value of every text that the pattern admits."""

    @cached_property
    def _compiled(self) -> re.Pattern[str]:
        return re.compile(self.pattern, re.ASCII)

    def millis(self, text: str) -> int | None:
        """Milliseconds since the epoch; None if the text does not fit."""
        found = self._found(text)
        if found is None:
            return None
        if "epoch" in found:
            return int(found["epoch"]) * MILLIS_PER_SECOND
        day = _day(found)
        if day is None:
            return None
        seconds = _hour(found) * 3600 + int(found.get("minute", 0)) * 60 + int(found.get("second", 0))
        millis = int(found.get("fraction", "").ljust(3, "0")[:3])
        offset_s = _offset_s(found.get("offset", "Z"))
        return (day - EPOCH).days * MILLIS_PER_DAY + (seconds - offset_s) * MILLIS_PER_SECOND + millis

    def days(self, text: str) -> int | None:
        """Days since the epoch; None if the text does not fit."""
        found = self._found(text)
        day = _day(found) if found is not None else None
        return None if day is None else (day - EPOCH).days

    def _found(self, text: str) -> dict[str, str] | None:
        match = self._compiled.fullmatch(text)
        if match is None:
            return None
        return {name: value for name, value in zip(self.groups, match.groups(), strict=True) if value is not None}

    def spark_timestamp(self, text: Column) -> Column:
        """As `millis`, for Spark: a timestamp of whole milliseconds, null if the text does not fit."""
        fits = self._fits(text)
        if self.castable:
            return F.when(fits, whole_millis(F.upper(text).try_cast("timestamp")))
        if "epoch" in self.groups:
            return F.when(fits, F.timestamp_seconds(self._group(text, "epoch").cast("bigint")))
        fraction = F.rpad(self._group(text, "fraction"), 3, "0") if "fraction" in self.groups else F.lit("000")
        clock = F.concat_ws(":", self._spark_hour(text), self._two(text, "minute"), self._two(text, "second"))
        zone = (
            F.coalesce(F.nullif(self._group(text, "offset"), F.lit("")), F.lit("Z"))
            if "offset" in self.groups
            else F.lit("Z")
        )
        # Spark's cast wants a colon in the offset.
        zone = F.regexp_replace(zone, r"^([+-]\d\d):?(\d\d)$", "$1:$2")
        whole = F.concat(self._spark_day(text), F.lit(" "), clock, F.lit("."), F.substring(fraction, 1, 3), zone)
        return F.when(fits, whole.try_cast("timestamp"))

    def spark_date(self, text: Column) -> Column:
        """As `days`, for Spark: a date, null if the text does not fit."""
        day = F.substring(text, 1, 10) if self.castable else self._spark_day(text)
        return F.when(self._fits(text), day.try_cast("date"))

    def _fits(self, text: Column) -> Column:
        return F.rlike(text, F.lit(f"^(?:{self.pattern})\\z"))

    def _group(self, text: Column, name: str) -> Column:
        return F.regexp_extract(text, f"^(?:{self.pattern})\\z", self.groups.index(name) + 1)

    def _two(self, text: Column, name: str) -> Column:
        return F.lpad(self._group(text, name), 2, "0") if name in self.groups else F.lit("00")

    def _spark_hour(self, text: Column) -> Column:
        if "hour" in self.groups:
            return self._two(text, "hour")
        if "hour_of_half" not in self.groups:
            return F.lit("00")
        hour = self._group(text, "hour_of_half").cast("int") % 12
        after_noon = F.lower(self._group(text, "half")) == "pm" if "half" in self.groups else F.lit(False)
        return F.lpad(F.when(after_noon, hour + 12).otherwise(hour).cast("string"), 2, "0")

    def _spark_day(self, text: Column) -> Column:
        year = self._group(text, "year") if "year" in self.groups else self._spark_century(text)
        if "day_of_year" in self.groups:
            number = self._group(text, "day_of_year").cast("int")
            day = F.date_add(F.concat(year, F.lit("-01-01")).try_cast("date"), number - 1)
            return F.when((number > 0) & (F.year(day).cast("string") == F.ltrim(year, F.lit("0"))), day.cast("string"))
        if "month_name" in self.groups:
            names = F.array(*(F.lit(name) for name in _MONTHS))
            position = F.array_position(names, F.substring(self._group(text, "month_name"), 1, 3))
            month = F.lpad(position.cast("string"), 2, "0")
        else:
            month = self._two(text, "month") if "month" in self.groups else F.lit("01")
        return F.concat_ws("-", year, month, self._two(text, "day") if "day" in self.groups else F.lit("01"))

    def _spark_century(self, text: Column) -> Column:
        short = self._group(text, "year_of_century")
        return F.concat(F.when(short.cast("int") < _CENTURY_TURN, F.lit("20")).otherwise(F.lit("19")), short)


_CENTURY_TURN = 69
"""Two-digit years from here on are of the 20th century, as POSIX has it."""

_RFC3339_DATE = TimeFormat(RFC3339, _DATE_PATTERN, ("year", "month", "day"), castable=True)
_RFC3339_TIMESTAMP = TimeFormat(
    RFC3339,
    _TIMESTAMP_PATTERN,
    ("year", "month", "day", "hour", "minute", "second", "fraction", "offset"),
    castable=True,
)


def date_format(text: str | None, *, option: str = "dateFormat") -> TimeFormat:
    """The format of dates. Raises InvalidManifest for a directive that is not known."""
    return _RFC3339_DATE if text in (None, RFC3339) else _strftime(text, option, needs_day=True)


def timestamp_format(text: str | None, *, option: str = "timestampFormat") -> TimeFormat:
    """The format of timestamps. Raises InvalidManifest for a directive that is not known."""
    return _RFC3339_TIMESTAMP if text in (None, RFC3339) else _strftime(text, option, needs_day=False)


def whole_millis(timestamp: Column) -> Column:
    """The same time without its digits below the millisecond."""
    return F.timestamp_millis(F.unix_millis(timestamp))


def _strftime(text: str, option: str, *, needs_day: bool) -> TimeFormat:
    expanded = re.sub(r"%([FTRDnt])", lambda match: _COMPOUND[match[1]], text)
    pattern, groups, position = "", list[str](), 0
    while position < len(expanded):
        match = _DIRECTIVE.match(expanded, position)
        if expanded[position] != "%":
            pattern += re.escape(expanded[position])
            position += 1
        elif match is None or match[1] not in _DIRECTIVES:
            raise _refused(option, text, f"`{expanded[position : position + 2]}` is not a known directive")
        else:
            group, part = _DIRECTIVES[match[1]]
            if group in groups:
                raise _refused(option, text, f"`{match[0]}` says again what another directive says")
            groups += [group] if group else []
            pattern += part
            position = match.end()
    known = {"year", "year_of_century"} & set(groups) or ("epoch" in groups and not needs_day)
    if not known:
        raise _refused(option, text, "it does not say the year")
    return TimeFormat(text, pattern, tuple(groups))


def _refused(option: str, text: str, reason: str) -> InvalidManifest:
    known = " ".join(f"%{name}" for name in (*_DIRECTIVES, *_COMPOUND))
    return InvalidManifest(f"{option} `{text}`: {reason}", place=Place(field=option), hint=f"known: rfc3339, {known}")


def _day(found: dict[str, str]) -> date | None:
    try:
        if "day_of_year" in found:
            day = date(_year(found), 1, 1) + timedelta(days=int(found["day_of_year"]) - 1)
            return day if day.year == _year(found) else None
        named = found.get("month_name")
        month = _MONTHS.index(named[:3]) + 1 if named else int(found.get("month", 1))
        return date(_year(found), month, int(found.get("day", 1)))
    except (ValueError, OverflowError):
        return None


def _year(found: dict[str, str]) -> int:
    if "year" in found:
        return int(found["year"])
    short = int(found["year_of_century"])
    return short + (2000 if short < _CENTURY_TURN else 1900)


def _hour(found: dict[str, str]) -> int:
    if "hour_of_half" in found:
        return int(found["hour_of_half"]) % 12 + (12 if found.get("half", "am").lower() == "pm" else 0)
    return int(found.get("hour", 0))


def _offset_s(text: str) -> int:
    if text in "Zz":
        return 0
    digits = text[1:].replace(":", "")
    return (int(digits[:2]) * 3600 + int(digits[2:]) * 60) * (1 if text[0] == "+" else -1)
