"""Stages that run at once because none waits for another.

Owns the order. Most of a small stage is Spark making a plan, which is work of one core, so a query of many stages would leave the
others idle. Invariant: a stage begins when all that it reads is there; one with many rows has memory and cores for itself; however
this ends, nothing of it runs afterwards, and of failures that are there together that of the first stage is reported. Not here: what a stage computes (`staged_transaction`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from pyspark.util import inheritable_thread_target

from odfabric_engine_spark.rows.delta import Delta
from odfabric_engine_spark.spark.calls.call import EngineCall

FEW_ROWS = 50_000
"""Changes that a stage may read to be computed beside others."""


@dataclass(frozen=True, slots=True)
class StageWork:
    """A stage that can begin: its number of changes, and a thread-safe computation."""

    rows: int
    compute: Callable[[], Delta]


Begin = Callable[[int, Sequence[Delta | None]], StageWork]
"""Makes the work of a stage of the changes that are there, None for others."""


def computed_stages(
    call: EngineCall, needs: Sequence[frozenset[int]], begin: Begin, taken: Callable[[Delta], None]
) -> list[Delta]:
    """The changes of stages, of which `needs` gives the earlier ones that each reads.

    `begin` and `taken`, which is informed of what is there, are called from this thread. Raises what they and the stages raise.
    """
    return _Order(call, needs, begin, taken).run()


class _Order:
    """Stages on their way.

    `begun` are those that could begin, `running` those that other threads compute.
    """

    def __init__(
        self, call: EngineCall, needs: Sequence[frozenset[int]], begin: Begin, taken: Callable[[Delta], None]
    ) -> None:
        self._call, self._needs, self._begin, self._taken = call, needs, begin, taken
        self._width = call.settings.cores
        self._done: list[Delta | None] = [None] * len(needs)
        self._waiting = list(range(len(needs)))
        self._begun: dict[int, StageWork] = {}
        self._running: dict[Future[Delta], int] = {}

    def run(self) -> list[Delta]:
        threads = ThreadPoolExecutor(self._width)
        try:
            while self._waiting or self._running:
                self._start(threads)
                self._take()
        finally:
            threads.shutdown(cancel_futures=True)
        return [found for found in self._done if found is not None]

    def _start(self, threads: ThreadPoolExecutor) -> None:
        """Hands over what can be computed beside others.

        Computes what can not when it is alone.
        """
        for number in self._ready():
            work = self._begun.get(number) or self._begin(number, self._done)
            self._begun[number] = work
            is_alone = not self._running and len(self._ready()) == 1
            if work.rows > FEW_ROWS or self._width == 1 or is_alone:
                if not self._running:
                    self._note(self._left(number), work.compute())
                return
            run = inheritable_thread_target(self._call.session)(work.compute)
            self._running[threads.submit(run)] = self._left(number)
            if len(self._running) >= self._width:
                return

    def _ready(self) -> list[int]:
        return [number for number in self._waiting if all(self._done[each] is not None for each in self._needs[number])]

    def _left(self, number: int) -> int:
        """A stage that waits no more."""
        self._waiting.remove(number)
        del self._begun[number]
        return number

    def _take(self) -> None:
        """Takes what is there, after something is."""
        if not self._running:
            return
        ended, _ = wait(self._running, return_when=FIRST_COMPLETED)
        if any(each.exception() is not None for each in ended):
            ended, _ = wait(self._running)
        for number, future in sorted((self._running.pop(each), each) for each in ended):
            self._note(number, future.result())

    def _note(self, number: int, found: Delta) -> None:
        self._done[number] = found
        self._taken(found)
