"""Times as people write them: a duration such as `30d`, a date, an RFC 3339 time.

Owns the grammar: a number and `h`, `d` or `w`; `2027-01-31` is the first moment of that day (UTC).
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

from odfabric.errors import InvalidRequest, Place
from odfabric.model.instant import NANOS_PER_SECOND, Instant

NEVER = "never"

_DURATION = re.compile(r"([1-9]\d{0,4})([hdw])", re.ASCII)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_HOURS = {"h": 1, "d": 24, "w": 7 * 24}


def now() -> Instant:
    """By this machine's clock."""
    return Instant.from_datetime(datetime.now(UTC))


def time_after(text: str, *, begin: Instant, field: str) -> Instant | None:
    """The time that a text names, a duration after `begin`; None for `never`.

    Raises InvalidRequest.
    """
    if text == NEVER:
        return None
    return _named(text, begin, 1, field, hint="e.g. 30d, 12h, 2027-01-31 or never")


def time_before(text: str, *, begin: Instant, field: str) -> Instant:
    """The time that a text names, a duration before `begin`. Raises InvalidRequest."""
    return _named(text, begin, -1, field, hint="e.g. 24h, 7d or 2026-01-31T12:00:00Z")


def _named(text: str, begin: Instant, direction: int, field: str, *, hint: str) -> Instant:
    duration = _DURATION.fullmatch(text)
    if duration is not None:
        seconds = int(duration[1]) * _HOURS[duration[2]] * 3600
        return Instant(begin.epoch_ns + direction * seconds * NANOS_PER_SECOND)
    try:
        return Instant.parse(f"{text}T00:00:00Z" if _DATE.fullmatch(text) else text)
    except ValueError:
        raise InvalidRequest(f"not a time: {text}", place=Place(field=field), hint=hint) from None
