"""Formats of dates and timestamps in texts: `rfc3339` and strftime.

Owns what a format admits and which value a text has; the engine has the same for Spark, and a test holds both together.
Invariant: a text has exactly one value or none: days that do not exist, second 60 and hour 24 are refused; a text without
offset is UTC; digits below the millisecond are cut, as slices hold milliseconds. Not here: which format a text seems to have
(`time_guess`). Source: ADR 0019.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cached_property

from odfabric.errors import InvalidManifest, Place
from odfabric.formats.files.java_time_letters import strftime_of_java

RFC3339 = "rfc3339"
EPOCH = date(1970, 1, 1)
MILLIS_PER_SECOND = 1000
MILLIS_PER_DAY = 86_400_000
CENTURY_TURN = 69
"""Two-digit years from here on are of the 20th century, as POSIX has it."""
_NOON = 12

MONTHS = tuple("Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split())  # noqa: SIM905
_MONTHS_FULL = "January February March April May June July August September October November December".split()  # noqa: SIM905
_DAYS = "Mon|Tue|Wed|Thu|Fri|Sat|Sun"
_DAYS_FULL = "Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday"
_YEAR = r"(000[1-9]|00[1-9]\d|0[1-9]\d\d|[1-9]\d{3})"
OFFSET_PATTERN = r"[+-](?:(?:0\d|1[0-7])(?::?[0-5]\d)?|18(?::?00)?)"
"""Offsets up to 18 hours, as clocks have them, with or without minutes and colon."""

# Directive: name of the group and its pattern. Numbers may lack leading zeros, names may be in capitals, as strptime has it.
_DIRECTIVES = {
    "Y": ("year", _YEAR),
    "y": ("year_of_century", r"(\d{2})"),
    "m": ("month", r"(1[0-2]|0?[1-9])"),
    "d": ("day", r"(3[01]|[12]\d|0?[1-9])"),
    "e": ("day", r" ?(3[01]|[12]\d|[1-9])"),
    "j": ("day_of_year", r"(\d{1,3})"),
    "G": ("iso_year", _YEAR),
    "V": ("iso_week", r"(5[0-3]|[1-4]\d|0[1-9])"),
    "u": ("weekday", "([1-7])"),
    "b": ("month_name", f"((?i:{'|'.join(MONTHS)}))"),
    "h": ("month_name", f"((?i:{'|'.join(MONTHS)}))"),
    "B": ("month_name", f"((?i:{'|'.join(_MONTHS_FULL)}))"),
    "a": (None, f"(?i:{_DAYS})"),
    "A": (None, f"(?i:{_DAYS_FULL})"),
    "H": ("hour", r"(2[0-3]|1\d|0?\d)"),
    "I": ("hour_of_half", r"(1[0-2]|0?[1-9])"),
    "p": ("half", r"((?i:AM|PM))"),
    "P": ("half", r"((?i:AM|PM))"),
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
    "z": ("offset", f"(Z|{OFFSET_PATTERN})"),
    ":z": ("offset", f"(Z|{OFFSET_PATTERN})"),
    "Z": (None, "(?:UTC|GMT|Z)"),
    "s": ("epoch", r"(-?\d{1,12})"),
    "%": (None, "%"),
}
_CALENDAR = {"year", "year_of_century", "month", "month_name", "day", "day_of_year"}
_COMPOUND = {"F": "%Y-%m-%d", "T": "%H:%M:%S", "R": "%H:%M", "D": "%m/%d/%y", "n": "\n", "t": "\t"}
_DIRECTIVE = re.compile(r"%(\.?[369]?f|:?z|[A-Za-z%])")

_DATE_PATTERN = rf"{_YEAR}-(\d{{2}})-(\d{{2}})"
_TIMESTAMP_PATTERN = (
    rf"{_DATE_PATTERN}(?:[Tt ]([01]\d|2[0-3]):([0-5]\d):([0-5]\d)(?:\.(\d{{1,9}}))?"
    rf" ?([Zz]|{OFFSET_PATTERN})?)?"
)


@dataclass(frozen=True)
class TimeFormat:
    """How texts of one column are read.

    `groups` names the groups of `pattern` in order.

    The pattern means the same to Python and to Java: ASCII digits, no names, no look-around.
    """

    text: str
    pattern: str
    groups: tuple[str, ...]

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
        if day is None or not _is_half_true(found):
            return None
        seconds = _hour(found) * 3600 + int(found.get("minute", 0)) * 60 + int(found.get("second", 0))
        millis = int(found.get("fraction", "").ljust(3, "0")[:3])
        offset_s = offset_seconds(found.get("offset", "Z"))
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


RFC3339_DATE = TimeFormat(RFC3339, _DATE_PATTERN, ("year", "month", "day"))
RFC3339_TIMESTAMP = TimeFormat(
    RFC3339, _TIMESTAMP_PATTERN, ("year", "month", "day", "hour", "minute", "second", "fraction", "offset")
)


def rfc3339_groups() -> str:
    """RFC 3339 pattern with named groups, for engines that know `\\A` and `\\z`.

    `clock`, `fraction` and `offset` may be empty; the day may be one that does not exist.
    """
    day = _DATE_PATTERN.replace("(", "(?:").replace("(?:?:", "(?:")
    clock = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
    return rf"\A(?P<day>{day})(?:[Tt ](?P<clock>{clock})(?:\.(?P<fraction>[0-9]{{1,9}}))? ?(?P<offset>[Zz]|{OFFSET_PATTERN})?)?\z"


def date_format(text: str | None, *, option: str = "dateFormat") -> TimeFormat:
    """The format of dates. Raises InvalidManifest as `check_date_format` has it."""
    return RFC3339_DATE if text in (None, RFC3339) else _strftime(text, option, needs_day=True)


def timestamp_format(text: str | None, *, option: str = "timestampFormat") -> TimeFormat:
    """The format of timestamps.

    Raises InvalidManifest as `check_timestamp_format` has it.
    """
    return RFC3339_TIMESTAMP if text in (None, RFC3339) else _strftime(text, option, needs_day=False)


def check_date_format(text: str | None, *, option: str = "dateFormat") -> InvalidManifest | None:
    """Why a format of dates can read nothing, and what to write instead.

    None if it is one. `option` is its place.
    """
    try:
        date_format(text, option=option)
    except InvalidManifest as problem:
        return problem
    return None


def check_timestamp_format(text: str | None, *, option: str = "timestampFormat") -> InvalidManifest | None:
    """Why a format of timestamps can read nothing, and what to write instead.

    None if it is one. `option` is its place.
    """
    try:
        timestamp_format(text, option=option)
    except InvalidManifest as problem:
        return problem
    return None


def _strftime(text: str, option: str, *, needs_day: bool) -> TimeFormat:
    found = _read(text, needs_day=needs_day)
    if isinstance(found, TimeFormat):
        return found
    instead = _translated(text, needs_day=needs_day)
    known = f"known: rfc3339, {' '.join(f'%{name}' for name in (*_DIRECTIVES, *_COMPOUND))}"
    raise InvalidManifest(
        f"{option} `{text}`: {found}",
        place=Place(field=option),
        hint=f"write `{instead}` (strftime); {known}" if instead else known,
    )


def _translated(text: str, *, needs_day: bool) -> str | None:
    """The format in our directives, if it is in letters of Java and moment.js."""
    instead = None if "%" in text else strftime_of_java(text)
    return instead if instead and isinstance(_read(instead, needs_day=needs_day), TimeFormat) else None


def _read(text: str, *, needs_day: bool) -> TimeFormat | str:
    """The format, or why it is none."""
    expanded = re.sub(r"%([FTRDnt])", lambda match: _COMPOUND[match[1]], text)
    pattern, groups, position = "", list[str](), 0
    while position < len(expanded):
        match = _DIRECTIVE.match(expanded, position)
        if expanded[position] != "%":
            pattern += re.escape(expanded[position])
            position += 1
        elif match is None or match[1] not in _DIRECTIVES:
            return f"`{expanded[position : position + 2]}` is not a known directive"
        else:
            group, part = _DIRECTIVES[match[1]]
            if group in groups:
                return f"`{match[0]}` says again what another directive says"
            groups += [group] if group else []
            pattern += part
            position = match.end()
    return _missing(text, set(groups), needs_day=needs_day) or TimeFormat(text, pattern, tuple(groups))


def _missing(text: str, groups: set[str], *, needs_day: bool) -> str | None:
    """What a format does not say that a value needs."""
    if not groups and "%" not in text:
        return "it has no directives of strftime, such as %Y"
    if "epoch" in groups and not needs_day:
        return None if groups == {"epoch"} else "%s says all, another directive cannot stand beside it"
    if "hour_of_half" in groups and "half" not in groups:
        return "%I counts to 12, and nothing says which half of the day: write %H, or add %p"
    if {"iso_year", "iso_week", "weekday"} & groups:
        whole = {"iso_year", "iso_week", "weekday"} <= groups and not _CALENDAR & groups
        return None if whole else "%G, %V and %u say a day together, without other directives of the day"
    if not {"year", "year_of_century"} & groups:
        return "it does not say the year"
    if "day" in groups and not {"month", "month_name"} & groups:
        return "it says the day and not the month"
    return None


def _day(found: dict[str, str]) -> date | None:
    try:
        if "iso_year" in found:
            return date.fromisocalendar(*(int(found[part]) for part in ("iso_year", "iso_week", "weekday")))
        if "day_of_year" in found:
            day = date(_year(found), 1, 1) + timedelta(days=int(found["day_of_year"]) - 1)
            return day if day.year == _year(found) else None
        named = found.get("month_name")
        month = MONTHS.index(named[:3].capitalize()) + 1 if named else int(found.get("month", 1))
        return date(_year(found), month, int(found.get("day", 1)))
    except (ValueError, OverflowError):
        return None


def _year(found: dict[str, str]) -> int:
    if "year" in found:
        return int(found["year"])
    short = int(found["year_of_century"])
    return short + (2000 if short < CENTURY_TURN else 1900)


def _hour(found: dict[str, str]) -> int:
    if "hour_of_half" in found:
        return int(found["hour_of_half"]) % 12 + (12 if found.get("half", "am").lower() == "pm" else 0)
    return int(found.get("hour", 0))


def _is_half_true(found: dict[str, str]) -> bool:
    """Whether an hour of 24 is in the half of the day that stands beside it."""
    if "hour" not in found or "half" not in found:
        return True
    return (int(found["hour"]) >= _NOON) == (found["half"].lower() == "pm")


def offset_seconds(text: str) -> int:
    """An offset such as `Z`, `+02` and `-03:30` in seconds."""
    if text in "Zz":
        return 0
    digits = text[1:].replace(":", "").ljust(4, "0")
    return (int(digits[:2]) * 3600 + int(digits[2:]) * 60) * (1 if text[0] == "+" else -1)
