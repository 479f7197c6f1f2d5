"""Races: the same call from many threads or processes at the same moment.

Owns starting, the barrier and collecting what came out. Errors of the tree are outcomes, not failures: losing a race is one.
"""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable
from multiprocessing.queues import SimpleQueue
from multiprocessing.synchronize import Barrier
from typing import Generic, TypeVar

from odfabric.errors import OdfError

T = TypeVar("T")
Opened = TypeVar("Opened")

THREADS = 16
PROCESSES = 4
DEADLINE_S = 60.0


def outcomes_of_threads(act: Callable[[int], T], *, count: int = THREADS) -> list[T | OdfError]:
    """What `act(0)` ... `act(count - 1)` came to, all begun together.

    Anything but errors of the tree is raised.
    """
    start = threading.Barrier(count)
    outcomes: list[T | OdfError] = []
    bugs: list[BaseException] = []

    def run(number: int) -> None:
        start.wait(DEADLINE_S)
        try:
            outcomes.append(act(number))
        except OdfError as error:
            outcomes.append(error)
        except BaseException as error:  # noqa: BLE001 - raised again in the thread of the test
            bugs.append(error)

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_S)
    if bugs:
        raise bugs[0]
    assert len(outcomes) == count, "a thread did not come to an end"
    return outcomes


class _Racer(Generic[Opened]):
    """What one process does.

    It must be picklable, so `open_port` and `act` are functions of modules or partials of such.
    """

    def __init__(self, open_port: Callable[[], Opened], act: Callable[[Opened, int], str]) -> None:
        self.open_port = open_port
        self.act = act

    def __call__(self, number: int, start: Barrier, outcomes: SimpleQueue[str]) -> None:
        port = self.open_port()
        start.wait(DEADLINE_S)
        try:
            outcomes.put(self.act(port, number))
        except OdfError as error:
            outcomes.put(type(error).__name__)


def outcomes_of_processes(
    open_port: Callable[[], Opened], act: Callable[[Opened, int], str], *, count: int = PROCESSES
) -> list[str]:
    """What `act(port, number)` came to in processes of their own, sorted.

    An error of the tree counts by its name.

    They are forked from a process that has nothing open. Who starts that one with imports (`set_forkserver_preload`) has them quickly.
    """
    context = multiprocessing.get_context("forkserver")
    start, outcomes = context.Barrier(count), context.SimpleQueue()
    racer = _Racer(open_port, act)
    processes = [context.Process(target=racer, args=(number, start, outcomes), daemon=True) for number in range(count)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(DEADLINE_S)
    assert [process.exitcode for process in processes] == [0] * count
    return sorted(outcomes.get() for _ in processes)
