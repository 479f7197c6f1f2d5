"""The one hint of a transform: how late a row may be before it is dropped.

Owns the reading of `lateness('1 day')`. Not here: what late means (`incremental`). Source: ruling on steps and lateness.
"""

from __future__ import annotations

import re

LATENESS_HINT = "lateness"

_UNITS_US = {
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}
_PART = r"(\d{1,9})\s*(second|minute|hour|day|week)s?"
_WHOLE = re.compile(rf"\s*{_PART}(?:\s+{_PART})*\s*", re.IGNORECASE | re.ASCII)


def parse_lateness(parameters: list[object]) -> int | None:
    """Microseconds that the parameters of the hint mean, None if they mean nothing."""
    if len(parameters) != 1 or not isinstance(parameters[0], str) or not _WHOLE.fullmatch(parameters[0]):
        return None
    parts = re.findall(_PART, parameters[0], re.IGNORECASE | re.ASCII)
    return sum(int(number) * _UNITS_US[unit.lower()] for number, unit in parts)
