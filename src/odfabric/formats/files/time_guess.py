"""What a text that is no time of its column may be, and how such texts are read.

Owns the suggestions of messages. Invariant: a format that is suggested reads the text. Nothing is read by a guess: a text such as
`01/02/2024` has two meanings, and both are named.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from odfabric.formats.files.time_formats import MONTHS, date_format, timestamp_format

_MONTH = "|".join(MONTHS)
_DAY_NAME = r"(?:(?P<weekday>(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)(?P<full>[a-z]*)),? )?"
_DATE = re.compile(
    _DAY_NAME + r"(?:(?P<year>\d{4})(?P<s1>[-/.])\d{1,2}(?P=s1)\d{1,2}"
    r"|\d{1,2}(?P<s2>[-/. ])\d{1,2}(?P=s2)(?P<late_year>\d{4}|\d{2})"
    rf"|\d{{1,2}}(?P<s3>[-/. ]?)(?P<month>{_MONTH})(?P<month_full>[a-z]*)(?P=s3)(?P<named_year>\d{{4}}|\d{{2}})"
    rf"|(?P<first_month>{_MONTH})(?P<first_full>[a-z]*) \d{{1,2}}(?P<comma>,?) \d{{4}}"
    r"|(?P<week>\d{4}-W\d{2}-\d)"
    r"|(?P<compact>\d{8}))",
    re.ASCII | re.IGNORECASE,
)
_CLOCK = re.compile(
    r"(?P<between>T|t| |, |)(?:\d{1,2}:\d{2}(?P<second>:\d{2})?(?P<fraction>[.,]\d{1,9})?|(?P<compact>\d{6})|(?P<short>\d{4}))"
    r"(?P<half> ?[ap]m)?(?P<gap> ?)(?P<zone>Z|[+-]\d{2}(?::?\d{2})?)?",
    re.ASCII | re.IGNORECASE,
)
_EPOCH = re.compile(r"-?\d{9,19}", re.ASCII)
_SECONDS_DIGITS_MAX, _MILLIS_DIGITS_MAX, _MICROS_DIGITS_MAX = 11, 14, 17
_SERIAL = re.compile(r"[2-7]\d{4}(?:\.\d+)?", re.ASCII)


def epoch_function(text: str) -> str | None:
    """The function of Spark that makes a time of a count since 1970 of so many digits.

    None if the text is no such count.
    """
    if not _EPOCH.fullmatch(text):
        return None
    digits = len(text.lstrip("-"))
    if digits <= _SECONDS_DIGITS_MAX:
        return "timestamp_seconds"
    if digits <= _MILLIS_DIGITS_MAX:
        return "timestamp_millis"
    return "timestamp_micros" if digits <= _MICROS_DIGITS_MAX else None


def is_day_serial(text: str) -> bool:
    """Whether a number looks like a spreadsheet's day of the years 1954 to 2119.

    Spreadsheets count days from 30 December 1899.
    """
    return _SERIAL.fullmatch(text) is not None


def formats_of(text: str, *, is_date: bool) -> list[str]:
    """Formats that read a text, of dates or of timestamps.

    Several if it has several meanings, none if none is known.
    """
    date = _DATE.match(text)
    if date is None:
        return []
    clock = _CLOCK.fullmatch(text, date.end()) if date.end() < len(text) else None
    if (clock is None and date.end() < len(text)) or (clock is not None and is_date):
        return []
    rest = _clock_format(clock) if clock is not None else ""
    candidates = dict.fromkeys(f"{day}{rest}" for day in _day_formats(date))
    return [each for each in candidates if _reads(each, text, is_date=is_date)]


def _reads(form: str, text: str, *, is_date: bool) -> bool:
    found = date_format(form).days(text) if is_date else timestamp_format(form).millis(text)
    return found is not None


def _day_formats(date: re.Match[str]) -> Iterator[str]:
    weekday = ""
    if date["weekday"]:
        weekday = ("%A" if date["full"] else "%a") + ("," if "," in date[0][: len(date["weekday"]) + 1] else "") + " "
    if date["year"]:
        yield weekday + date["s1"].join(("%Y", "%m", "%d"))
    elif date["s2"]:
        year = _year(date["late_year"])
        yield weekday + date["s2"].join(("%d", "%m", year))
        yield weekday + date["s2"].join(("%m", "%d", year))
    elif date["month"]:
        month = "%B" if date["month_full"] else "%b"
        yield weekday + date["s3"].join(("%d", month, _year(date["named_year"])))
    elif date["first_month"]:
        yield f"{weekday}{'%B' if date['first_full'] else '%b'} %d{date['comma']} %Y"
    elif date["week"]:
        yield f"{weekday}%G-W%V-%u"
    else:
        yield f"{weekday}%Y%m%d"


def _year(digits: str) -> str:
    return "%Y" if len(digits) == 4 else "%y"


def _clock_format(clock: re.Match[str]) -> str:
    hour = "%I" if clock["half"] else "%H"
    if clock["compact"]:
        text = f"{hour}%M%S"
    elif clock["short"]:
        text = f"{hour}%M"
    else:
        text = f"{hour}:%M" + (":%S" if clock["second"] else "")
    fraction = f"{clock['fraction'][0]}%f" if clock["fraction"] else ""
    half = (" %p" if clock["half"].startswith(" ") else "%p") if clock["half"] else ""
    zone = f"{clock['gap']}%z" if clock["zone"] else ""
    return f"{clock['between']}{text}{fraction}{half}{zone}"
