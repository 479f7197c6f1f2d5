"""Time and chance that a test decides."""

from __future__ import annotations

import threading
from random import Random

from odfabric.model.instant import NANOS_PER_MILLI, Instant


class SettableClock:
    """A Clock that stands still until moved, or moves by `step_ms` after each look."""

    def __init__(self, start: Instant, *, step_ms: int = 0) -> None:
        self._lock = threading.Lock()
        self._now = start
        self._step_ms = step_ms

    def now(self) -> Instant:
        """See the port."""
        with self._lock:
            shown = self._now
            self._now = _later(shown, self._step_ms)
            return shown

    def set(self, moment: Instant) -> None:
        """Jump, also back."""
        with self._lock:
            self._now = moment

    def advance(self, millis: int) -> Instant:
        """Move on; returns the new time."""
        with self._lock:
            self._now = _later(self._now, millis)
            return self._now


class SeededEntropy:
    """An Entropy that repeats itself for equal seeds: never for secrets."""

    def __init__(self, seed: int) -> None:
        self._lock = threading.Lock()
        self._random = Random(seed)

    def random_bytes(self, count: int) -> bytes:
        """See the port."""
        with self._lock:
            return self._random.randbytes(count)


def _later(moment: Instant, millis: int) -> Instant:
    return Instant(moment.epoch_ns + millis * NANOS_PER_MILLI)
