"""Works at once, each in a thread, none waited for longer than a limit."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")


class ThreadBounded:
    """A Bounded.

    A work that hangs keeps its thread, which does not keep the process from ending.
    """

    def results(self, works: Sequence[Callable[[], T]], *, within_s: float) -> Sequence[T | Exception]:
        """See the port."""
        runs = [_Run(work) for work in works]
        deadline = time.monotonic() + within_s
        return [run.result(max(0.0, deadline - time.monotonic())) for run in runs]


class _Run(Generic[T]):
    """One work in its thread."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._found: T | Exception = TimeoutError()
        self._ended = threading.Event()
        threading.Thread(target=self._run, name="bounded", daemon=True).start()

    def result(self, wait_s: float) -> T | Exception:
        return self._found if self._ended.wait(wait_s) else TimeoutError()

    def _run(self) -> None:
        try:
            self._found = self._work()
        except Exception as error:  # noqa: BLE001  # it is handed to the caller that asked
            self._found = error
        self._ended.set()
