"""Delay along a chain of derivatives to its webhook, and an idle node's cost.

    PYTHONPATH=. ./.odf/venv/bin/python tests/perf/node/bench_flows.py [--pushes 40] [--schedules 500] [--every-min 10] [--idle-s 60] [--streams 1000] [--servers]

An embedded node with its real engine, in processes of its own (`odf up`). A row is pushed to a root dataset; three derivative datasets follow
each other. Measured: until the answer to the push, until a stream of the last dataset has the row, until its webhook is received. Of that time
the jobs of the four datasets are engine and commit; the rest is waiting: relays, the scheduler, the queue. With `--servers` the same on two apis,
two workers, an engine, PostgreSQL, Redis and S3 on this machine.
Bare: the same four steps by hand, one push and three pulls, each waited for, on a node without flows.
CPU is that of all processes of the node, over some time in which nothing happens, without schedules and with many; lateness is
how long after its time a scheduled run has started.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx

from tests.support.engines.class_archive import class_archive
from tests.support.node_process import NodeProcess, node_process
from tests.support.served_node import APIS, served_node

ROOT = """
kind: DatasetSnapshot
version: 1
content:
  name: readings
  kind: Root
  metadata:
  - kind: AddPushSource
    sourceName: default
    read:
      kind: NdJson
      schema: {fields: [{name: event_time, type: Timestamp}, {name: city, type: String}]}
    merge: {kind: Append}
"""
DERIVED = """
kind: DatasetSnapshot
version: 1
content:
  name: %s
  kind: Derivative
  metadata:
  - kind: SetTransform
    inputs: [{datasetRef: %s}]
    transform: {kind: Sql, engine: spark, query: "SELECT event_time, city FROM %s WHERE city <> ''"}
"""
POLLED = """
kind: DatasetSnapshot
version: 1
content:
  name: polled-%s
  kind: Root
  metadata:
  - kind: SetPollingSource
    fetch: {kind: FilesGlob, path: '%s/*.ndjson'}
    read:
      kind: NdJson
      schema: {fields: [{name: event_time, type: Timestamp}, {name: city, type: String}]}
    merge: {kind: Append}
"""
CHAIN = ("first", "second", "third")
WARM_UP = 5


@contextmanager
def receiver() -> Iterator[tuple[str, dict[str, float]]]:
    """A receiver of webhooks, and when the head of each delivery came."""
    received: dict[str, float] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            received[body["data"]["newHead"]] = time.monotonic()
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_port}", received
    server.shutdown()


class LastRows:
    """A stream of the last dataset: when each row came, and in which block."""

    def __init__(self, node: NodeProcess) -> None:
        self._node = node
        self.came: dict[str, tuple[float, str]] = {}
        self.changed = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        headers = {"accept": "text/event-stream", "authorization": f"Bearer {self._node.token}"}
        path = f"{self._node.url}/local/{CHAIN[-1]}/changes?from=now"
        with httpx.stream("GET", path, headers=headers, timeout=None) as answer:
            for line in answer.iter_lines():
                if line.startswith("data: "):
                    event = json.loads(line[6:])
                    with self.changed:
                        for row in event["rows"]:
                            self.came[row["city"]] = (time.monotonic(), event["block"])
                        self.changed.notify_all()

    def wait(self, city: str) -> tuple[float, str]:
        with self.changed:
            assert self.changed.wait_for(lambda: city in self.came, 60), city
            return self.came[city]


def quantiles(name: str, seconds: list[float]) -> None:
    ordered = sorted(seconds)
    p95 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))]
    print(f"{name:44} p50 {statistics.median(ordered):6.3f} s   p95 {p95:6.3f} s   n {len(ordered)}")


def row(city: str) -> list[dict[str, object]]:
    return [{"event_time": "2026-01-01T00:00:00Z", "city": city}]


def make_chain(node: NodeProcess) -> None:
    node.create(ROOT)
    before = "readings"
    for name in CHAIN:
        node.create(DERIVED % (name, before, before))
        before = name


@contextmanager
def embedded(folder: Path, address: str) -> Iterator[NodeProcess]:
    with node_process(folder / "node", "--egress-allow", address) as node:
        yield node


@contextmanager
def on_servers(folder: Path, address: str) -> Iterator[NodeProcess]:
    """The node on servers, asked as the other one is.

    It may send to any place of this machine.
    """
    with served_node(folder, engine_cache=class_archive() or folder / "cache") as served:
        headers = {"authorization": f"Bearer {served.token}"}
        with httpx.Client(base_url=served.url, headers=headers, timeout=60, trust_env=False) as http:
            yield NodeProcess(
                process=served.processes[APIS[0]],
                workspace=served.workspace,
                url=served.url,
                token=served.token,
                engine=served.environment["ODF_ENGINE_ADDRESS"],
                http=http,
                log=served.workspace / f"{APIS[0]}.log",
                console=served.url,
            )


def reached(pushes: int, start: Callable[[Path, str], AbstractContextManager[NodeProcess]]) -> None:
    """Push, and see it come out at the other end."""
    with (
        receiver() as (address, received),
        tempfile.TemporaryDirectory() as folder,
        start(Path(folder), address) as node,
    ):
        make_chain(node)
        node.push("readings", row("warm"))
        rows = LastRows(node)
        answer = node.http.post(f"/local/{CHAIN[-1]}/subscriptions", json={"url": f"http://{address}/hook"})
        assert answer.status_code == 201, answer.text
        answered, at_end, delivered = [], [], []
        for number in range(pushes + WARM_UP):
            began = time.monotonic()
            node.push("readings", row(f"c{number}"))
            done = time.monotonic()
            came, block = rows.wait(f"c{number}")
            while block not in received:
                time.sleep(0.002)
            if number >= WARM_UP:
                answered.append(done - began)
                at_end.append(came - began)
                delivered.append(received[block] - began)
        quantiles("push: answered", answered)
        quantiles("push: last of three derivatives committed", at_end)
        quantiles("push: its webhook received", delivered)
        in_jobs = sum(_job_seconds(node, name, pushes) for name in CHAIN) + statistics.median(answered)
        waiting = statistics.median(at_end) - in_jobs
        print(f"{'of that: engine and commit, and waiting':44} {in_jobs:10.3f} s and {waiting:.3f} s")


def _job_seconds(node: NodeProcess, name: str, count: int) -> float:
    """Median of the time from the start of a run to its end."""
    (flow,) = node.http.get(f"/local/{name}/flows").json()["flows"]
    took = [
        (_time(run["endedAt"]) - _time(run["startedAt"])).total_seconds()
        for run in flow["runs"][:count]
        if run["endedAt"]
    ]
    return statistics.median(took)


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text[:26].rstrip("Z") + "+00:00")


def by_hand(pushes: int) -> None:
    """The bare limit: the same steps, each called and waited for."""
    with tempfile.TemporaryDirectory() as folder, node_process(Path(folder) / "node", ODF_FLOWS="false") as node:
        make_chain(node)
        took = []
        for number in range(pushes + WARM_UP):
            began = time.monotonic()
            node.push("readings", row(f"c{number}"))
            for name in CHAIN:
                assert node.pull(name)["rows"] == 1
            if number >= WARM_UP:
                took.append(time.monotonic() - began)
        quantiles("bare: one push and three pulls by hand", took)


def idle(schedules: int, minutes: int, seconds: int) -> None:
    """CPU of a waiting node, without and with many schedules; their lateness."""
    with tempfile.TemporaryDirectory() as folder:
        arrivals = Path(folder) / "arrivals"
        arrivals.mkdir()
        with node_process(Path(folder) / "node", "--poll-folder", str(arrivals)) as node:
            make_chain(node)
            node.push("readings", row("warm"))
            time.sleep(10)
            print(f"{'idle: CPU of all processes':44} {_cpu(node, seconds):10.2%} of a core over {seconds} s")
            for number in range(schedules):
                (arrivals / str(number)).mkdir()
                (arrivals / str(number) / "1.ndjson").write_text(json.dumps(row("x")[0]) + "\n")
                node.create(POLLED % (number, number))
                rule = {"trigger": {"every": f"{minutes}m"}}
                assert node.http.put(f"/local/polled-{number}/flows/poll", json=rule).status_code == 200
            _settled(node)
            used = _cpu(node, minutes * 60)  # in which each of them runs once
            print(f"{f'idle: CPU with {schedules} schedules of {minutes} min':44} {used:10.2%} of a core")
            late = []
            for number in range(schedules):
                (flow,) = node.http.get(f"/local/polled-{number}/flows").json()["flows"]
                late += [
                    (_time(run["startedAt"]) - _time(run["dueAt"])).total_seconds()
                    for run in flow["runs"][:-1]
                    if run["startedAt"]
                ]
            if late:
                quantiles("scheduled runs: lateness", late)


def streams(count: int) -> None:
    """Memory of the api with many open streams, and delay of one change to all."""
    limits = dict.fromkeys(("ODF_STREAMS_AT_ONCE_MAX", "ODF_ACCOUNT_STREAMS_AT_ONCE_MAX"), str(count))
    limits["ODF_CONNECTIONS_AT_ONCE_MAX"] = str(count + 50)
    with tempfile.TemporaryDirectory() as folder, node_process(Path(folder) / "node", **limits) as node:
        node.create(ROOT)
        node.push("readings", row("warm"))
        before = _resident_mib(node)
        asyncio.run(_listen(node, count, before))


async def _listen(node: NodeProcess, count: int, before: float) -> None:
    headers = {"accept": "text/event-stream", "authorization": f"Bearer {node.token}"}
    path = f"{node.url}/local/readings/changes?from=now"
    heard: list[float] = []
    opened = asyncio.Semaphore(0)
    bounds = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(headers=headers, timeout=None, limits=bounds, trust_env=False) as client:

        async def listen() -> None:
            while True:
                async with client.stream("GET", path) as answer:
                    if answer.status_code == 429:
                        await asyncio.sleep(0.5)  # as it was asked: others are being opened
                        continue
                    assert answer.status_code == 200
                    opened.release()
                    async for line in answer.aiter_lines():
                        if line.startswith("data: "):
                            heard.append(time.monotonic())
                            return

        tasks = [asyncio.create_task(listen()) for _ in range(count)]
        for _ in tasks:
            await opened.acquire()
        after = _resident_mib(node)
        print(f"{f'{count} streams: memory of the api':44} {(after - before) * 1024 / count:10.1f} KiB each")
        await asyncio.to_thread(node.push, "readings", row("all"))
        pushed = time.monotonic()
        await asyncio.gather(*tasks)
        quantiles(f"{count} streams: after the push was answered", [at - pushed for at in heard])


def _resident_mib(node: NodeProcess) -> float:
    pages = int(Path(f"/proc/{node.one('odfabric_api')}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def _settled(node: NodeProcess) -> None:
    """Until all first runs have ended."""
    while any(
        run["status"] in ("waiting", "running")
        for flow in node.http.get("/flows").json()["flows"]
        for run in flow["runs"]
    ):
        time.sleep(2)


def _cpu(node: NodeProcess, seconds: int) -> float:
    """Share of a core that all processes of the node use.

    Printed for each that uses 0.1 % or more.
    """
    before = _ticks(node)
    time.sleep(seconds)
    used = {
        pid: (ticks - before.get(pid, 0)) / os.sysconf("SC_CLK_TCK") / seconds for pid, ticks in _ticks(node).items()
    }
    for pid, share in used.items():
        if share >= 0.001:
            command = Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
            print(f"    {share:6.2%} {' '.join(command.split()[:5])[-80:]}")
    return sum(used.values())


def _ticks(node: NodeProcess) -> dict[int, int]:
    found = {}
    for pid in [node.process.pid, *(seen.pid for seen in node.processes())]:
        stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        found[pid] = int(stat[11]) + int(stat[12])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pushes", type=int, default=40)
    parser.add_argument("--schedules", type=int, default=500)
    parser.add_argument("--every-min", type=int, default=10)
    parser.add_argument("--idle-s", type=int, default=60)
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--servers", action="store_true")
    options = parser.parse_args()
    print(f"load at the beginning: {os.getloadavg()[0]:.1f}")
    if options.pushes:
        reached(options.pushes, on_servers if options.servers else embedded)
        by_hand(options.pushes)
    if options.streams:
        streams(options.streams)
    if options.idle_s:
        idle(options.schedules, options.every_min, options.idle_s)


if __name__ == "__main__":
    main()
