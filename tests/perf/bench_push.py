"""Pushes over HTTP to a node of real processes, from the first byte sent to the answer "committed".

    PYTHONPATH=. ./.odf/venv/bin/python tests/perf/bench_push.py [--rows 1000000] [--pushes 30]

Prints the median and 95th percentile of pushes of 1,000 rows (NDJSON, Append, warm node); then the time of a push of many rows as
Parquet beside Spark reading and writing the same rows bare (same engine settings, both warm, medians of three), and their ratio.
The load average of the machine is printed with them: figures of a busy machine say little.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from odfabric_engine_spark.session import start_spark
from odfabric_engine_spark.settings import EngineSettings
from tests.support.node_process import NDJSON, NodeProcess, ndjson, node_process
from tests.support.stories import root

SMALL_ROWS = 1000
WARM_UP = 5
LARGE_TIMES = 3
MEMORY_MIB = 3072
FIRST_MS = 1_767_225_600_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--pushes", type=int, default=30)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="odf-bench-") as folder:
        rows = Path(folder) / "rows.parquet"
        pq.write_table(large_table(options.rows), rows)
        print(f"load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
        # As users start it: tests have flags of their own.
        engine = {"ODF_ENGINE_MEMORY_MIB": str(MEMORY_MIB), "ODF_ENGINE_JVM_OPTIONS": ""}
        with node_process(Path(folder) / "workspace", **engine) as node:
            small_pushes(node, options.pushes)
            pushed = large_pushes(node, rows)
        bare = bare_spark(Path(folder), rows)
        print(f"push of {options.rows:,} rows {pushed:.2f} s, bare Spark {bare:.2f} s, ratio {pushed / bare:.2f}")
        print(f"load average {os.getloadavg()[0]:.1f}")


def large_table(rows: int) -> pa.Table:
    """Rows like those of the small pushes."""
    numbers = np.arange(rows)
    return pa.table(
        {
            "event_time": pa.array(FIRST_MS + numbers * 1000, pa.timestamp("ms", "UTC")),
            "city": pa.DictionaryArray.from_arrays(numbers % 50, [f"city {n}" for n in range(50)]).cast(pa.string()),
            "value": pa.array(numbers * 7919 % 100_003, pa.int64()),
        }
    )


def timed(act: Callable[[], object]) -> float:
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def small_pushes(node: NodeProcess, pushes: int) -> None:
    """Print median and 95th percentile."""
    node.create(root("small"))
    table = large_table(SMALL_ROWS).to_pylist()
    body = ndjson([{**row, "event_time": row["event_time"].strftime("%Y-%m-%dT%H:%M:%SZ")} for row in table])

    def push() -> None:
        answer = node.post("/local/small/ingest", body, content_type=NDJSON)
        assert (answer.status_code, answer.json()["rows"]) == (200, SMALL_ROWS), answer.text

    for _ in range(WARM_UP):
        push()
    taken = sorted(timed(push) for _ in range(pushes))
    p95 = taken[min(len(taken) - 1, len(taken) * 95 // 100)]
    print(f"push of {SMALL_ROWS:,} rows to committed: median {statistics.median(taken):.3f} s, p95 {p95:.3f} s")


def large_pushes(node: NodeProcess, rows: Path) -> float:
    """Median seconds of a push of the file, the first one left out."""
    body = rows.read_bytes()
    taken = []
    for number in range(LARGE_TIMES + 1):
        node.create(root(f"large-{number}"))

        def push(name: str = f"large-{number}") -> None:
            answer = node.post(f"/local/{name}/ingest", body, content_type="application/vnd.apache.parquet")
            node.finished(answer)

        taken.append(timed(push))
    return statistics.median(taken[1:])


def bare_spark(folder: Path, rows: Path) -> float:
    """Median seconds of reading and writing the file, the first one left out."""
    spark = start_spark(EngineSettings(exchange=folder, memory_mib=MEMORY_MIB))
    try:
        taken = []
        for number in range(LARGE_TIMES + 1):

            def copy(target: str = str(folder / f"bare-{number}")) -> None:
                spark.session.read.parquet(str(rows)).write.parquet(target)

            taken.append(timed(copy))
        return statistics.median(taken[1:])
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
