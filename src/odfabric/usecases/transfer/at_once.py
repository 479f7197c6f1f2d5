"""Several works at a time, with what they give as they end, or in their order.

Invariant: no more than `at_once` works have begun and not ended; the first that fails ends the rest before its error is raised, so nothing
goes on behind the caller's back. With one at a time no thread is made, and the order of calls is that of the works.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from itertools import islice
from typing import Protocol, TypeVar

T = TypeVar("T")


def each_at_once(works: Iterable[Callable[[], T]], *, at_once: int) -> Iterator[T]:
    """The results, in the order in which works end.

    Raises what the first failing work raises.
    """
    if at_once <= 1:
        for work in works:
            yield work()
        return
    waiting = iter(works)
    threads = ThreadPoolExecutor(at_once, thread_name_prefix="transfer")
    try:
        begun: set[Future[T]] = {threads.submit(work) for work in islice(waiting, at_once)}
        while begun:
            ended, begun = wait(begun, return_when=FIRST_COMPLETED)
            for one in ended:
                result = one.result()
                begun |= {threads.submit(work) for work in islice(waiting, 1)}
                yield result
    finally:
        threads.shutdown(wait=True, cancel_futures=True)


def in_order(works: Iterable[Callable[[], T]], *, at_once: int) -> Generator[T]:
    """The results, in the order of the works.

    No more than twice as many as run have begun or wait to be taken. Raises what the first failing work raises.
    """
    if at_once <= 1:
        for work in works:
            yield work()
        return
    threads = ThreadPoolExecutor(at_once, thread_name_prefix="in-order")
    begun: deque[Future[T]] = deque()
    try:
        for work in works:
            if len(begun) == 2 * at_once:
                yield begun.popleft().result()
            begun.append(threads.submit(work))
        while begun:
            yield begun.popleft().result()
    finally:
        threads.shutdown(wait=True, cancel_futures=True)


class Run(Protocol):
    """Runs a work and gives what it gives."""

    def __call__(self, work: Callable[[], T], /) -> T:
        """Raises what the work raises."""


@contextmanager
def few_threads(count: int) -> Iterator[Run]:
    """Runs the works of many threads on `count`, so that no more compute at a time.

    Memory that a work has used is used again by the next one of its thread. With one thread works run where they are asked for.
    """
    if count <= 1:
        yield lambda work: work()
        return
    threads = ThreadPoolExecutor(count, thread_name_prefix="compute")
    try:
        yield lambda work: threads.submit(work).result()
    finally:
        threads.shutdown(wait=True, cancel_futures=True)
