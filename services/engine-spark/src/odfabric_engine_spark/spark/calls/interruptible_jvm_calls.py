"""Questions to the JVM raise once the engine call that asks them must end.

Judging a query is tens of thousands of small questions, of which none takes long and nothing is a job of Spark that could be cancelled.
Owns the check before each of them. Invariants: only the thread of a call that must end is interrupted, and after the first time not again
for a moment, in which it may tidy up; what comes out of a call that was interrupted is no result, no matter who swallowed the interruption. Not
here: why a call must end (`running_calls`), and one question that takes long (the process gives itself up).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from py4j.java_gateway import JavaGateway
from py4j.protocol import MEMORY_COMMAND_NAME

from odfabric_engine_spark.spark.calls.call import StopSignal

_TIDYING_S = 1.0


class Interruption:
    """Whether a call was interrupted, and when."""

    def __init__(self, stop: StopSignal) -> None:
        self._stop = stop
        self._latest: float | None = None

    def check(self) -> None:
        """Raises the reason for which the call must end, if it must and is not tidying up."""
        reason = self._stop.reason
        if reason is None or (self._latest is not None and time.monotonic() - self._latest < _TIDYING_S):
            return
        self._latest = time.monotonic()
        raise reason

    def confirm(self) -> None:
        """Raises the reason if the call was interrupted, however long ago."""
        if self._latest is not None and self._stop.reason is not None:
            raise self._stop.reason


_here = threading.local()


@contextmanager
def interruptible(stop: StopSignal) -> Iterator[None]:
    """Within, questions of this thread to the JVM raise once `stop` has a reason.

    So does the end, if one did.
    """
    interruption = Interruption(stop)
    _here.interruption = interruption
    try:
        yield
    finally:
        _here.interruption = None
    interruption.confirm()


def make_interruptible(gateway: JavaGateway) -> None:
    """Puts the check before all questions that go through a gateway."""
    client = gateway._gateway_client
    ask = client.send_command

    def checked(command: str, *rest: Any, **named: Any) -> Any:
        interruption: Interruption | None = getattr(_here, "interruption", None)
        # What a finaliser of Python lets go of has nothing to do with the call that its thread happens to be in.
        if interruption is not None and not command.startswith(MEMORY_COMMAND_NAME):
            interruption.check()
        return ask(command, *rest, **named)

    client.send_command = checked
