"""Why a number of a report is there, asked of a node, against recomputing it.

    PYTHONPATH=. ./.odf/venv/bin/python tests/perf/node/bench_why.py [--rows 1000000 10000000] [--records 12] [--memory-mib 3072]

An embedded node with its real engine, in processes of its own (`odf up`): so many orders in ten slices, a tenth as many stores, and three
derivatives one after the other: orders with their region (a join), sums of a store and day, and the difference from the day before. Then 1,000
more orders. Explained through REST are records of the last block of the report, after a first question that is not counted: one cell by its
own inputs (depth 1) and through all datasets to the files, and 100 rows at once. Groups have ten orders whatever the history is, so the
answers are of one size. Recomputing is the first run of a derivative over the whole history, in the same node. CPU is that of all processes
of the node, which a busy machine changes less than time.
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
def filled(folder: Path, rows: int, memory_mib: int) -> Iterator[NodeProcess]:
    """A node with the history, and what its derivatives took from the beginning."""
    limits = {
        "ODF_ENGINE_MEMORY_MIB": str(memory_mib),
        "ODF_PUSH_WAIT_S_MAX": str(WAIT_S_MAX),
        "ODF_FLOWS": "false",
        # No question becomes a job, however long it takes.
        "ODF_PROVENANCE_WAIT_S_MAX": str(WAIT_S_MAX),
        "ODF_PROVENANCE_WALL_S_MAX": str(WAIT_S_MAX),
    }
    with node_process(folder / "node", **limits) as node:
        node.http.timeout = WAIT_S_MAX
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
        yield node


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


def shown(node: NodeProcess, name: str, count: int, work: Callable[[int], dict[str, object]]) -> None:
    """Time of each of so many questions, after a first one."""
    work(0)
    taken, used = [], cpu_s(node)
    for at in range(1, count + 1):
        began = time.perf_counter()
        answer = work(at)
        taken.append(time.perf_counter() - began)
    each_s, ordered, cost = (cpu_s(node) - used) / count, sorted(taken), answer["cost"]
    records = len(answer["records"])  # type: ignore[arg-type]
    print(
        f"  {name:40} p50 {statistics.median(taken):6.2f} s   p95 {ordered[int(len(ordered) * 0.95)]:6.2f} s   "
        f"CPU {each_s:5.2f} s   n {count}; {records} records, {cost}",
        flush=True,
    )


def measured(rows: int, records: int, memory_mib: int) -> None:
    print(f"{rows} orders in {SLICES} slices; load {os.getloadavg()[0]:.1f}", flush=True)
    with tempfile.TemporaryDirectory() as folder, filled(Path(folder), rows, memory_mib) as node:
        found = [row["offset"] for row in node.tail("report", limit=NEW_ROWS)]
        chosen = found[:: max(1, len(found) // (records + 1))]
        cell = ["difference"]
        shown(node, "one cell, depth 1", records, lambda at: asked(node, [chosen[at]], depth="1", columns=cell))
        shown(node, "one cell, to the files", records, lambda at: asked(node, [chosen[at]], depth="all", columns=cell))
        unchecked = {"columns": cell, "effort": "lineage"}
        shown(node, "the same, unchecked", records, lambda at: asked(node, [chosen[at]], depth="all", **unchecked))
        page = found[-PAGE:]
        shown(node, f"{PAGE} cells at once, depth 1", 2, lambda _: asked(node, page, depth="1", columns=cell))
        shown(node, f"{PAGE} cells at once, unchecked", 2, lambda _: asked(node, page, depth="1", **unchecked))
        print(f"  load {os.getloadavg()[0]:.1f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--records", type=int, default=12)
    parser.add_argument("--memory-mib", type=int, default=3072)
    options = parser.parse_args()
    for rows in options.rows:
        measured(rows, options.records, options.memory_mib)


if __name__ == "__main__":
    main()
