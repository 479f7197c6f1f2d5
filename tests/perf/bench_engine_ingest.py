"""The engine's share of a push, against Spark's bare read and write.

Measured on Parquet of a million rows, and small pushes.

    PYTHONPATH=src:services/engine-spark/src .odf/venv/bin/python tests/perf/bench_engine_ingest.py [--rows 1000000]

Both run in one warm session; a small push is a CSV of 1,000 rows, with a history of the same size but for Append.
Nothing of the coordinator is in the figures: no hashing, no commit.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from odfabric.model.engine import IngestRequest, SliceFile
from odfabric.model.instant import Instant
from odfabric.model.source import (
    MergeStrategy,
    MergeStrategyAppend,
    MergeStrategyChangelogStream,
    MergeStrategyLedger,
    MergeStrategySnapshot,
    MergeStrategyUpsertStream,
    ReadStep,
    ReadStepCsv,
    ReadStepParquet,
)
from odfabric.model.vocabulary import DatasetVocabulary
from odfabric_engine_spark.ingest.ingest_files import ingest
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.calls.exchange_folder import ExchangeFolder
from odfabric_engine_spark.spark.session import SparkProcess, request_session, start_spark
from odfabric_engine_spark.spark.settings import EngineSettings

_RUNS = 5
_SMALL_ROWS = 1_000
_SMALL_RUNS = 40


def mixed_table(rows: int) -> pa.Table:
    """Keys, times, numbers and texts as pushes have them.

    Times rise but are not sorted.
    """
    chance = np.random.default_rng(1)
    start = np.datetime64("2024-01-01T00:00:00", "ms").astype(np.int64)
    times = start + np.arange(rows) * 1000 + chance.integers(-60_000, 60_000, rows)
    return pa.table(
        {
            "event_time": pa.array(times, pa.timestamp("ms", "UTC")),
            "id": pa.array(np.arange(rows)),
            "city": pa.array([f"city {number}" for number in chance.integers(0, 5000, rows)]),
            "value": pa.array(chance.normal(size=rows)),
            "count": pa.array(chance.integers(0, 100, rows), pa.int32()),
        }
    )


class Bench:
    """One warm session and a folder for its files."""

    def __init__(self, spark: SparkProcess, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self._number = 0

    def ingest(
        self, read: ReadStep, content: Path, merge: MergeStrategy, *, history: tuple[SliceFile, ...] = ()
    ) -> SliceFile | None:
        """One ingest as the service does it; the new slice."""
        self._number += 1
        output = f"out-{self._number}"
        request = IngestRequest(
            vocabulary=DatasetVocabulary(),
            data_paths=(content.name,),
            file_names=(content.name,),
            read=read,
            preprocess=None,
            merge=merge,
            data_schema=None,
            history=history,
            system_time=Instant.parse("2050-01-01T00:00:00Z"),
            event_time_fallback=Instant.parse("2049-12-31T00:00:00Z"),
            next_offset=history[-1].offsets.end if history else 0,
            new_data_path=output,
        )
        exchange = ExchangeFolder.at(self.folder)
        with exchange.scratch(output) as scratch:
            session = request_session(self.spark.session)
            call = EngineCall(session=session, exchange=exchange, settings=self.spark.settings, scratch=scratch)
            result = ingest(request, call)
        return SliceFile(path=output, offsets=result.offsets) if result.offsets else None

    def bare(self, content: Path) -> None:
        """Spark alone: the same rows read and written."""
        target = self.folder / "bare"
        session = request_session(self.spark.session)
        session.read.parquet(str(content)).write.mode("overwrite").parquet(str(target))
        shutil.rmtree(target)


def small_csv(folder: Path, number: int, *, changes: bool) -> Path:
    path = folder / f"small-{number}-{changes}.csv"
    kind = ",0" if changes else ""
    rows = (f"{row + number * 10},city {row},{row * number}{kind}\n" for row in range(_SMALL_ROWS))
    path.write_text(f"id,city,value{',op' if changes else ''}\n" + "".join(rows))
    return path


def seconds(work: Callable[[], object], runs: int) -> list[float]:
    found = []
    for _ in range(runs):
        started = time.perf_counter()
        work()
        found.append(time.perf_counter() - started)
    return sorted(found)


@contextmanager
def bench() -> Iterator[Bench]:
    with tempfile.TemporaryDirectory() as folder:
        spark = start_spark(EngineSettings(exchange=Path(folder), memory_mib=2048))
        try:
            yield Bench(spark, Path(folder))
        finally:
            spark.stop()


STRATEGIES: tuple[MergeStrategy, ...] = (
    MergeStrategyAppend(),
    MergeStrategyLedger(primary_key=("id",)),
    MergeStrategySnapshot(primary_key=("id",)),
    MergeStrategyUpsertStream(primary_key=("id",)),
    MergeStrategyChangelogStream(primary_key=("id",)),
)


def name_of(merge: MergeStrategy) -> str:
    return type(merge).__name__.removeprefix("MergeStrategy")


def large(work: Bench, rows: int) -> None:
    content, changes = work.folder / "large.parquet", work.folder / "changes.parquet"
    table = mixed_table(rows)
    pq.write_table(table, content)
    pq.write_table(table.append_column("op", pa.array(np.zeros(rows, dtype=np.int32))), changes)
    work.bare(content)
    bare = statistics.median(seconds(lambda: work.bare(content), _RUNS))
    print(f"bare Spark read and write of {rows:,} rows: {bare:.2f} s")
    for merge in STRATEGIES:
        given = changes if isinstance(merge, MergeStrategyChangelogStream) else content
        push = partial(work.ingest, ReadStepParquet(), given, merge)
        push()
        ours = statistics.median(seconds(push, _RUNS))
        print(f"{name_of(merge):<15} {ours:.2f} s, {ours / bare:.1f} times as long")


def small(work: Bench) -> None:
    for merge in STRATEGIES:
        changes = isinstance(merge, MergeStrategyChangelogStream)
        files = iter([small_csv(work.folder, number, changes=changes) for number in range(2 * _SMALL_RUNS + 1)])
        read = ReadStepCsv(header=True, infer_schema=True)
        first = work.ingest(read, next(files), merge)
        history = (first,) if first and not isinstance(merge, MergeStrategyAppend) else ()
        push = partial(_push_next, work, read, files, merge, history)
        seconds(push, _SMALL_RUNS)
        times = seconds(push, _SMALL_RUNS)
        print(
            f"{name_of(merge):<15} of {_SMALL_ROWS:,} rows of CSV, warm: "
            f"median {statistics.median(times) * 1000:.0f} ms, p95 {times[int(len(times) * 0.95)] * 1000:.0f} ms"
        )


def _push_next(
    work: Bench, read: ReadStep, files: Iterator[Path], merge: MergeStrategy, history: tuple[SliceFile, ...]
) -> None:
    work.ingest(read, next(files), merge, history=history)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    arguments = parser.parse_args()
    print(f"load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
    with bench() as work:
        large(work, arguments.rows)
        small(work)
    print(f"load average {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
