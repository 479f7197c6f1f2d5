"""Progress of a transfer in one line, with a bar on a terminal.

The line shows bytes, objects, rate and remaining time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

BAR_CHARACTERS = 20
BAR_CHARACTERS_MIN = 5
RATE_WINDOW_S = 10.0
"""The rate is that of the last seconds, so that a pause shows."""
_UNITS = ("B", "kB", "MB", "GB", "TB")


class ProgressLines:
    """Turns progress documents of a job into lines."""

    def __init__(self, *, columns: Callable[[], int] | None, seconds: Callable[[], float] = time.monotonic) -> None:
        """`columns` is the width of the terminal, None for a pipe.

        `seconds` is a clock that only moves forward.
        """
        self._columns = columns
        self._seconds = seconds
        self._seen: list[tuple[float, int]] = []

    def line(self, progress: Mapping[str, object]) -> str:
        """The line of a progress document."""
        stage, done, total = progress.get("stage", "waiting"), progress.get("done"), progress.get("total")
        if progress.get("unit") != "bytes" or not isinstance(done, int) or not isinstance(total, int):
            self._seen.clear()
            return f"{stage}" + (f" {done}/{total}" if total else "")
        parts = [str(stage), f"{sized(done)} of {sized(total)}"]
        rate = self._rate(done)
        if rate:
            parts.append(f"{sized(int(rate))}/s")
            if total > done:
                parts.append(f"{lasting((total - done) / rate)} left")
        if self._columns is not None and total:
            # The bar gives way to what it stands for: a terminal has 80 columns, and the last one stays free.
            room = self._columns() - 1 - len("  ".join(parts)) - len("[]  ")
            if room >= BAR_CHARACTERS_MIN:
                parts.insert(1, bar(done, total, characters=min(room, BAR_CHARACTERS)))
        return "  ".join(parts)

    def _rate(self, done: int) -> float:
        """Bytes per second of late; 0 while nothing is known."""
        now = self._seconds()
        if self._seen and done < self._seen[-1][1]:
            self._seen.clear()
        self._seen.append((now, done))
        while len(self._seen) > 2 and now - self._seen[0][0] > RATE_WINDOW_S:
            self._seen.pop(0)
        since, before = self._seen[0]
        return (done - before) / (now - since) if now > since else 0.0


def bar(done: int, total: int, *, characters: int = BAR_CHARACTERS) -> str:
    """A bar of a length."""
    filled = characters * min(done, total) // max(total, 1)
    return f"[{'#' * filled}{'-' * (characters - filled)}]"


def sized(count: int) -> str:
    """Bytes in a unit that leaves at most four digits."""
    value, unit = float(count), 0
    while value >= 1000 and unit < len(_UNITS) - 1:
        value, unit = value / 1000, unit + 1
    return f"{value:.0f} {_UNITS[unit]}" if unit == 0 or value >= 100 else f"{value:.1f} {_UNITS[unit]}"


def lasting(seconds: float) -> str:
    """Minutes and seconds, with hours if there are some."""
    whole = round(seconds)
    hours, minutes = whole // 3600, whole % 3600 // 60
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"
