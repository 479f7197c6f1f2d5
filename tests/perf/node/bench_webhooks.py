"""How long a commit takes to reach a thousand webhooks of one dataset.

    .odf/venv/bin/python -m tests.perf.node.bench_webhooks [--subscriptions 1000] [--receivers 50] [--commits 5]

An embedded node in processes of its own (`odf up`); receivers on ports of their own that answer at once. Measured: from the answer to the push
until the first, the middle and the last subscription has its event, and events a second. Bare: the same bodies posted to the same receivers
from as many threads as the node has senders for one account, without a signature, a log or an order.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx

from tests.perf.node.bench_flows import ROOT, quantiles, row
from tests.support.node_process import NodeProcess, node_process

SENDERS = 16
"""Half of `deliveries_at_once_max`, which one account gets."""
PATIENCE_S = 120.0


class Arrivals:
    """When which path was posted to, since it was cleared."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._at: dict[str, float] = {}
        self.body = b""

    def add(self, path: str, body: bytes) -> None:
        with self._changed:
            self._at[path] = time.monotonic()
            self.body = body
            self._changed.notify_all()

    def all(self, count: int) -> list[float]:
        """The times of so many paths, in their order; afterwards nothing has come."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self._at) >= count, PATIENCE_S), f"{len(self._at)} of {count}"
            found = sorted(self._at.values())
            self._at.clear()
            return found


@contextmanager
def receiver(arrivals: Arrivals) -> Iterator[str]:
    """An address that takes webhooks."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            arrivals.add(self.path, self.rfile.read(int(self.headers["content-length"])))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()


def measure(node: NodeProcess, arrivals: Arrivals, addresses: Sequence[str], options: argparse.Namespace) -> None:
    """Print what the node and the bare limit take."""
    node.create(ROOT)
    node.push("readings", row("warm"))
    urls = [f"http://{addresses[n % len(addresses)]}/{n}" for n in range(options.subscriptions)]
    for url in urls:
        answer = node.http.post("/local/readings/subscriptions", json={"url": url})
        assert answer.status_code == 201, answer.text
    first, middle, last = [], [], []
    for number in range(options.commits + 1):
        node.push("readings", row(f"c{number}"))
        pushed = time.monotonic()
        came = arrivals.all(len(urls))
        if number:
            first.append(came[0] - pushed)
            middle.append(statistics.median(came) - pushed)
            last.append(came[-1] - pushed)
    for name, seconds in (("first", first), ("middle", middle), ("last", last)):
        quantiles(f"{len(urls)} subscriptions: {name} event", seconds)
    print(f"{'events a second':44} {len(urls) / statistics.median(last):10.0f}")
    body = json.dumps(json.loads(arrivals.body)).encode()
    bare = []
    for _ in range(options.commits):
        began = time.monotonic()
        with httpx.Client(trust_env=False) as client, ThreadPoolExecutor(SENDERS) as threads:
            list(threads.map(lambda url: client.post(url, content=body).raise_for_status(), urls))
        bare.append(arrivals.all(len(urls))[-1] - began)
    quantiles("bare: all of them posted", bare)
    print(f"{'ratio of the last event':44} {statistics.median(last) / statistics.median(bare):10.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--subscriptions", type=int, default=1000)
    parser.add_argument("--receivers", type=int, default=50)
    parser.add_argument("--commits", type=int, default=5)
    options = parser.parse_args()
    print(f"load at the beginning: {os.getloadavg()[0]:.1f}")
    arrivals = Arrivals()
    with ExitStack() as stack:
        addresses = [stack.enter_context(receiver(arrivals)) for _ in range(options.receivers)]
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        limits = {
            "ODF_SUBSCRIPTIONS_PER_DATASET_MAX": str(options.subscriptions),
            "ODF_EGRESS_ALLOW": json.dumps(addresses),
        }
        node = stack.enter_context(node_process(folder / "node", **limits))
        measure(node, arrivals, addresses, options)


if __name__ == "__main__":
    main()
