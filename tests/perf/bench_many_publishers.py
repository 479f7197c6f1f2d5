"""Many publishers with small HTTP pushes, to one dataset and to several.

    PYTHONPATH=. ./.odf/venv/bin/python tests/perf/bench_many_publishers.py [--publishers 64] [--seconds 20] [--datasets 20]

A node of real processes as `./odf up` starts it. Each publisher has a connection of its own and sends the next push (one row, with a
key, waiting for its commit) when the last one is answered; 429 is waited out as `Retry-After` says, and counted. Prints pushes that were
committed per second, blocks per second (pushes that wait together are one commit), and the median and 95th percentile of an answer.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from tests.support.node_process import NDJSON, NodeProcess, node_process
from tests.support.stories import root

WARM_UP_S = 5.0
ANSWER_S_MAX = 120.0


@dataclass
class Tally:
    """What publishers have seen."""

    seconds: list[float] = field(default_factory=list)
    refused: int = 0
    blocks: set[str] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--publishers", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--datasets", type=int, default=20)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="odf-bench-") as folder:
        # Every publisher has a request under way; the defaults are for half as many pushes.
        room = {
            "ODF_PUSHES_AT_ONCE_MAX": str(options.publishers),
            "ODF_REQUESTS_AT_ONCE_MAX": str(2 * options.publishers),
            "ODF_ENGINE_JVM_OPTIONS": "",
        }
        with node_process(Path(folder) / "workspace", **room) as node:
            for count in (1, options.datasets):
                names = [f"bench{count}-{number}" for number in range(count)]
                for name in names:
                    node.create(root(name))
                publish(node, names, options.publishers, WARM_UP_S)
                report(count, publish(node, names, options.publishers, options.seconds), options.seconds)


def publish(node: NodeProcess, names: list[str], publishers: int, seconds: float) -> Tally:
    """All publishers at work for some seconds.

    Publisher n pushes to dataset n modulo their number.
    """
    tally, end = Tally(), time.perf_counter() + seconds
    with ThreadPoolExecutor(publishers) as pool:
        for done in [pool.submit(publisher, node, names[n % len(names)], n, tally, end) for n in range(publishers)]:
            done.result()
    return tally


def publisher(node: NodeProcess, name: str, number: int, tally: Tally, end: float) -> None:
    """One push after the other until `end`."""
    headers = dict(node.http.headers)
    with httpx.Client(base_url=node.http.base_url, headers=headers, timeout=ANSWER_S_MAX, trust_env=False) as client:
        pushes = 0
        while (begun := time.perf_counter()) < end:
            row = {"event_time": "2026-01-01T00:00:00Z", "city": f"C{number}", "value": pushes}
            answer = client.post(
                f"/local/{name}/ingest",
                content=json.dumps(row).encode() + b"\n",
                headers={"content-type": NDJSON, "idempotency-key": f"{number}-{begun}"},
            )
            if answer.status_code == 429:
                tally.refused += 1
                time.sleep(float(answer.headers.get("retry-after", "1")))
                continue
            assert answer.status_code == 200, answer.text
            taken = time.perf_counter() - begun
            with tally.lock:
                tally.seconds.append(taken)
                tally.blocks.update(answer.json()["blocks"])
            pushes += 1


def report(datasets: int, tally: Tally, seconds: float) -> None:
    """One line."""
    times = sorted(tally.seconds)
    print(
        f"{datasets} dataset(s): {len(times) / seconds:,.1f} pushes committed/s in {len(tally.blocks) / seconds:,.1f} blocks/s, "
        f"p50 {statistics.median(times) * 1000:,.0f} ms, p95 {times[len(times) * 95 // 100] * 1000:,.0f} ms, "
        f"{tally.refused} times 429; load average {os.getloadavg()[0]:.1f}"
    )


if __name__ == "__main__":
    main()
