"""A client of S3 whose connections are made by the guard of outgoing requests.

Owns where such connections come from, and how long and how slow answers of strangers may be. Invariants: the address that was checked is the
one that is connected to, also after a redirect of the server; no proxy of the environment is asked; an answer that is read whole has a
limit, whatever length it announces; one that drips is given up. Source: docs/threat-model.md.
"""

from __future__ import annotations

import io
import re
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import monotonic
from typing import Any

from botocore.awsrequest import (
    AWSHTTPConnection,
    AWSHTTPConnectionPool,
    AWSHTTPSConnection,
    AWSHTTPSConnectionPool,
)

from odfabric.ports.sources.egress import TcpConnections

ANSWER_BYTES_MAX = 16 * 1024 * 1024
"""Longest answer that is not an object: a page of names, the text of an error."""

_LENGTH = re.compile(r"[0-9]{1,19}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerPace:
    """How slow a server may be.

    `total_s_max` is the longest wait for one answer in all, `bytes_per_s_min` the rate below which a `window_s` of waiting ends it.
    """

    total_s_max: float = 3600.0
    window_s: float = 10.0
    bytes_per_s_min: int = 1024


class BadAnswer(Exception):
    """What a server sends is not read any further. The text says why."""


def guard_client(client: Any, connections: TcpConnections, *, connect_s_max: float, pace: AnswerPace) -> None:
    """Judge what comes to a client of the SDK; `connections` make its connections."""

    def connected(host: str, port: int | None, default_port: int, timeout_s: float | None) -> socket.socket:
        made = connections.connect(host, port or default_port, seconds_max=connect_s_max)
        made.settimeout(timeout_s)
        return made

    class GuardedConnection(AWSHTTPConnection):  # type: ignore[misc]
        def _new_conn(self) -> socket.socket:
            return connected(self.host, self.port, 80, _seconds(self.timeout))

        def connect(self) -> None:
            super().connect()
            _paced(self, pace)

    class GuardedTlsConnection(AWSHTTPSConnection):  # type: ignore[misc]
        def _new_conn(self) -> socket.socket:
            return connected(self.host, self.port, 443, _seconds(self.timeout))

        def connect(self) -> None:
            super().connect()
            _paced(self, pace)

    class GuardedPool(AWSHTTPConnectionPool):  # type: ignore[misc]
        ConnectionCls = GuardedConnection

        def urlopen(self, *arguments: Any, **named: Any) -> Any:
            return _bounded(super().urlopen(*arguments, **named))

    class GuardedTlsPool(AWSHTTPSConnectionPool):  # type: ignore[misc]
        ConnectionCls = GuardedTlsConnection

        def urlopen(self, *arguments: Any, **named: Any) -> Any:
            return _bounded(super().urlopen(*arguments, **named))

    # The SDK has no public place for this; a test connects through it, so that another version cannot go round the guard unseen.
    client._endpoint.http_session._manager.pool_classes_by_scheme = {"http": GuardedPool, "https": GuardedTlsPool}


class PacedSocket:
    """A connected socket whose answers are judged while they are waited for."""

    def __init__(self, connected: socket.socket, pace: AnswerPace) -> None:
        self._socket = connected
        self._pace = pace
        self.begin()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)

    def send(self, data: Any, flags: int = 0) -> int:
        """As a socket; what comes then is another answer."""
        self.begin()
        return self._socket.send(data, flags)

    def sendall(self, data: Any, flags: int = 0) -> None:
        """As a socket; what comes then is another answer."""
        self.begin()
        self._socket.sendall(data, flags)

    def makefile(self, mode: str = "r", buffering: int | None = None, **named: Any) -> Any:
        """The file that answers are read from."""
        del named
        if mode != "rb":
            raise ValueError("answers are bytes")
        reader = _PacedReader(self._socket.makefile("rb", buffering=0), self)
        if buffering == 0:
            return reader
        return io.BufferedReader(reader, buffering if buffering and buffering > 0 else io.DEFAULT_BUFFER_SIZE)

    def begin(self) -> None:
        """An answer is yet to come."""
        self._waited_s = self._window_s = 0.0
        self._window_bytes: int | None = None
        """None until the first byte: a server may think before it speaks."""

    def account(self, waited_s: float, received: int) -> None:
        """Count a wait. Raises BadAnswer."""
        pace = self._pace
        self._waited_s += waited_s
        if self._waited_s > pace.total_s_max:
            raise BadAnswer(f"the store did not answer in full within {pace.total_s_max:g} s")
        if self._window_bytes is None:
            self._window_bytes = 0
            return
        self._window_s += waited_s
        self._window_bytes += received
        if self._window_s < pace.window_s:
            return
        if self._window_bytes < pace.bytes_per_s_min * self._window_s:
            raise BadAnswer(f"the store answers slower than {pace.bytes_per_s_min} bytes per second")
        self._window_s, self._window_bytes = 0.0, 0


class _PacedReader(io.RawIOBase):
    def __init__(self, raw: Any, owner: PacedSocket) -> None:
        self._raw = raw
        self._owner = owner

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int | None:
        began = monotonic()
        count: int | None = self._raw.readinto(buffer)
        self._owner.account(monotonic() - began, count or 0)
        return count

    def close(self) -> None:
        if not self.closed:
            self._raw.close()
        super().close()


def _paced(connection: Any, pace: AnswerPace) -> None:
    connection.sock = PacedSocket(connection.sock, pace)


def _bounded(response: Any) -> Any:
    """An answer that cannot be read whole beyond a limit.

    Objects are read piece by piece by who wants them, who counts.
    """
    length = response.headers.get("Content-Length")
    if length is not None and _LENGTH.fullmatch(length) is None:
        response.close()
        raise BadAnswer("the length that the store announces is none")
    stream: Callable[..., Iterator[bytes]] = response.stream

    def bounded(*arguments: Any, **named: Any) -> Iterator[bytes]:
        size = 0
        try:
            for piece in stream(*arguments, **named):
                size += len(piece)
                if size > ANSWER_BYTES_MAX:
                    raise BadAnswer(
                        f"the store answers with more than {ANSWER_BYTES_MAX} bytes where a short text belongs"
                    )
                yield piece
        except BadAnswer:
            response.close()
            raise

    response.stream = bounded
    return response


def _seconds(timeout: object) -> float | None:
    return float(timeout) if isinstance(timeout, int | float) else None
