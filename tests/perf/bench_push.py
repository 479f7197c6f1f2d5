"""HTTP pushes to a node of real processes: first byte to answer "committed".

    PYTHONPATH=. ./.odf/venv/bin/python tests/perf/bench_push.py [--rows 1000000] [--pushes 30]

Prints the median and 95th percentile of pushes of 1,000 rows (NDJSON, Append, warm node); then the time of a push of many rows as
Parquet, and of a tenth of them as NDJSON, beside Spark reading and writing the same rows bare (same engine settings, both warm, medians
of three; for NDJSON, Spark is given the schema), and their ratio.
The load average of the machine is printed with them: figures of a busy machine say little.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from odfabric_engine_spark.spark.session import start_spark
from odfabric_engine_spark.spark.settings import EngineSettings
from tests.support.node_process import NDJSON, NodeProcess, ndjson, node_process
from tests.support.stories import root

SMALL_ROWS = 1000
WARM_UP = 5
LARGE_TIMES = 3
MEMORY_MIB = 3072
FIRST_MS = 1_767_225_600_000
PARQUET = "application/vnd.apache.parquet"
SCHEMA = "event_time TIMESTAMP, city STRING, value BIGINT"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--pushes", type=int, default=30)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="odf-bench-") as folder:
        rows, lines = Path(folder) / "rows.parquet", Path(folder) / "rows.ndjson"
        pq.write_table(large_table(options.rows), rows)
        lines.write_bytes(as_lines(large_table(options.rows // 10)))
        print(f"load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
        # As users start it: tests have flags of their own.
        engine = {"ODF_ENGINE_MEMORY_MIB": str(MEMORY_MIB), "ODF_ENGINE_JVM_OPTIONS": ""}
        with node_process(Path(folder) / "workspace", **engine) as node:
            small_pushes(node, options.pushes)
            pushed = {PARQUET: large_pushes(node, rows, PARQUET), NDJSON: large_pushes(node, lines, NDJSON)}
        bare = bare_spark(Path(folder), {PARQUET: rows, NDJSON: lines})
        for kind, count in ((PARQUET, options.rows), (NDJSON, options.rows // 10)):
            taken, least = pushed[kind], bare[kind]
            print(
                f"push of {count:,} rows as {kind} {taken:.2f} s, bare Spark {least:.2f} s, ratio {taken / least:.2f}"
            )
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


def as_lines(table: pa.Table) -> bytes:
    """The rows as NDJSON."""
    rows = table.to_pylist()
    return ndjson([{**row, "event_time": row["event_time"].strftime("%Y-%m-%dT%H:%M:%SZ")} for row in rows])


def timed(act: Callable[[], object]) -> float:
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def small_pushes(node: NodeProcess, pushes: int) -> None:
    """Print median and 95th percentile."""
    node.create(root("small"))
    body = as_lines(large_table(SMALL_ROWS))

    def push() -> None:
        answer = node.post("/local/small/ingest", body, content_type=NDJSON)
        assert (answer.status_code, answer.json()["rows"]) == (200, SMALL_ROWS), answer.text

    for _ in range(WARM_UP):
        push()
    taken = sorted(timed(push) for _ in range(pushes))
    p95 = taken[min(len(taken) - 1, len(taken) * 95 // 100)]
    print(f"push of {SMALL_ROWS:,} rows to committed: median {statistics.median(taken):.3f} s, p95 {p95:.3f} s")


def large_pushes(node: NodeProcess, rows: Path, kind: str) -> float:
    """Median seconds of a push of the file, the first one left out."""
    body = rows.read_bytes()
    taken = []
    for number in range(LARGE_TIMES + 1):
        node.create(root(f"large-{kind[-6:]}-{number}"))

        def push(name: str = f"large-{kind[-6:]}-{number}") -> None:
            answer = node.post(f"/local/{name}/ingest", body, content_type=kind)
            node.finished(answer)

        taken.append(timed(push))
    return statistics.median(taken[1:])


def bare_spark(folder: Path, files: Mapping[str, Path]) -> dict[str, float]:
    """Median seconds of reading and writing each file, the first time left out."""
    spark = start_spark(EngineSettings(exchange=folder, memory_mib=MEMORY_MIB))
    try:
        found = {}
        for kind, file in files.items():
            targets = [str(folder / f"bare-{kind[-6:]}-{number}") for number in range(LARGE_TIMES + 1)]
            taken = [timed(partial(copy, spark.session, kind, str(file), target)) for target in targets]
            found[kind] = statistics.median(taken[1:])
        return found
    finally:
        spark.stop()


def copy(session: SparkSession, kind: str, file: str, target: str) -> None:
    """Read a file and write its rows, by Spark alone."""
    read = session.read
    rows = read.parquet(file) if kind == PARQUET else read.schema(SCHEMA).json(file)
    rows.write.parquet(target)


if __name__ == "__main__":
    main()
