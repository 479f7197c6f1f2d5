"""A webhook receiver for the demo: checks signatures, counts events."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from odfabric.errors import OdfError
from odfabric.formats.webhooks.webhook_signature import parse_secret, verify
from odfabric.model.instant import Instant

BODY_BYTES_MAX = 20_000
_LOOK_EVERY_S = 0.05


class Receiver:
    """Listens on a free port of this machine.

    `received` holds event ids by dataset alias, each id once.
    """

    def __init__(self) -> None:
        self.received: dict[str, dict[str, int]] = {}
        self.refused = 0
        self._secrets: dict[str, bytes] = {}
        self._lock = threading.Lock()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = min(int(self.headers.get("content-length", "0")), BODY_BYTES_MAX)
                headers = {name.lower(): value for name, value in self.headers.items()}
                taken = receiver.take(self.path.strip("/"), headers, self.rfile.read(length))
                self.send_response(204 if taken else 401)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                """Quiet: the demo has its own output."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    @property
    def address(self) -> str:
        """host:port, for the node's list of exceptions."""
        return f"127.0.0.1:{self._server.server_address[1]}"

    def url(self, name: str) -> str:
        """Where events of a dataset go."""
        return f"http://{self.address}/{name}"

    def expect(self, name: str, secret: str) -> None:
        """Know the secret of a subscription."""
        self._secrets[name] = parse_secret(secret)
        self.received[name] = {}

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Serve from a thread until the context ends."""
        thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()

    def take(self, name: str, headers: dict[str, str], body: bytes) -> bool:
        """Whether the event was ours and properly signed."""
        secret = self._secrets.get(name)
        with self._lock:
            try:
                if secret is None:
                    raise KeyError(name)
                event_id = verify(headers, body, secrets=[secret], now=Instant(time.time_ns()))
            except (OdfError, KeyError):
                self.refused += 1
                return False
            self.received[name][event_id] = int(json.loads(body)["data"]["sequence"])
            return True

    def wait_for(self, expected: dict[str, int], *, deadline_s: float) -> bool:
        """Whether every dataset got its expected events, without gaps, by the deadline."""
        until = time.monotonic() + deadline_s
        while time.monotonic() < until:
            with self._lock:
                if all(
                    sorted(self.received[name].values()) == list(range(1, count + 1))
                    for name, count in expected.items()
                ):
                    return True
            time.sleep(_LOOK_EVERY_S)
        return False
