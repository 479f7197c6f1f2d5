"""A bound on how much is done at once, and on how many wait for it.

Owns the counting only. A thread that waits holds a thread of the server, so a queue without a bound would stop everything else.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from odfabric.errors import LimitExceeded

RETRY_AFTER_S = 2
"""When it is worth asking again: a queue of the usual length has moved on."""


class Turns:
    """At most `at_once_max` callers are inside, at most `waiting_max` wait.

    More are refused.
    """

    def __init__(self, *, at_once_max: int, waiting_max: int, limit: str) -> None:
        """`limit` is the name of the setting that says how many may wait."""
        self._free = threading.Semaphore(at_once_max)
        self._places = threading.BoundedSemaphore(at_once_max + waiting_max)
        self._limit, self._waiting_max = limit, waiting_max

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Wait for a turn and have it. Raises LimitExceeded with `retry_after_s`."""
        if not self._places.acquire(blocking=False):
            raise LimitExceeded(
                "too many wait for a password to be checked",
                limit=self._limit,
                maximum=self._waiting_max,
                retry_after_s=RETRY_AFTER_S,
            )
        try:
            with self._free:
                yield
        finally:
            self._places.release()
