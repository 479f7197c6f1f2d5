"""Sockets for HTTP: checked addresses, absolute deadlines, a minimum rate.

Owns connecting and every read and write of a connection. Invariant: the number that the HTTP library hands through as a
timeout is always a point of the monotonic clock here, so that no peer can prolong a request by sending a byte now and then.
Reads after the first byte of an answer are paced: a window of waiting that brings too few bytes ends the connection.
Not here: which addresses are right (`guard`), how much may be read (`egress`). Source: docs/threat-model.md.
"""

from __future__ import annotations

import select
import socket
import ssl
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any

import httpcore

from odfabric.adapters.http.addresses import IpAddress
from odfabric.adapters.http.guard import EgressGuard

Connector = Callable[[tuple[str, int], float], socket.socket]
"""Opens a TCP connection to a numeric address within some seconds. Raises OSError."""


def connect_socket(address: tuple[str, int], seconds_max: float) -> socket.socket:
    """What the operating system does."""
    return socket.create_connection(address, seconds_max)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How slow a peer may be: until its first byte, then per window of waiting."""

    answer_s_max: float
    window_s: float
    bytes_per_s_min: int


def first_connection(
    addresses: Sequence[IpAddress], port: int, connector: Connector, *, left_s: Callable[[], float]
) -> socket.socket:
    """A connection to the first address that answers.

    `left_s` is the time left for all of them, in seconds.

    Each address gets its share of the time, so that a dead first one does not hide a living second one. Raises OSError, TimeoutError.
    """
    failure = OSError("no address")
    for number, address in enumerate(addresses):
        share = left_s() / (len(addresses) - number)
        if share <= 0:
            raise TimeoutError
        try:
            connected = connector((str(address), port), share)
        except OSError as error:
            failure = error
        else:
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return connected
    raise failure


class HandshakeFailed(httpcore.ConnectError):
    """The peer was reached, TLS was not agreed on."""


class GuardedNetwork(httpcore.NetworkBackend):
    """Connects to nothing that the guard has not checked in the same call."""

    def __init__(self, guard: EgressGuard, pace: Pace, connector: Connector = connect_socket) -> None:
        self._guard = guard
        self._pace = pace
        self._connector = connector

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        """Resolve, check, connect.

        `timeout` is a deadline. Raises what the guard raises, ConnectError, ConnectTimeout.
        """
        addresses = self._guard.addresses(host, port, seconds_max=_left(timeout))
        try:
            connected = first_connection(addresses, port, self._connector, left_s=lambda: _left(timeout))
        except TimeoutError:
            raise httpcore.ConnectTimeout("the connection took too long") from None
        except OSError as error:
            raise httpcore.ConnectError(error.strerror or "the connection failed") from None
        return PacedStream(connected, self._pace)


class PacedStream(httpcore.NetworkStream):
    """One connection, plain or TLS, used by one request at a time."""

    def __init__(self, connected: socket.socket, pace: Pace) -> None:
        self._socket = connected
        self._pace = pace
        self._written_at = monotonic()
        self._answering = False
        self._window_waited_s = 0.0
        self._window_bytes = 0

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """At most `max_bytes`, empty at the end.

        `timeout` is a deadline. Raises ReadTimeout, ReadError.
        """
        while True:
            patience = min(_left(timeout), self._patience_s())
            if patience <= 0:
                raise httpcore.ReadTimeout("the answer took too long")
            started = monotonic()
            data = self._receive(max_bytes, patience)
            if self._answering:
                self._account(monotonic() - started, len(data or b""))
            if data is not None:
                self._answering = True
                return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """All of `buffer`. `timeout` is a deadline. Raises WriteTimeout, WriteError."""
        rest = memoryview(buffer)
        while rest:
            left = _left(timeout)
            if left <= 0:
                raise httpcore.WriteTimeout("sending took too long")
            try:
                self._socket.settimeout(left)
                rest = rest[self._socket.send(rest) :]
            except TimeoutError:
                raise httpcore.WriteTimeout("sending took too long") from None
            except OSError as error:
                raise httpcore.WriteError(error.strerror or "sending failed") from None
        self._written_at, self._answering = monotonic(), False
        self._window_waited_s, self._window_bytes = 0.0, 0

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        """Shake hands; the host name is sent and checked.

        `timeout` is a deadline. Raises ConnectTimeout, HandshakeFailed.
        """
        left = _left(timeout)
        try:
            if left <= 0:
                raise TimeoutError
            self._socket.settimeout(left)
            # A cut without TLS's own goodbye is an error, never the end of a body.
            secured = ssl_context.wrap_socket(self._socket, server_hostname=server_hostname, suppress_ragged_eofs=False)
        except TimeoutError:
            self.close()
            raise httpcore.ConnectTimeout("the TLS handshake took too long") from None
        except ssl.SSLCertVerificationError as error:
            self.close()
            raise HandshakeFailed(f"the TLS certificate is refused: {error.verify_message}") from None
        except OSError:
            self.close()
            raise HandshakeFailed("the TLS handshake failed") from None
        return PacedStream(secured, self._pace)

    def get_extra_info(self, info: str) -> Any:
        """What the HTTP library asks a stream about."""
        match info:
            case "is_readable":
                return _is_readable(self._socket)
            case "ssl_object":
                return self._socket if isinstance(self._socket, ssl.SSLSocket) else None
            case _:
                return None

    def _patience_s(self) -> float:
        if self._answering:
            return self._pace.window_s - self._window_waited_s
        return self._written_at + self._pace.answer_s_max - monotonic()

    def _receive(self, max_bytes: int, patience_s: float) -> bytes | None:
        """What has arrived, or None if nothing has within `patience_s`."""
        try:
            self._socket.settimeout(patience_s)
            return self._socket.recv(max_bytes)
        except TimeoutError:
            return None
        except OSError as error:
            raise httpcore.ReadError(error.strerror or "the connection was cut") from None

    def _account(self, waited_s: float, received: int) -> None:
        self._window_waited_s += waited_s
        self._window_bytes += received
        if self._window_waited_s < self._pace.window_s:
            return
        if self._window_bytes < self._pace.bytes_per_s_min * self._window_waited_s:
            raise httpcore.ReadTimeout(f"the answer comes slower than {self._pace.bytes_per_s_min} bytes per second")
        self._window_waited_s, self._window_bytes = 0.0, 0


def _left(deadline: float | None) -> float:
    if deadline is None:
        raise ValueError("a request without a deadline")
    return deadline - monotonic()


def _is_readable(connected: socket.socket) -> bool:
    """Whether a read would not block.

    On an idle connection that means that the peer has closed it.
    """
    if connected.fileno() < 0:
        return True
    poll = select.poll()
    poll.register(connected, select.POLLIN)
    return bool(poll.poll(0))
