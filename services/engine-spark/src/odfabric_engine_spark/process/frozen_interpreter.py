"""Ends a process whose interpreter stands still.

Owns the watch over it. Deadlines are kept by threads of Python, and what holds the interpreter (a search for a pattern, a loop in C) holds
them all. Invariant: a process that says too long no longer that it moves is ended by a thread that needs no interpreter, with exit code 1 and
what each thread was doing on its standard error. Not here: calls that take too long while others go on (`running_calls`).
"""

from __future__ import annotations

import faulthandler
import sys
import time

_OF_WATCH = 8
"""The watch begins again so many times in its length: each time costs the start of a thread."""


class FrozenWatch:
    """Begins when it is made, unless it has no length.

    From then on `moves` has to be called until its end.

    A process that is stopped for longer, with its clock going on, is ended when it goes on.
    """

    def __init__(self, seconds_max: float) -> None:
        self._seconds_max = seconds_max
        self._begun = -seconds_max
        self.moves()

    def moves(self) -> None:
        """The interpreter has come to this place."""
        now = time.monotonic()
        if self._seconds_max > 0 and now - self._begun > self._seconds_max / _OF_WATCH:
            self._begun = now
            faulthandler.dump_traceback_later(self._seconds_max, exit=True, file=sys.stderr)

    def end(self) -> None:
        """What follows has limits of its own."""
        faulthandler.cancel_dump_traceback_later()
