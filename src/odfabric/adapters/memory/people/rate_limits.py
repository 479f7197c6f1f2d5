"""Rate limits within one process: for nodes without Redis, and while it is away.

Owns one queue of times for each key. Invariant: no more than `keys_max` keys are remembered; beyond that the one is forgotten that was
asked for the longest time ago, so anyone who keeps trying stays counted.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic

_SWEPT_AT_ONCE = 2
"""Old keys that each call looks at: more than it adds, so that they go in time."""


@dataclass(slots=True)
class _Window:
    """When those were let through that still count, oldest first."""

    window_s: int
    times: deque[float] = field(default_factory=deque)

    def drop_until(self, now: float) -> None:
        while self.times and self.times[0] + self.window_s <= now:
            self.times.popleft()


class MemoryRateLimits:
    """A RateLimits. Safe for use by many threads."""

    def __init__(self, *, keys_max: int, seconds: Callable[[], float] = monotonic) -> None:
        """`seconds` is a clock that never goes back."""
        self._keys_max = keys_max
        self._seconds = seconds
        self._windows: OrderedDict[str, _Window] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """How many keys are remembered."""
        return len(self._windows)

    def take(self, key: str, *, limit: int, window_s: int) -> float | None:
        """See the port."""
        with self._lock:
            now = self._seconds()
            self._sweep(now)
            window = self._windows.setdefault(key, _Window(window_s))
            self._windows.move_to_end(key)
            window.window_s = window_s
            window.drop_until(now)
            if len(window.times) >= limit:
                return window.times[-limit] + window_s - now
            window.times.append(now)
            if len(self._windows) > self._keys_max:
                self._windows.popitem(last=False)
            return None

    def reset(self, key: str) -> None:
        """See the port."""
        with self._lock:
            self._windows.pop(key, None)

    def _sweep(self, now: float) -> None:
        for key, window in [item for item, _ in zip(self._windows.items(), range(_SWEPT_AT_ONCE), strict=False)]:
            window.drop_until(now)
            if not window.times:
                del self._windows[key]
