"""The HTTP edge around all routes: request counts, slow bodies, headers.

Owns deadlines of bodies, the number of requests at once, the end of a connection whose request was not read whole, and the answer
to our own bugs. Works without a proxy in front and trusts no forwarded header. Not here: heads and connections (`connection`),
sizes of bodies (each route's own).
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass

from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from odfabric.errors import LimitExceeded
from odfabric.settings import Settings
from odfabric_api.capacity import RETRY_AFTER_S
from odfabric_api.problems import SECURITY_HEADERS, plain_problem, problem_response
from odfabric_api.web.broken_page import broken_page

_log = logging.getLogger(__name__)

UNCOUNTED_PATHS = frozenset({"/system/health"})
"""Answered however busy the service is; they have their own threads and deadline."""
LINGER_BYTES_MAX = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeLimits:
    """Limits of every request; see the settings of the same names."""

    body_bytes_per_s_min: int
    body_start_s: float
    body_wait_s_max: float
    linger_s_max: float
    requests_at_once_max: int

    @classmethod
    def of(cls, settings: Settings) -> EdgeLimits:
        """From the table of all limits."""
        return cls(
            body_bytes_per_s_min=settings.body_bytes_per_s_min,
            body_start_s=settings.body_start_s,
            body_wait_s_max=settings.body_wait_s_max,
            linger_s_max=settings.linger_s_max,
            requests_at_once_max=settings.requests_at_once_max,
        )


ONLY_WAITS = "odfabric.only_waits"
"""Of a scope: what a route calls whose request, bounded in number elsewhere, does nothing but wait from now on. It leaves its place to others."""


class EdgeMiddleware:
    """ASGI middleware, around everything that answers."""

    def __init__(self, app: ASGIApp, *, limits: EdgeLimits) -> None:
        self._app = app
        self._limits = limits
        self._under_way = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on with a bounded body; answer for the application if it fails."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = _Exchange(scope, receive, send, self._limits)
        if scope["path"] in UNCOUNTED_PATHS:
            await self._run(exchange)
            return
        if self._under_way >= self._limits.requests_at_once_max:
            busy = LimitExceeded(
                "too many requests at once",
                limit="requests_at_once_max",
                maximum=self._limits.requests_at_once_max,
                retry_after_s=RETRY_AFTER_S,
            )
            await problem_response(busy)(scope, exchange.receive, exchange.send)
            return
        self._under_way += 1
        counted = True

        def only_waits() -> None:
            nonlocal counted
            if counted:
                counted = False
                self._under_way -= 1

        scope[ONLY_WAITS] = only_waits
        try:
            await self._run(exchange)
        finally:
            only_waits()

    async def _run(self, exchange: _Exchange) -> None:
        scope = exchange.scope
        try:
            await self._app(scope, exchange.receive, exchange.send)
        except ClientDisconnect:
            _log.info("%s %s: the client left", scope["method"], scope["path"])
        except Exception:  # noqa: BLE001  # a bug of ours: the client learns that, and nothing else
            _log.exception("%s %s", scope["method"], scope["path"])
            if not exchange.answering:
                is_browser = b"text/html" in dict(scope["headers"]).get(b"accept", b"")
                answer = broken_page() if is_browser else plain_problem(500, "internal-error", "Internal error")
                await answer(scope, exchange.receive, exchange.send)


class _Exchange:
    """One request and its answer."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, limits: EdgeLimits) -> None:
        self.scope = scope
        self.answering = False
        self._receive = receive
        self._send = send
        self._limits = limits
        self._deadline = time.monotonic() + limits.body_wait_s_max
        self._patience_s = limits.body_start_s
        self._read_whole = not _has_body(scope)

    async def receive(self) -> Message:
        """The next message.

        Raises LimitExceeded when the body as a whole, or its last stretch, is too slow.
        """
        if self._read_whole:
            return await self._receive()
        started = time.monotonic()
        remaining = self._deadline - started
        try:
            async with asyncio.timeout(max(0.0, min(self._patience_s, remaining))):
                message = await self._receive()
        except TimeoutError:
            raise self._too_slow(by_rate=self._patience_s < remaining) from None
        size = len(message.get("body", b""))
        # A leaky bucket: waiting drains it, bytes fill it. Our own slowness between two calls costs the client nothing.
        waited = time.monotonic() - started
        filled = self._patience_s - waited + size / self._limits.body_bytes_per_s_min
        self._patience_s = max(0.0, min(self._limits.body_start_s, filled))
        self._read_whole = message["type"] != "http.request" or not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        """Send an answer; close the connection if the request was not read whole.

        It ends once the client could read the answer.
        """
        if message["type"] == "http.response.start":
            self.answering = True
            headers = MutableHeaders(scope=message)
            for name, value in SECURITY_HEADERS.items():
                headers.setdefault(name, value)
            if not self._read_whole:
                headers["connection"] = "close"
        elif message["type"] == "http.response.body" and not message.get("more_body", False) and not self._read_whole:
            await self._send({**message, "more_body": True})
            await self._linger()
            message = {"type": "http.response.body", "body": b""}
        await self._send(message)

    async def _linger(self) -> None:
        """Read and drop for a moment before the connection is closed.

        Closing at once would reset it under an answer still on its way.
        """
        dropped = 0
        try:
            async with asyncio.timeout(self._limits.linger_s_max):
                while dropped < LINGER_BYTES_MAX:
                    message = await self._receive()
                    if message["type"] != "http.request" or not message.get("more_body", False):
                        return
                    dropped += len(message.get("body", b""))
        except TimeoutError:
            return

    def _too_slow(self, *, by_rate: bool) -> LimitExceeded:
        limits = self._limits
        name, maximum = ("body_wait_s_max", limits.body_wait_s_max)
        if by_rate:
            name, maximum = ("body_bytes_per_s_min", limits.body_bytes_per_s_min)
        return LimitExceeded("the body arrives too slowly", limit=name, maximum=maximum)


def _has_body(scope: Scope) -> bool:
    headers = dict(scope["headers"])
    return b"transfer-encoding" in headers or headers.get(b"content-length", b"0") != b"0"
