"""Processes that live a scenario, or die in it, and their webhook receiver."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.process import BaseProcess

from odfabric.adapters.memory.engine import MemoryEngine
from odfabric.adapters.memory.node.clock import SettableClock
from odfabric.formats.webhooks.webhook_signature import verify
from odfabric.model.instant import Instant
from odfabric.wiring import Node, open_node, prepare_workspace
from tests.drills import scenario
from tests.drills.places import Place
from tests.support.quick_processes import quick_processes

PROCESS_S_MAX = 180
NOBODY = "127.0.0.1:9"
"""Receiver of webhooks that no step sends."""


def run(
    place: Place, steps: scenario.Steps, *, crash_at: str | None = None, hours_ahead: int = 0, receiver: str = NOBODY
) -> int:
    """Live the steps in a process of its own; its exit code."""
    process = started(place, steps, crash_at=crash_at, hours_ahead=hours_ahead, receiver=receiver)
    return ended(process)


def started(
    place: Place, steps: scenario.Steps, *, crash_at: str | None = None, hours_ahead: int = 0, receiver: str = NOBODY
) -> BaseProcess:
    """The process that lives them."""
    process = quick_processes().Process(target=scenario.live, args=(place, receiver, crash_at, hours_ahead, steps))
    process.start()
    return process


def ended(process: BaseProcess) -> int:
    """Its exit code, once it has one."""
    process.join(PROCESS_S_MAX)
    if process.exitcode is None:
        process.kill()
        process.join()
        raise AssertionError("the process did not end")
    return process.exitcode


@contextmanager
def opened(place: Place, *, hours_ahead: int = 0, receiver: str = NOBODY) -> Iterator[Node]:
    """The node of a place in this process, to prepare it or to look into it."""
    settings = scenario.settings_of(place, receiver)
    prepare_workspace(settings)
    engine = MemoryEngine(place.workspace.absolute() / "exchange")
    clock = SettableClock(Instant(time.time_ns() + hours_ahead * scenario.HOUR_NS), step_ms=1)
    parts = scenario.stand_in_parts(settings, clock)
    with open_node(settings, engine=engine, clock=clock, part_uploads=parts) as node:
        yield node


class Receiver:
    """Takes webhooks; refuses each event the first time, so that attempts fail too."""

    def __init__(self) -> None:
        self.taken: dict[str, int] = {}
        self._seen: set[str] = set()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                self.send_response(204 if receiver.take(headers, body) else 503)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.server.server_address[1]}"

    def take(self, headers: dict[str, str], body: bytes) -> bool:
        sent_at = Instant(int(headers["webhook-timestamp"]) * 1_000_000_000)
        event = verify(headers, body, secrets=[scenario.SECRET], now=sent_at)
        if event not in self._seen:
            self._seen.add(event)
            return False
        self.taken[event] = int(json.loads(body)["data"]["sequence"])
        return True


@contextmanager
def receiving() -> Iterator[Receiver]:
    """A receiver that listens as long as the context is open."""
    found = Receiver()
    thread = threading.Thread(target=found.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        found.server.shutdown()
        found.server.server_close()
        thread.join()
