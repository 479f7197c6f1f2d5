"""Waits for heads: wakes a request that has read everything when there is more.

Owns one thread, which hears the signals of the node and looks at the head of each dataset that is waited for, once for all who wait. Invariant: anyone who
waits is woken within `LOOK_S` even if every signal is lost, and at once when the service ends. Not here: what there is to be read.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass

from anyio import to_thread

from odfabric.errors import OdfError
from odfabric.model.identity import DatasetId
from odfabric.model.multihash import Multihash
from odfabric.ports.subscriptions.signals import Topic
from odfabric.wiring import Node

_log = logging.getLogger(__name__)

LOOK_S = 2.0
"""Longest pause between two looks, in seconds."""


@dataclass(frozen=True, slots=True, eq=False)
class _Waiter:
    """Somebody who has seen `head` of a dataset, and the event that wakes them."""

    head: Multihash | None
    loop: asyncio.AbstractEventLoop
    woken: asyncio.Event

    def wake(self) -> None:
        self.loop.call_soon_threadsafe(self.woken.set)


class HeadWatch:
    """Made once per service. `closing` is set when the service ends."""

    def __init__(self, node: Node, closing: threading.Event) -> None:
        self._node = node
        self._closing = closing
        self._lock = threading.Lock()
        self._waiters: dict[DatasetId, set[_Waiter]] = {}
        self._watching = False

    def head(self, dataset: DatasetId) -> Multihash | None:
        """The head of a dataset now, None if it is gone."""
        found = self._node.repository.chains.head(dataset)
        return None if found is None else found.hash

    async def moved(self, dataset: DatasetId, seen: Multihash | None, *, timeout_s: float) -> bool:
        """Wait until the head is another than `seen`, or `timeout_s` seconds.

        Whether it is another, or the service ends.
        """
        waiter = _Waiter(seen, asyncio.get_running_loop(), asyncio.Event())
        self._add(dataset, waiter)
        try:
            # It may have moved since it was seen, and before anybody looked for us.
            if await to_thread.run_sync(self.head, dataset) != seen:
                return True
            async with asyncio.timeout(timeout_s):
                await waiter.woken.wait()
        except TimeoutError:
            return False
        finally:
            self._remove(dataset, waiter)
        return True

    def _add(self, dataset: DatasetId, waiter: _Waiter) -> None:
        with self._lock:
            self._waiters.setdefault(dataset, set()).add(waiter)
            if not self._watching:
                self._watching = True
                threading.Thread(target=self._watch, name="heads", daemon=True).start()

    def _remove(self, dataset: DatasetId, waiter: _Waiter) -> None:
        with self._lock:
            waiting = self._waiters.get(dataset, set())
            waiting.discard(waiter)
            if not waiting:
                self._waiters.pop(dataset, None)

    def _watch(self) -> None:
        """Until nobody waits any more."""
        while True:
            self._node.ports.signals.wait(Topic.HEADS, timeout_s=LOOK_S)
            with self._lock:
                if not self._waiters:
                    self._watching = False
                    return
                waiting = {dataset: tuple(found) for dataset, found in self._waiters.items()}
            if self._closing.is_set():
                for waiters in waiting.values():
                    for waiter in waiters:
                        waiter.wake()
                continue
            self._look(waiting)

    def _look(self, waiting: Mapping[DatasetId, tuple[_Waiter, ...]]) -> None:
        for dataset, waiters in waiting.items():
            try:
                head = self.head(dataset)
            except OdfError as error:
                _log.warning("the head of %s is not known: %s", dataset, error)
                continue
            for waiter in waiters:
                if waiter.head != head:
                    waiter.wake()
