"""The HTTP edge: what a request may look like before any route sees it (security property S5).

Owns framing, head limits, body deadlines, and the number of requests at once; works without a proxy in front. Uvicorn parses, but has
no deadline for a request that trickles in, so the protocol class here brings one. Not here: limits of single routes.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from odfabric.errors import LimitExceeded, OdfError
from odfabric_api.problems import plain_problem, problem_response

RATE_START_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeLimits:
    """Limits of every request; see the settings of the same names."""

    header_bytes_max: int
    header_line_bytes_max: int
    body_bytes_per_s_min: int
    body_wait_s_max: float
    requests_at_once_max: int


def protocol_with_deadline(header_wait_s_max: float) -> type[H11Protocol]:
    """A protocol class that closes a connection of which the request head does not arrive in time."""

    class DeadlineProtocol(H11Protocol):
        _head_timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._start_timer()

        def data_received(self, data: bytes) -> None:
            if self._head_timer is None and self._waiting():
                self._start_timer()
            super().data_received(data)
            if not self._waiting():
                self._stop_timer()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_timer()
            super().connection_lost(exc)

        def _waiting(self) -> bool:
            return self.cycle is None or self.cycle.response_complete

        def _start_timer(self) -> None:
            self._head_timer = self.loop.call_later(header_wait_s_max, self._too_slow)

        def _stop_timer(self) -> None:
            if self._head_timer is not None:
                self._head_timer.cancel()
                self._head_timer = None

        def _too_slow(self) -> None:
            if self._waiting() and not self.transport.is_closing():
                self.transport.write(b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
                self.transport.close()

    return DeadlineProtocol


class EdgeMiddleware:
    """ASGI middleware that refuses what is ambiguous or too large, and bounds bodies in time."""

    def __init__(self, app: ASGIApp, *, limits: EdgeLimits) -> None:
        self._app = app
        self._limits = limits
        self._under_way = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check the head, then pass on with a bounded body."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        self._under_way += 1
        try:
            body = _BoundedBody(receive, self._limits)
            await self._app(scope, body.receive, send)
        finally:
            self._under_way -= 1

    def _refusal(self, scope: Scope) -> Any:
        headers: list[tuple[bytes, bytes]] = scope["headers"]
        close = {"connection": "close"}
        lines = [len(name) + len(value) + 4 for name, value in headers]
        if sum(lines) > self._limits.header_bytes_max or max(lines, default=0) > self._limits.header_line_bytes_max:
            return plain_problem(431, "header-too-large", "the request's headers are too large", close)
        if len(scope["raw_path"]) + len(scope["query_string"]) > self._limits.header_line_bytes_max:
            return plain_problem(414, "uri-too-long", "the request's target is too long", close)
        names = [name.lower() for name, _ in headers]
        framing = names.count(b"content-length") + names.count(b"transfer-encoding")
        if framing > 1 or names.count(b"host") > 1:
            return plain_problem(400, "ambiguous-request", "the request's framing or host is ambiguous", close)
        if b"content-encoding" in names:
            return plain_problem(415, "unsupported-encoding", "send bodies without content-encoding", close)
        if self._under_way >= self._limits.requests_at_once_max:
            return plain_problem(503, "busy", "too many requests at once", {"retry-after": "1"})
        return None


class _BoundedBody:
    """Receives with a deadline as a whole and a least rate after a start."""

    def __init__(self, receive: Receive, limits: EdgeLimits) -> None:
        self._receive = receive
        self._limits = limits
        self._started = time.monotonic()
        self._bytes = 0
        self._complete = False

    async def receive(self) -> Message:
        """The next message. Raises LimitExceeded when the body is too slow."""
        if self._complete:
            return await self._receive()
        limits = self._limits
        elapsed = time.monotonic() - self._started
        by_rate = RATE_START_S + self._bytes / limits.body_bytes_per_s_min
        remaining = min(limits.body_wait_s_max, by_rate) - elapsed
        try:
            message = await asyncio.wait_for(self._receive(), max(remaining, 0.001))
        except TimeoutError:
            limit, maximum = ("body_wait_s_max", limits.body_wait_s_max)
            if by_rate < limits.body_wait_s_max:
                limit, maximum = ("body_bytes_per_s_min", limits.body_bytes_per_s_min)
            raise LimitExceeded("the body arrives too slowly", limit=limit, maximum=maximum) from None
        self._bytes += len(message.get("body", b""))
        if not message.get("more_body", False):
            self._complete = True
        return message


async def answer_problem(_: object, error: Exception) -> Any:
    """Exception handler for the closed tree."""
    if not isinstance(error, OdfError):
        raise error
    return problem_response(error)
