"""Room for slow work: request slots per kind, and threads of their own.

Owns who may take how many threads. Invariant: slow pushes or queries use up neither the threads nor the places of others; a request
that finds no slot is refused at once (429). The health route has threads that nobody else can take. Also cancels work whose client has
disconnected: a closed tab, the stop button, an interrupted curl.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TypeVar

from anyio import CapacityLimiter, fail_after, to_thread
from fastapi import Request
from starlette.requests import ClientDisconnect

from odfabric.errors import Determinate, LimitExceeded
from odfabric.model.engine import EngineProgress
from odfabric.ports.engine import ProgressListener
from odfabric.settings import Settings

HEALTH_THREADS = 2
STREAM_THREADS = 4
RETRY_AFTER_S = 1
DISCONNECT_CHECK_S = 0.25
"""Interval in which a running query looks whether its client is still connected."""

ResultT = TypeVar("ResultT")


class Slots:
    """A bounded number of requests of one kind.

    Used on the event loop only, so a plain number counts them.
    """

    def __init__(self, maximum: int, *, limit: str, retry_after_s: int = RETRY_AFTER_S) -> None:
        self.maximum, self._limit, self._retry_after_s = maximum, limit, retry_after_s
        self.taken = 0

    def check(self) -> None:
        """Raise LimitExceeded if no slot is free now."""
        if self.taken >= self.maximum:
            raise LimitExceeded(
                "too many requests of this kind at once",
                limit=self._limit,
                maximum=self.maximum,
                retry_after_s=self._retry_after_s,
            )

    @contextmanager
    def taking_one(self) -> Iterator[None]:
        """A slot for as long as the context is open.

        Raises LimitExceeded if there is none.
        """
        self.check()
        self.taken += 1
        try:
            yield
        finally:
            self.taken -= 1


class AccountSlots:
    """Slots of each account by itself, so that one of them cannot take them all.

    Used on the event loop only.
    """

    def __init__(self, *, limit: str, retry_after_s: int = RETRY_AFTER_S) -> None:
        self._limit, self._retry_after_s = limit, retry_after_s
        self._slots: dict[str, Slots] = {}

    @contextmanager
    def taking_one(self, account: str, maximum: int) -> Iterator[None]:
        """A slot of this account. Raises LimitExceeded if it has `maximum` already."""
        fresh = Slots(maximum, limit=self._limit, retry_after_s=self._retry_after_s)
        slots = self._slots.setdefault(account, fresh)
        slots.maximum = maximum
        try:
            with slots.taking_one():
                yield
        finally:
            if slots.taken == 0:
                self._slots.pop(account, None)


class Capacity:
    """The slots and threads of one service."""

    def __init__(self, settings: Settings) -> None:
        self.pushes = Slots(settings.pushes_at_once_max, limit="pushes_at_once_max")
        self.queries = Slots(settings.queries_at_once_max, limit="queries_at_once_max")
        self.account_queries = AccountSlots(limit="account_queries_at_once_max")
        self.streams = Slots(settings.streams_at_once_max, limit="streams_at_once_max")
        self.account_streams = AccountSlots(limit="account_streams_at_once_max")
        self._transfer_threads = CapacityLimiter(settings.smart_transfers_at_once_max)
        self._account_streams_max = settings.account_streams_at_once_max
        self._stream_threads = CapacityLimiter(STREAM_THREADS)
        self._push_threads = CapacityLimiter(settings.pushes_at_once_max)
        self._query_threads = CapacityLimiter(settings.queries_at_once_max)
        self._health_threads = CapacityLimiter(HEALTH_THREADS)
        self._health_wait_s_max = settings.health_wait_s_max

    @contextmanager
    def querying(self, asker: str, maximum: int) -> Iterator[None]:
        """A slot for a query, of which `asker` may have `maximum` at once.

        Raises LimitExceeded.
        """
        with self.account_queries.taking_one(asker, maximum), self.queries.taking_one():
            yield

    @contextmanager
    def streaming(self, account: str) -> Iterator[None]:
        """A place for a stream, or for a request that waits for changes.

        Raises LimitExceeded.
        """
        with self.account_streams.taking_one(account, self._account_streams_max), self.streams.taking_one():
            yield

    async def run_stream(self, verb: Callable[[], ResultT]) -> ResultT:
        """Run in a thread for streams, which wait for each other: none is in a hurry."""
        return await to_thread.run_sync(verb, limiter=self._stream_threads)

    async def run_push(self, verb: Callable[[], ResultT]) -> ResultT:
        """Run in a thread for pushes; the caller has a slot."""
        return await to_thread.run_sync(verb, limiter=self._push_threads)

    async def run_transfer(self, verb: Callable[[], ResultT]) -> ResultT:
        """Run in a thread for conversations; the caller has a slot."""
        return await to_thread.run_sync(verb, limiter=self._transfer_threads)

    async def run_query(self, verb: Callable[[], ResultT]) -> ResultT:
        """Run in a thread for queries; the caller has a slot."""
        return await to_thread.run_sync(verb, limiter=self._query_threads)

    async def run_health(self, verb: Callable[[], ResultT]) -> ResultT:
        """Run within `health_wait_s_max`.

        Raises TimeoutError; the thread is then left to what it waits for.
        """
        with fail_after(self._health_wait_s_max):
            return await to_thread.run_sync(verb, limiter=self._health_threads, abandon_on_cancel=True)


@asynccontextmanager
async def while_client_waits(request: Request) -> AsyncIterator[ProgressListener]:
    """A listener for the engine that stops work once the client has left.

    It raises Determinate in the thread of the work.

    The body of the request must have been read.
    """
    left = threading.Event()

    def listen(_: EngineProgress) -> None:
        if left.is_set():
            raise Determinate("whoever asked has left", hint="ask again")

    async def watch() -> None:
        while not await request.is_disconnected():
            await asyncio.sleep(DISCONNECT_CHECK_S)
        left.set()

    watching = asyncio.create_task(watch())
    try:
        yield listen
    except Determinate:
        if left.is_set():
            raise ClientDisconnect from None  # nobody is there to be answered, and nothing is wrong
        raise
    finally:
        watching.cancel()
