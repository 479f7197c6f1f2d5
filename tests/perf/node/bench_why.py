"""Why a number of a report is there, asked of a node, against recomputing it.

    PYTHONPATH=. ./.odf/venv/bin/python tests/perf/node/bench_why.py [--rows 1000000 10000000] [--records 12] [--kept FOLDER]

An embedded node with its real engine, in processes of its own (`odf up`): so many orders in ten slices, a tenth as many stores, and three
derivatives one after the other: orders with their region (a join), sums of a store and day, and the difference from the day before. Then 1,000
more orders. Explained through REST are records of the last block of the report, after some that are not counted: one cell by its
own inputs (depth 1) and through all datasets to the files, and 100 rows at once. Groups have ten orders whatever the history is, so the
answers are of one size. Recomputing is the first run of a derivative over the whole history, in the same node. CPU is that of all processes
of the node, which a busy machine changes less than time; bytes are those that they read by system calls, so without what is mapped. With
`--kept`, nodes are kept in that folder, by their orders, and a further run asks them again without making them.
"""

from __future__ import annotations

import argparse
import io
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.engines.quick_jvm import QUICK_JVM
from tests.support.node_process import NodeProcess, node_process
from tests.support.stories import derivative_of

ROOT = """
kind: DatasetSnapshot
version: 1
content:
  name: {name}
  kind: Root
  metadata:
  - kind: AddPushSource
    sourceName: default
    read: {{kind: Parquet, schema: {{fields: [{fields}]}}}}
    merge: {{kind: Append}}
"""
CHAIN = {
    "placed": (
        "{datasetRef: orders, alias: o}, {datasetRef: stores, alias: s}",
        "SELECT o.event_time, o.store, s.region, o.amount FROM o JOIN s ON o.store = s.store",
    ),
    "daily": (
        "{datasetRef: placed, alias: p}",
        "SELECT date_trunc('DAY', event_time) AS event_time, store, region, sum(amount) AS total FROM p "
        "GROUP BY date_trunc('DAY', event_time), store, region",
    ),
    "report": (
        "{datasetRef: daily, alias: d}",
        "SELECT event_time, store, region, total, total - lag(total) OVER (PARTITION BY store ORDER BY event_time) "
        "AS difference FROM d",
    ),
}
SLICES = 10
DAYS = 4
DAY_MS = 86_400_000
BEGIN_MS = 1_767_225_600_000
NEW_ROWS = 1_000
REGIONS = 50
WAIT_S_MAX = 3600
PAGE = 100
WARMING = 3
"""Questions before those that count: the engine compiles the queries, and the JVM itself."""
PARQUET = "application/vnd.apache.parquet"


def fields(**types: str) -> str:
    return ", ".join(f"{{name: {name}, type: {kind}}}" for name, kind in types.items())


def push(node: NodeProcess, name: str, **columns: np.ndarray) -> None:
    """Rows as one Parquet file."""
    times = pa.array(columns.pop("event_ms")).cast(pa.timestamp("ms", "UTC"))
    table = pa.table({"event_time": times, **{key: pa.array(values) for key, values in columns.items()}})
    body = io.BytesIO()
    pq.write_table(table, body)
    node.finished(node.post(f"/local/{name}/ingest", body.getvalue(), content_type=PARQUET))


def push_orders(node: NodeProcess, chance: np.random.Generator, count: int, stores: int, *, last_days: int) -> None:
    days = chance.integers(DAYS - last_days, DAYS, count)
    push(
        node,
        "orders",
        event_ms=BEGIN_MS + days * DAY_MS + chance.integers(0, DAY_MS, count),
        store=chance.integers(0, stores, count),
        amount=chance.integers(1, 1000, count),
    )


@contextmanager
def filled(folder: Path, rows: int, options: argparse.Namespace) -> Iterator[NodeProcess]:
    """A node with the history, and what its derivatives took from the beginning."""
    limits = {
        "ODF_ENGINE_MEMORY_MIB": str(options.memory_mib),
        "ODF_ENGINE_JVM_OPTIONS": options.jvm_options,
        "ODF_PUSH_WAIT_S_MAX": str(WAIT_S_MAX),
        "ODF_FLOWS": "false",
        # No question becomes a job, however long it takes.
        "ODF_PROVENANCE_WAIT_S_MAX": str(WAIT_S_MAX),
        "ODF_PROVENANCE_WALL_S_MAX": str(WAIT_S_MAX),
    }
    done = folder / "filled"
    with node_process(folder / "node", **limits) as node:
        node.http.timeout = WAIT_S_MAX
        if not done.exists():
            fill(node, rows)
            done.touch()
        yield node


def fill(node: NodeProcess, rows: int) -> None:
    """Everything from the first manifest to the last pull."""
    node.create(ROOT.format(name="orders", fields=fields(event_time="Timestamp", store="Int64", amount="Int64")))
    node.create(ROOT.format(name="stores", fields=fields(event_time="Timestamp", store="Int64", region="Int64")))
    for name, (inputs, query) in CHAIN.items():
        node.create(derivative_of(name, inputs=inputs, query=query))
    chance, stores = np.random.default_rng(1), rows // 10
    numbers = np.arange(stores)
    push(node, "stores", event_ms=np.full(stores, BEGIN_MS), store=numbers, region=numbers % REGIONS)
    for _ in range(SLICES):
        push_orders(node, chance, rows // SLICES, stores, last_days=DAYS)
    for name in CHAIN:
        began, used = time.perf_counter(), cpu_s(node)
        written = node.pull(name)["rows"]
        took = time.perf_counter() - began
        print(f"  recomputing {name:8} {took:8.2f} s, CPU {cpu_s(node) - used:6.2f} s, {written} rows", flush=True)
    push_orders(node, chance, NEW_ROWS, stores, last_days=1)
    for name in CHAIN:
        node.pull(name)


def asked(node: NodeProcess, offsets: list[int], *, depth: str, **more: object) -> dict[str, object]:
    answer = node.http.post("/local/report/why", json={"offsets": offsets, "depth": depth, "values": True, **more})
    assert answer.status_code == 200, answer.text
    value: dict[str, object] = answer.json()
    return value


def cpu_s(node: NodeProcess) -> float:
    """Processor time that the processes of the node have used."""
    ticks = 0
    for pid in [node.process.pid, *(seen.pid for seen in node.processes())]:
        stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(stat[11]) + int(stat[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def read_mib(node: NodeProcess) -> float:
    """MiB that the processes of the node have read by system calls."""
    found = 0
    for pid in [node.process.pid, *(seen.pid for seen in node.processes())]:
        found += int(Path(f"/proc/{pid}/io").read_text().split()[1])
    return found / 2**20


def shown(node: NodeProcess, name: str, count: int, work: Callable[[int], dict[str, object]]) -> None:
    """Time of each of so many questions, after some that are not counted."""
    for at in range(WARMING):
        work(at)
    taken, used, read = [], cpu_s(node), read_mib(node)
    for at in range(WARMING, count + WARMING):
        began = time.perf_counter()
        answer = work(at)
        taken.append(time.perf_counter() - began)
    each_s, each_mib = (cpu_s(node) - used) / count, (read_mib(node) - read) / count
    ordered, cost = sorted(taken), answer["cost"]
    records = len(answer["records"])  # type: ignore[arg-type]
    print(
        f"  {name:40} p50 {statistics.median(taken):6.2f} s   p95 {ordered[int(len(ordered) * 0.95)]:6.2f} s   "
        f"CPU {each_s:5.2f} s   {each_mib:6.1f} MiB   n {count}; {records} records, {cost}",
        flush=True,
    )


def measured(rows: int, options: argparse.Namespace) -> None:
    records = options.records
    print(f"{rows} orders in {SLICES} slices; load {os.getloadavg()[0]:.1f}", flush=True)
    with place_of(rows, options.kept) as folder, filled(folder, rows, options) as node:
        found = [row["offset"] for row in node.tail("report", limit=NEW_ROWS)]
        chosen = found[:: max(1, len(found) // (records + WARMING))]
        cell = ["difference"]
        shown(node, "one cell, depth 1", records, lambda at: asked(node, [chosen[at]], depth="1", columns=cell))
        shown(node, "one cell, to the files", records, lambda at: asked(node, [chosen[at]], depth="all", columns=cell))
        unchecked = {"columns": cell, "effort": "lineage"}
        shown(node, "the same, unchecked", records, lambda at: asked(node, [chosen[at]], depth="all", **unchecked))
        page = found[-PAGE:]
        shown(node, f"{PAGE} cells at once, depth 1", 2, lambda _: asked(node, page, depth="1", columns=cell))
        shown(node, f"{PAGE} cells at once, unchecked", 2, lambda _: asked(node, page, depth="1", **unchecked))
        print(f"  load {os.getloadavg()[0]:.1f}", flush=True)


@contextmanager
def place_of(rows: int, kept: Path | None) -> Iterator[Path]:
    """The folder of a node, removed afterwards unless it is kept."""
    if kept is None:
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder)
    else:
        folder = kept / str(rows)
        folder.mkdir(parents=True, exist_ok=True)
        yield folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--records", type=int, default=12)
    parser.add_argument("--memory-mib", type=int, default=3072)
    parser.add_argument("--kept", type=Path)
    parser.add_argument("--jvm-options", default=QUICK_JVM, help="of the engine; a node of users has none")
    options = parser.parse_args()
    for rows in options.rows:
        measured(rows, options)


if __name__ == "__main__":
    main()
