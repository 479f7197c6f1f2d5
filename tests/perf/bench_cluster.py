"""The same work by the engine alone and by executors of a cluster on this machine.

    PYTHONPATH=.:src:services/engine-spark/src .odf/venv/bin/python tests/perf/bench_cluster.py [--history 1000000]
        [--only local-1 ..] [--query "top 3" ..]

For each place where tasks can run: an iteration on 1,000 new rows, the first run over the whole history, a transaction over its
second half after one over its first, and plain Spark SQL over the same Parquet. `tasks-2` is one machine that lets Spark's tasks
look up old rows and make differences, as clusters do, where a stage has more than two million new rows and keys. On a machine with few cores this shows what a cluster costs (tasks and rows travel between processes) and that
tasks are shared out; it cannot show how far many machines carry, since executors, engine and workers share the cores.
How an iteration grows with the history is measured by `bench_transform`.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.perf.bench_transform import QUERIES, Bench, Reading, bench, median, write_items, write_slices
from tests.support.servers.spark_cluster import spark_cluster

NAMES = ("linear map", "keyed sum", "top 3", "join")
ITEMS = 10_000
RUNS = 5
EXECUTOR_MIB = 700

PLACES: dict[str, Callable[[ExitStack, Path], dict[str, Any]]] = {
    "local-1": lambda stack, folder: {"cores": 1},
    "local-2": lambda stack, folder: {"cores": 2},
    "tasks-2": lambda stack, folder: {"cores": 2, "stages_by_spark": True},
    "cluster-1": lambda stack, folder: _cluster(stack, folder, 1),
    "cluster-2": lambda stack, folder: _cluster(stack, folder, 2),
}
"""Where tasks run: settings of an engine that runs them there."""


def _cluster(stack: ExitStack, folder: Path, workers: int) -> dict[str, Any]:
    started = stack.enter_context(spark_cluster(folder, workers=workers))
    return {
        "spark_master": started.master,
        "spark_secret": started.secret_file.read_text(),
        "executors_max": workers,
        "executor_memory_mib": EXECUTOR_MIB,
    }


def measure(work: Bench, place: str, name: str) -> None:
    sql = QUERIES[name]
    history, end = work.slices[-1].offsets.begin, work.slices[-1].offsets.end
    started = time.perf_counter()
    before = work.remember(work.transform(sql, Reading(0, history, items=True), None))
    first = time.perf_counter() - started
    iteration = median(work, lambda: work.transform(sql, Reading(history, end, items=False), before), RUNS)
    half = work.remember(work.transform(sql, Reading(0, history // 2, items=True), None))
    second = median(work, lambda: work.transform(sql, Reading(history // 2, history, items=False), half), 2)
    plain = median(work, lambda: work.plain(name, sql), 3)
    print(
        f"{place:<9} {name:<10} after {history:>9,} rows: 1,000 more {iteration * 1000:5.0f} ms; first run {first:6.2f} s; "
        f"second half {second:6.2f} s; "
        f"plain Spark {plain:5.2f} s",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--history", type=int, nargs="+", default=[1_000_000])
    parser.add_argument("--only", nargs="+", choices=list(PLACES), default=list(PLACES))
    parser.add_argument("--query", nargs="+", choices=NAMES, default=NAMES)
    arguments = parser.parse_args()
    print(f"load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
    for place in arguments.only:
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            work = stack.enter_context(bench(**PLACES[place](stack, folder)))
            for rows in arguments.history:
                work.slices = write_slices(work.folder, rows, ITEMS)
                work.items = write_items(work.folder, ITEMS)
                for name in arguments.query:
                    measure(work, place, name)
    print(f"load average {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
