"""A test web server on loopback, low-level so that it can misbehave."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

READ_S_MAX = 20.0
"""No connection of a test may wait longer than this for its client."""


@dataclass(frozen=True)
class Seen:
    """A request that has arrived; names of headers in lower case."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes


def reply(status: int = 200, body: bytes = b"", headers: Mapping[str, str] | None = None) -> bytes:
    """A complete answer."""
    lines = [f"HTTP/1.1 {status} Because", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


@dataclass
class LoopbackServer:
    """Answers every request by `respond`: complete bytes, or pieces.

    Pieces are sent one by one and end the connection.
    """

    respond: Callable[[Seen], bytes | Iterator[bytes]]
    host: str = "127.0.0.1"
    port: int = 0
    ssl_context: ssl.SSLContext | None = None
    seen: list[Seen] = field(default_factory=list)
    connections: int = 0
    stopping: threading.Event = field(default_factory=threading.Event)

    def url(self, path: str = "/") -> str:
        """Where a path is served, by address."""
        scheme = "https" if self.ssl_context else "http"
        return f"{scheme}://{self.host}:{self.port}{path}"

    @property
    def place(self) -> str:
        """`host:port`, as exceptions of the guard are written."""
        return f"{self.host}:{self.port}"

    def every(self, piece: bytes, *, pause_s: float, count: int) -> Iterator[bytes]:
        """The same piece again and again, with pauses."""
        for _ in range(count):
            yield piece
            if self.stopping.wait(pause_s):
                return

    @contextmanager
    def serving(self) -> Iterator[LoopbackServer]:
        """Listen until the context ends; all threads are gone then."""
        self._threads: list[threading.Thread] = []
        self._open: set[socket.socket] = set()
        with socket.create_server((self.host, self.port)) as listener:
            self.port = listener.getsockname()[1]
            accepting = threading.Thread(target=self._accept, args=(listener,), daemon=True)
            accepting.start()
            try:
                yield self
            finally:
                self.stopping.set()
                with suppress(OSError):
                    listener.shutdown(socket.SHUT_RDWR)
                accepting.join(READ_S_MAX)
                for connection in list(self._open):
                    with suppress(OSError):
                        connection.shutdown(socket.SHUT_RDWR)
                for thread in self._threads:
                    thread.join(READ_S_MAX)

    def _accept(self, listener: socket.socket) -> None:
        while not self.stopping.is_set():
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            self.connections += 1
            self._open.add(connection)
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, plain: socket.socket) -> None:
        connection = plain
        try:
            plain.settimeout(READ_S_MAX)
            if self.ssl_context:
                connection = self.ssl_context.wrap_socket(plain, server_side=True)
            with connection.makefile("rb") as lines:
                while (seen := _read(lines)) is not None:
                    self.seen.append(seen)
                    answer = self.respond(seen)
                    if not isinstance(answer, bytes):
                        for piece in answer:
                            connection.sendall(piece)
                        return
                    connection.sendall(answer)
        except OSError:
            return  # the client has gone
        finally:
            self._open.discard(plain)
            connection.close()
            plain.close()


def _read(lines: socket.SocketIO) -> Seen | None:
    start = lines.readline().decode("latin-1").split()
    if len(start) != 3:
        return None
    headers: dict[str, str] = {}
    while line := lines.readline().decode("latin-1").strip():
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    body = lines.read(int(headers.get("content-length", "0")))
    return Seen(method=start[0], target=start[1], headers=headers, body=body)
