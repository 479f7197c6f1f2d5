"""Being asked to end, by a signal or by a thread.

Owns a flag that a signal handler may set while the main thread waits for it. Invariant: setting it takes no lock. `threading.Event` holds
one at the beginning and at the end of a wait, and a handler that comes just then waits for its own thread, forever. Not here: who
asks, what ending means.
"""

from __future__ import annotations

import math
import os
import select
import weakref
from contextlib import suppress

_MILLIS = 1000


class AskedToEnd:
    """Used as an event that is never cleared."""

    def __init__(self) -> None:
        self._asked = False
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        weakref.finalize(self, _close, self._reader, self._writer)

    def set(self) -> None:
        """Asks. Any thread, and handlers of signals."""
        self._asked = True
        with suppress(BlockingIOError):  # it was asked often enough
            os.write(self._writer, b"\0")

    def is_set(self) -> bool:
        """Whether somebody has asked."""
        return self._asked

    def wait(self, timeout_s: float | None = None) -> bool:
        """Until somebody asks, or so many seconds; whether somebody has."""
        if not self._asked:
            waiting = select.poll()
            # What was written stays there, so that all who wait are woken.
            waiting.register(self._reader, select.POLLIN)
            waiting.poll(None if timeout_s is None else math.ceil(timeout_s * _MILLIS))
        return self._asked


def _close(*descriptors: int) -> None:
    for each in descriptors:
        os.close(each)
