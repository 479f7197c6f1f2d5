"""Listening with `async for`: `Listener`'s updates without blocking the loop.

Owns the waits of one listener on an event loop: looks run on threads, between them only announcements and a timer wake it.
Invariant: a look that was begun is given out even if who waited for it was cancelled, so nothing is lost by a timeout.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass

import pyarrow as pa

from odfabric_persist.client import Listener
from odfabric_persist.frontier import Frontier


@dataclass(frozen=True, slots=True)
class Heard:
    """Updates, and the frontier given out with them: None at the end."""

    updates: pa.Table
    frontier: Frontier


class AsyncListener:
    """The updates of a listener in order, ended by the end of the shard.

    A context that ends the waits; one task at a time.
    """

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        self._woken = asyncio.Event()
        self._watch = listener.shard.watch(self._wake)
        self._look: asyncio.Task[Heard | None] | None = None

    async def __aenter__(self) -> AsyncListener:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._watch.subscription.close()
        if self._look is not None:
            # It runs on a thread and ends by itself; what it finds is for nobody any more.
            await asyncio.gather(self._look, return_exceptions=True)

    def __aiter__(self) -> AsyncIterator[Heard]:
        return self

    async def __anext__(self) -> Heard:
        while self._listener.frontier is not None or self._look is not None:
            self._woken.clear()
            if self._look is None:
                self._look = asyncio.create_task(asyncio.to_thread(self._poll))
            await asyncio.wait([self._look])
            look, self._look = self._look, None
            if (heard := look.result()) is not None:
                return heard
            with suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), self._watch.pause_s)
            self._watch.looked(told=self._woken.is_set())
        raise StopAsyncIteration

    def _poll(self) -> Heard | None:
        updates = self._listener.poll()
        return None if updates is None else Heard(updates, self._listener.frontier)

    def _wake(self) -> None:
        # An announcement may still come in when the loop has ended.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._woken.set)
