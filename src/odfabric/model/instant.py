"""Instants of time with nanoseconds, always UTC.

Owns the one representation of time in the library. Blocks carry nanoseconds and years beyond those of `datetime`, so an
instant is an integer and never passes through `datetime` on its way to or from a block. Texts are RFC 3339; a year outside
0 to 9999, which a block may hold, is written with its sign as in ISO 8601 (`+52020-01-01T00:00:00Z`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time

NANOS_PER_SECOND = 1_000_000_000
NANOS_PER_MILLI = 1_000_000
SECONDS_PER_DAY = 86_400
NANOS_PER_DAY = SECONDS_PER_DAY * NANOS_PER_SECOND

# The Gregorian calendar repeats itself: other years are moved by whole cycles into those that `date` knows.
_CYCLE_YEARS = 400
_CYCLE_DAYS = 146_097
_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()

_RFC3339 = re.compile(
    r"(\d{4}|[+-]\d{4,10})-(\d{2})-(\d{2})[Tt ](\d{2}):(\d{2}):(\d{2})(?:\.(\d{1,9}))?(?:([Zz])|([+-])(\d{2}):(\d{2}))",
    re.ASCII,
)


@dataclass(frozen=True, slots=True, order=True)
class Instant:
    """Nanoseconds since 1970-01-01T00:00:00Z; negative before it."""

    epoch_ns: int

    @classmethod
    def from_millis(cls, millis: int) -> Instant:
        """From milliseconds since the epoch."""
        return cls(millis * NANOS_PER_MILLI)

    @classmethod
    def from_datetime(cls, moment: datetime) -> Instant:
        """From an aware datetime. Raises ValueError for a naive one."""
        if moment.tzinfo is None:
            raise ValueError("a naive datetime has no instant")
        delta = moment.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)
        return cls((delta.days * SECONDS_PER_DAY + delta.seconds) * NANOS_PER_SECOND + delta.microseconds * 1000)

    @classmethod
    def parse(cls, text: str) -> Instant:
        """From RFC 3339 text with any offset.

        Raises ValueError for anything else, leap seconds included.
        """
        match = _RFC3339.fullmatch(text)
        if match is None:
            raise ValueError(f"not an RFC 3339 timestamp: {text!r}")
        cycles, year = divmod(int(match[1]) - 1, _CYCLE_YEARS)
        day = date(year + 1, int(match[2]), int(match[3])).toordinal() + cycles * _CYCLE_DAYS - _EPOCH_ORDINAL
        clock = time(int(match[4]), int(match[5]), int(match[6]))
        base = (day * SECONDS_PER_DAY + clock.hour * 3600 + clock.minute * 60 + clock.second) * NANOS_PER_SECOND
        nanos = int((match[7] or "").ljust(9, "0"))
        offset = 0
        if match[9]:
            hours, minutes = int(match[10]), int(match[11])
            if hours > 23 or minutes > 59:
                raise ValueError(f"offset out of range: {text!r}")
            offset = (hours * 3600 + minutes * 60) * (1 if match[9] == "+" else -1)
        return cls(base + nanos - offset * NANOS_PER_SECOND)

    @classmethod
    def from_year_day(cls, *, year: int, ordinal: int, second: int, nanos: int) -> Instant:
        """From year, day of the year (1 = 1 January), second of the day, nanoseconds.

        Raises ValueError if one of them is out of range.
        """
        cycles, in_cycle = divmod(year - 1, _CYCLE_YEARS)
        first = date(in_cycle + 1, 1, 1).toordinal()
        leap = in_cycle % 4 == 3 and (in_cycle % 100 != 99 or in_cycle == _CYCLE_YEARS - 1)
        if not (1 <= ordinal <= 365 + leap and 0 <= second < SECONDS_PER_DAY and 0 <= nanos < NANOS_PER_SECOND):
            raise ValueError(f"year {year}, day {ordinal}, second {second}, {nanos} ns is not an instant")
        days = first + ordinal - 1 + cycles * _CYCLE_DAYS - _EPOCH_ORDINAL
        return cls((days * SECONDS_PER_DAY + second) * NANOS_PER_SECOND + nanos)

    def year_day(self) -> tuple[int, int]:
        """The year and the day within it, 1 being 1 January."""
        day, cycles = self._calendar_day()
        return day.year + cycles * _CYCLE_YEARS, day.toordinal() - date(day.year, 1, 1).toordinal() + 1

    def _calendar_day(self) -> tuple[date, int]:
        """A day of the years 1 to 400, and the 400-year cycles between it and this one."""
        cycles, in_cycle = divmod(self.epoch_ns // NANOS_PER_DAY + _EPOCH_ORDINAL - 1, _CYCLE_DAYS)
        return date.fromordinal(in_cycle + 1), cycles

    @property
    def millis(self) -> int:
        """Milliseconds since the epoch, rounded down."""
        return self.epoch_ns // NANOS_PER_MILLI

    def truncated_to_millis(self) -> Instant:
        """The same instant without its sub-millisecond digits, as data columns hold it."""
        return Instant.from_millis(self.millis)

    def to_datetime(self) -> datetime:
        """As an aware datetime, cut to microseconds.

        Raises OverflowError outside years 1 to 9999.
        """
        seconds, nanos = divmod(self.epoch_ns, NANOS_PER_SECOND)
        days, in_day = divmod(seconds, SECONDS_PER_DAY)
        ordinal = days + datetime(1970, 1, 1, tzinfo=UTC).toordinal()
        try:
            date = datetime.fromordinal(ordinal)
        except (ValueError, OverflowError) as error:
            raise OverflowError(f"{self.epoch_ns} ns is outside years 1 to 9999") from error
        return date.replace(
            hour=in_day // 3600, minute=in_day // 60 % 60, second=in_day % 60, microsecond=nanos // 1000, tzinfo=UTC
        )

    def __str__(self) -> str:
        """RFC 3339 with `Z` and 0, 3, 6 or 9 fraction digits, the shortest exact one."""
        day, cycles = self._calendar_day()
        year = day.year + cycles * _CYCLE_YEARS
        seconds, nanos = divmod(self.epoch_ns % NANOS_PER_DAY, NANOS_PER_SECOND)
        text = f"{year:04d}" if 0 <= year <= 9999 else f"{year:+05d}"
        text += f"-{day.month:02d}-{day.day:02d}T{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
        for digits in (0, 3, 6, 9):
            if nanos % 10 ** (9 - digits) == 0:
                fraction = f".{nanos // 10 ** (9 - digits):0{digits}d}" if digits else ""
                return f"{text}{fraction}Z"
        raise AssertionError("nine digits are always exact")


FIRST_INSTANT = Instant.parse("0001-01-01T00:00:00Z")
LAST_INSTANT = Instant.parse("9999-12-31T23:59:59.999999999Z")
"""The years of RFC 3339 that calendars know as well. A block may hold others; what keeps rows or renders them may not."""
