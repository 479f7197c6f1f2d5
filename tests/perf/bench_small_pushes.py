"""Many small pushes to a node on PostgreSQL and S3: speed and S3 cost.

How fast they are acknowledged and committed, and what that costs at the S3 server.

    PYTHONPATH=. ./.odf/venv/bin/python tests/perf/bench_small_pushes.py [--pushes 1000] [--alone 50]

The node works in this process (the real engine in one of its own), so that requests to S3 can be counted where they leave. Pushes of
one row with keys come from 8 threads while 2 threads do jobs; the same with `push_group_jobs_max=1`, for fewer pushes, each committed alone.
Bare: as many transactions of one row in the same database as pushes are acknowledged, one after the other.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import boto3
import psycopg
from pydantic import SecretStr

from odfabric.formats.manifests.manifest_yaml import parse_snapshots
from odfabric.model.commit import CatalogEntry
from odfabric.model.jobs.job import Job
from odfabric.model.metadata import AddData
from odfabric.settings import Settings
from odfabric.usecases.ingestion.push_data import PushData
from odfabric.wiring import Node, engine_launcher, open_node, prepare_workspace
from tests.support.servers.postgres import postgres_server
from tests.support.servers.s3 import s3_server
from tests.support.stories import root

CLIENTS = 8
WORKERS = 2
WARM_UP = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pushes", type=int, default=1000)
    parser.add_argument("--alone", type=int, default=50)
    options = parser.parse_args()
    requests: Counter[str] = Counter()
    boto3.setup_default_session()

    def count(request, **_):  # type: ignore[no-untyped-def]
        requests[request.method] += 1

    boto3.DEFAULT_SESSION.events.register("before-send.s3", count)
    with postgres_server(durable=True) as postgres, s3_server() as s3, tempfile.TemporaryDirectory() as folder:
        given = {
            "workspace": Path(folder),
            "database_url": postgres.create_database(),
            "objects_url": f"s3://{s3.create_bucket()}/node",
            "s3_endpoint_url": s3.endpoint,
            "s3_access_key": SecretStr(s3.access_key),
            "s3_secret_key": SecretStr(s3.secret_key),
        }
        for name, pushes, group in (("together", options.pushes, 1000), ("alone", options.alone, 1)):
            settings = Settings(**given, push_group_jobs_max=group)  # type: ignore[arg-type]
            prepare_workspace(settings)
            with open_node(settings) as node:
                report(name, node, pushes, requests)
        engine_launcher(settings).stop()
        print(
            f"bare: {bare_transactions(str(given['database_url']), options.pushes):,.0f} transactions of one row a second"
        )


def report(name: str, node: Node, pushes: int, requests: Counter[str]) -> None:
    """Push, wait, print."""
    (snapshot,) = parse_snapshots(root(name), file=name)
    entry, _ = node.datasets.create(snapshot, node.operator)
    with working(node):
        for number in range(WARM_UP):
            wait(node, [push(node, entry, -1 - number)])
        requests.clear()
        begun = time.perf_counter()
        with ThreadPoolExecutor(CLIENTS) as clients:
            timed = list(clients.map(lambda number: timed_push(node, entry, number), range(pushes)))
        acknowledged = time.perf_counter() - begun
        wait(node, [job for job, _ in timed])
        taken = time.perf_counter() - begun
    blocks = (
        sum(isinstance(link.block.event, AddData) for link in node.datasets.log(entry, limit=10 * pushes)) - WARM_UP
    )
    seconds = sorted(second for _, second in timed)
    print(
        f"{name}: {pushes} pushes acknowledged at {pushes / acknowledged:,.0f}/s "
        f"(p50 {statistics.median(seconds) * 1000:.1f} ms, p95 {seconds[len(seconds) * 95 // 100] * 1000:.1f} ms), "
        f"committed at {pushes / taken:,.0f}/s in {blocks} blocks; "
        f"S3 requests {sum(requests.values())} {dict(requests)}: {1000 * sum(requests.values()) / pushes:.0f} per 1,000 pushes"
    )


def push(node: Node, entry: CatalogEntry, number: int) -> Job:
    """One row, accepted."""
    row = json.dumps({"event_time": "2026-01-01T00:00:00Z", "city": f"C{number}", "value": number}).encode()
    found = node.requests.push(
        PushData(dataset=entry.id, body=iter([row]), idempotency_key=f"{entry.alias.name}{number}")
    )
    assert isinstance(found, Job)
    return found


def timed_push(node: Node, entry: CatalogEntry, number: int) -> tuple[Job, float]:
    begun = time.perf_counter()
    return push(node, entry, number), time.perf_counter() - begun


def wait(node: Node, jobs: list[Job]) -> None:
    """Until all have succeeded."""
    for job in jobs:
        while not (now := node.jobs.get(job.id)).status.final:
            time.sleep(0.01)
        assert now.status.value == "succeeded", now.error


@contextmanager
def working(node: Node) -> Iterator[None]:
    """Threads that do jobs and relay commits."""
    stopping = threading.Event()

    def work(number: int) -> None:
        while not stopping.is_set():
            run = node.jobs.lease(f"bench/{number}")
            if run is not None:
                node.jobs.run(run)
                node.background.relay_outbox()
            else:
                stopping.wait(0.01)

    with ThreadPoolExecutor(WORKERS) as workers:
        done = [workers.submit(work, number) for number in range(WORKERS)]
        try:
            yield
        finally:
            stopping.set()
        for one in done:
            one.result()


def bare_transactions(url: str, count: int) -> float:
    """Transactions of one row, one after the other, a second."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE bare (number INTEGER PRIMARY KEY, body BYTEA)")
        begun = time.perf_counter()
        for number in range(count):
            connection.execute("INSERT INTO bare VALUES (%s, %s)", (number, b"x" * 80))
        return count / (time.perf_counter() - begun)


if __name__ == "__main__":
    main()
