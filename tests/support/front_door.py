"""One address for several copies of a service, like a load balancer.

Connections go round, dead copies are left out.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

PIECE_BYTES = 64 * 1024
CONNECT_S_MAX = 2.0

Address = tuple[str, int]


class FrontDoor:
    """Forwards bytes to one of the addresses that `copies` gives at that moment."""

    def __init__(self, copies: Callable[[], Sequence[Address]]) -> None:
        self._copies = copies
        self._turn = 0
        self._lock = threading.Lock()
        self._listening = socket.create_server(("127.0.0.1", 0))

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._listening.getsockname()[1]}"

    @contextmanager
    def open(self) -> Iterator[FrontDoor]:
        """Let connections through while the context is open."""
        threading.Thread(target=self._accept, daemon=True).start()
        try:
            yield self
        finally:
            self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, suppress(OSError):
            copy = self._connected()
            if copy is None:
                return
            with copy:
                back = threading.Thread(target=_forward, args=(copy, client), daemon=True)
                back.start()
                _forward(client, copy)
                back.join()

    def _connected(self) -> socket.socket | None:
        copies = list(self._copies())
        with self._lock:
            self._turn += 1
            turn = self._turn
        for number in range(len(copies)):
            with suppress(OSError):
                copy = socket.create_connection(copies[(turn + number) % len(copies)], CONNECT_S_MAX)
                copy.settimeout(None)
                return copy
        return None


def _forward(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while piece := source.recv(PIECE_BYTES):
            target.sendall(piece)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)
