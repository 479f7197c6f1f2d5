"""Durations as people write them: a number and a unit."""

from __future__ import annotations

import re

from odfabric.errors import InvalidRequest

_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_DURATION = re.compile(r"(\d{1,9})\s*([smhdw])", re.ASCII)
DURATION_HINT = "write a number and a unit: s, m, h, d or w, such as `15m`"


def parse_duration(text: str) -> int:
    """Seconds of `90s`, `15m`, `1h`, `2d` or `1w`. Raises InvalidRequest."""
    match = _DURATION.fullmatch(text.strip().lower())
    if match is None:
        raise InvalidRequest(f"`{text[:50]}` is no duration", hint=DURATION_HINT)
    return int(match[1]) * _UNITS_S[match[2]]


def duration_text(seconds: int) -> str:
    """The shortest exact text of a duration that `parse_duration` reads."""
    unit, size = next((pair for pair in reversed(_UNITS_S.items()) if seconds % pair[1] == 0 and seconds), ("s", 1))
    return f"{seconds // size}{unit}"
