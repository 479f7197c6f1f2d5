"""Threads whose results come in the order of their items.

Owns that no more is under way, or waits to be taken, than there are threads. Invariant: results come in the order of what they are made
of; the first failure ends all. It pays where NumPy and Arrow do the work, or Spark, which let other threads run meanwhile. Not here:
parts that are divided on the way (`operators.keyed_recompute.parallel_parts`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_turn(work: Callable[[Item], Result], items: Iterable[Item], *, at_once: int) -> Generator[Result]:
    """`work` of each item; of one at a time none is done by another thread.

    Closed, it leaves nothing running.

    What `work` and `items` raise passes through.
    """
    if at_once <= 1:
        yield from map(work, items)
        return
    with ThreadPoolExecutor(at_once) as threads:
        pending: deque[Future[Result]] = deque()
        try:
            for item in items:
                if len(pending) >= at_once:
                    yield pending.popleft().result()
                pending.append(threads.submit(work, item))
            while pending:
                yield pending.popleft().result()
        finally:
            for each in pending:
                each.cancel()


def ahead(items: Iterable[Item]) -> Generator[Item]:
    """The same items, the next one made ahead by a thread that ends when closed.

    What `items` raise passes through.
    """
    waiting = iter(items)

    def following() -> list[Item]:
        return list(islice(waiting, 1))

    with ThreadPoolExecutor(1) as thread:
        made = thread.submit(following)
        while found := made.result():
            made = thread.submit(following)
            yield from found
