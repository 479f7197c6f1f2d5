"""Instants of time with nanoseconds, always UTC.

Owns the one representation of time in the library. Blocks carry nanoseconds and years beyond those of `datetime`, so an
instant is an integer and never passes through `datetime` on its way to or from a block.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

NANOS_PER_SECOND = 1_000_000_000
NANOS_PER_MILLI = 1_000_000
SECONDS_PER_DAY = 86_400

_RFC3339 = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})[Tt ](\d{2}):(\d{2}):(\d{2})(?:\.(\d{1,9}))?(?:([Zz])|([+-])(\d{2}):(\d{2}))", re.ASCII
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
        """From RFC 3339 text with any offset. Raises ValueError for anything else, leap seconds included."""
        match = _RFC3339.fullmatch(text)
        if match is None:
            raise ValueError(f"not an RFC 3339 timestamp: {text!r}")
        year, month, day, hour, minute, second = (int(g) for g in match.group(1, 2, 3, 4, 5, 6))
        base = cls.from_datetime(datetime(year, month, day, hour, minute, second, tzinfo=UTC)).epoch_ns
        nanos = int((match[7] or "").ljust(9, "0"))
        offset = 0
        if match[9]:
            hours, minutes = int(match[10]), int(match[11])
            if hours > 23 or minutes > 59:
                raise ValueError(f"offset out of range: {text!r}")
            offset = (hours * 3600 + minutes * 60) * (1 if match[9] == "+" else -1)
        return cls(base + nanos - offset * NANOS_PER_SECOND)

    @property
    def millis(self) -> int:
        """Milliseconds since the epoch, rounded down."""
        return self.epoch_ns // NANOS_PER_MILLI

    def truncated_to_millis(self) -> Instant:
        """The same instant without its sub-millisecond digits, as data columns hold it."""
        return Instant.from_millis(self.millis)

    def to_datetime(self) -> datetime:
        """As an aware datetime, cut to microseconds. Raises OverflowError outside years 1 to 9999."""
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
        """RFC 3339 with `Z` and 0, 3, 6 or 9 fraction digits, whichever is the shortest exact one."""
        moment = self.to_datetime()
        nanos = self.epoch_ns % NANOS_PER_SECOND
        text = f"{moment.year:04d}-{moment:%m-%dT%H:%M:%S}"
        for digits in (0, 3, 6, 9):
            if nanos % 10 ** (9 - digits) == 0:
                fraction = f".{nanos // 10 ** (9 - digits):0{digits}d}" if digits else ""
                return f"{text}{fraction}Z"
        raise AssertionError("nine digits are always exact")
