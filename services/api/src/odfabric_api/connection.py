"""Connections: a strict head before the parser, and time limits on peers.

Owns deadlines of heads and of readers, the number of connections, and how a request that no route sees is answered. Uvicorn
parses and schedules; it has no deadline for a request that trickles in, takes what `request_head` refuses, and waits for readers
without end. Invariant: the parser is given whole checked heads only, and bytes that come in one piece with the end of a request
(a pipelined or smuggled one) are never read as another. Not here: bodies (`edge`).
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from odfabric.settings import Settings
from odfabric_api.problems import SECURITY_HEADERS, plain_problem
from odfabric_api.request_head import HeadLimits, Refused, check_head, find_head

SMART_PATH = re.compile(r"/[^/]+/[^/]+/(?:pull|push)")
"""Where WebSockets are spoken: the Smart Transfer Protocol."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """Limits of every connection; see the settings of the same names."""

    head: HeadLimits
    header_wait_s_max: float
    connections_at_once_max: int
    body_bytes_per_s_min: int
    body_start_s: float
    linger_s_max: float
    shutdown_s_max: float

    @classmethod
    def of(cls, settings: Settings) -> ConnectionLimits:
        """From the table of all limits."""
        return cls(
            head=HeadLimits(
                header_bytes_max=settings.header_bytes_max, header_line_bytes_max=settings.header_line_bytes_max
            ),
            header_wait_s_max=settings.header_wait_s_max,
            connections_at_once_max=settings.connections_at_once_max,
            body_bytes_per_s_min=settings.body_bytes_per_s_min,
            body_start_s=settings.body_start_s,
            linger_s_max=settings.linger_s_max,
            shutdown_s_max=settings.shutdown_s_max,
        )


class StrictConnection(h11.Connection):
    """A parser that is handed checked heads only.

    `refusal` says why it raised; `ahead`, that it has bytes behind the request.
    """

    def __init__(self, limits: HeadLimits) -> None:
        # Chunk headers and trailers are all that is left for its own limit.
        super().__init__(h11.SERVER, max_incomplete_event_size=limits.header_line_bytes_max)
        self.refusal: Refused | None = None
        self.ahead = False
        self._limits = limits
        self._held = bytearray()
        self._seen = 0

    def receive_data(self, data: bytes) -> None:
        """Hold a head back until it is whole, checked, and its turn has come.

        What belongs to a body passes.
        """
        if self.their_state is h11.SEND_BODY:
            super().receive_data(data)
            return
        self._held += data
        if self.their_state is h11.IDLE:
            self._pass_head()

    def start_next_cycle(self) -> None:
        """Begin with the next request."""
        super().start_next_cycle()
        if self.trailing_data[0]:
            self.refusal = Refused(400, "malformed-request", "a request came together with the one before")
        self._pass_head()

    def next_event(self) -> Any:
        """The next event.

        Raises RemoteProtocolError for a head that was refused and for trailers, which nobody reads here.
        """
        if self.refusal is not None:
            raise h11.RemoteProtocolError(self.refusal.message)
        if self._held and self.their_state is h11.DONE:
            return h11.PAUSED
        event = super().next_event()
        if event is h11.PAUSED and self.trailing_data[0]:
            self.ahead = True
        if isinstance(event, h11.EndOfMessage) and len(event.headers):
            self.refusal = Refused(400, "malformed-request", "trailers are not read")
            raise h11.RemoteProtocolError(self.refusal.message)
        return event

    def _pass_head(self) -> None:
        if self.refusal is not None:
            return
        try:
            end = find_head(self._held, self._limits, seen=self._seen)
            self._seen = len(self._held)
            if end is None:
                return
            check_head(bytes(self._held[:end]), self._limits)
        except Refused as refusal:
            self.refusal = refusal
            return
        whole, self._held, self._seen = bytes(self._held), bytearray(), 0
        super().receive_data(whole)


class SmartSocket(WebSocketsSansIOProtocol):
    """A WebSocket whose reader has as long as the least rate gives it.

    Silence is for anyone who holds the conversation to judge.
    """

    guard: ConnectionLimits
    _reader_timer: asyncio.TimerHandle | None = None

    def pause_writing(self) -> None:
        """A reader that falls behind has as long as the least rate gives it."""
        super().pause_writing()
        waits = self.transport.get_write_buffer_size() / self.guard.body_bytes_per_s_min
        self._reader_timer = self.loop.call_later(self.guard.body_start_s + waits, self.transport.abort)

    def resume_writing(self) -> None:
        """The reader caught up."""
        super().resume_writing()
        _cancel(self._reader_timer)

    def connection_lost(self, exc: Exception | None) -> None:
        """End the timer."""
        _cancel(self._reader_timer)
        super().connection_lost(exc)


def socket_protocol(limits: ConnectionLimits) -> type[SmartSocket]:
    """The protocol class for WebSockets under these limits."""

    class LimitedSocket(SmartSocket):
        guard = limits

    return LimitedSocket


def connection_protocol(limits: ConnectionLimits) -> type[H11Protocol]:
    """The protocol class for connections under these limits."""

    class LimitedProtocol(GuardedProtocol):
        guard = limits

    return LimitedProtocol


class GuardedProtocol(H11Protocol):
    """One connection. All its timers end with it."""

    guard: ConnectionLimits

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._strict = StrictConnection(self.guard.head)
        self.conn = self._strict
        self._head_timer: asyncio.TimerHandle | None = None
        self._reader_timer: asyncio.TimerHandle | None = None
        self._end_timer: asyncio.TimerHandle | None = None
        self._refused = False

    def connection_made(self, transport: Any) -> None:
        """Count the connection and wait for a head."""
        super().connection_made(transport)
        if len(self.connections) > self.guard.connections_at_once_max:
            limit = ("connections_at_once_max", self.guard.connections_at_once_max)
            self._refuse(Refused(429, "limit-exceeded", "too many connections at once", limit=limit))
            return
        self._await_head()

    def data_received(self, data: bytes) -> None:
        """Pass on what was received."""
        if self._refused:
            return  # the rest of a refused request
        if self._head_timer is None and self._is_waiting():
            self._await_head()
        super().data_received(data)
        if self._strict.ahead:
            self.cycle.keep_alive = False
        if not self._is_waiting():
            self._stop_waiting()

    def send_400_response(self, msg: str) -> None:
        """Answer bytes that are no HTTP with a problem document.

        uvicorn calls it; it does nothing while an answer is under way.
        """
        refusal = self._strict.refusal or Refused(400, "malformed-request", "malformed body framing")
        if self.cycle is None or self.cycle.response_complete:
            self._refuse(refusal)
            return
        answered = self.cycle.response_started
        # The application is informed that the client is gone and can no longer answer.
        self.cycle.disconnected = True
        self.cycle.message_event.set()
        if answered:
            self.transport.abort()
        else:
            self._refuse(refusal)

    def pause_writing(self) -> None:
        """A reader that falls behind has as long as the least rate gives it."""
        super().pause_writing()
        self._reader_timer = self.loop.call_later(self._reading_s(), self.transport.abort)

    def resume_writing(self) -> None:
        """The reader caught up."""
        super().resume_writing()
        _cancel(self._reader_timer)

    def on_response_complete(self) -> None:
        """After the last answer nobody waits for a reader without end."""
        super().on_response_complete()
        if self.transport.is_closing():
            self._abort_in(self._reading_s())

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection."""
        super().timeout_keep_alive_handler()
        self._abort_in(self.guard.linger_s_max)

    def shutdown(self) -> None:
        """End the service: idle connections at once, requests within their time."""
        if not self._refused:
            super().shutdown()
        # Before uvicorn cancels: a thread that waits for a body must see the connection end, or the process would not.
        self._abort_in(self.guard.shutdown_s_max * 0.8)

    def connection_lost(self, exc: Exception | None) -> None:
        """End all timers."""
        for timer in (self._head_timer, self._reader_timer, self._end_timer):
            _cancel(timer)
        super().connection_lost(exc)

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """From here on the connection is another protocol's, with timers of its own."""
        self._stop_waiting()
        super().handle_websocket_upgrade(event)

    def _should_upgrade(self) -> bool:
        """Whether to take up an offer of WebSocket: only where it is spoken.

        Other offers (such as h2c) are not taken up; the request itself is answered.
        """
        return self._get_upgrade() == b"websocket" and SMART_PATH.fullmatch(self.scope["path"]) is not None

    def _is_waiting(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _await_head(self) -> None:
        self._head_timer = self.loop.call_later(self.guard.header_wait_s_max, self._head_too_slow)

    def _stop_waiting(self) -> None:
        _cancel(self._head_timer)
        self._head_timer = None

    def _head_too_slow(self) -> None:
        if self._is_waiting() and not self._refused and not self.transport.is_closing():
            limit = ("header_wait_s_max", self.guard.header_wait_s_max)
            self._refuse(Refused(408, "limit-exceeded", "the head of the request arrives too slowly", limit=limit))

    def _refuse(self, refusal: Refused) -> None:
        """Answer, send no more, and let the client read that before the connection ends."""
        self._refused = True
        self._stop_waiting()
        self.transport.write(answer_bytes(refusal))
        self.transport.write_eof()
        self._abort_in(self.guard.linger_s_max)

    def _reading_s(self) -> float:
        return self.guard.body_start_s + self.transport.get_write_buffer_size() / self.guard.body_bytes_per_s_min

    def _abort_in(self, seconds: float) -> None:
        _cancel(self._end_timer)
        self._end_timer = self.loop.call_later(seconds, self.transport.abort)


def answer_bytes(refusal: Refused) -> bytes:
    """The whole answer on the wire."""
    response = plain_problem(refusal.status, refusal.code, refusal.message, limit=refusal.limit)
    headers = {**dict(response.headers), **SECURITY_HEADERS, "connection": "close"}
    if refusal.status == 429:
        headers["retry-after"] = "1"
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    reason = HTTPStatus(refusal.status).phrase
    return f"HTTP/1.1 {refusal.status} {reason}\r\n{head}\r\n".encode("ascii") + bytes(response.body)


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
