"""A transform's iteration on 1,000 new rows after a long history, against computing everything anew.

    PYTHONPATH=src:services/engine-spark/src .odf/venv/bin/python tests/perf/bench_transform.py [--history 100000 1000000]

For each history and query: the iteration (median of runs that all start from the same checkpoint), the transaction that
computes history and new rows from nothing, and plain Spark SQL over the same Parquet, all in one warm session. The iteration
includes judging the query, reading the checkpoint, writing slice and checkpoint. Nothing of the coordinator is in it.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa

from odfabric.formats.arrow_schema import arrow_to_data_schema
from odfabric.formats.slice_parquet import SliceWriter
from odfabric.formats.slice_schema import new_slice_schema
from odfabric.model.engine import SliceFile, TransformRequest, TransformRequestInput, TransformStep
from odfabric.model.identity import DatasetId
from odfabric.model.instant import Instant
from odfabric.model.metadata import TransformSql
from odfabric.model.offsets import OffsetRange
from odfabric.model.vocabulary import DatasetVocabulary
from odfabric_engine_spark.call import EngineCall
from odfabric_engine_spark.exchange import ExchangeFolder
from odfabric_engine_spark.incremental.execute import execute_transform
from odfabric_engine_spark.session import SparkProcess, request_session, start_spark
from odfabric_engine_spark.settings import EngineSettings

QUERIES = {
    "linear map": "select event_time, id, city, value * 2 as twice from input where count > 10",
    "keyed sum": "select max(event_time) as event_time, city, sum(count) as total, avg(value) as mean from input group by city",
    "1-hour window": (
        "select window.start as event_time, city, sum(count) as total"
        " from input group by window(event_time, '1 hour'), city"
    ),
}
NEW_ROWS = 1_000
RUNS = 7
CITIES = 5_000
SLICE_ROWS = 100_000
START_MS = 1_704_067_200_000
STEP_MS = 50
"""Time between rows: a million of them last some 14 hours."""

SCHEMA = new_slice_schema(
    (
        pa.field("id", pa.int64()),
        pa.field("city", pa.string()),
        pa.field("value", pa.float64()),
        pa.field("count", pa.int32()),
    ),
    vocabulary=DatasetVocabulary(),
)


def write_slices(folder: Path, rows: int) -> list[SliceFile]:
    """The history in slices of 100,000 rows, the new rows in one more."""
    chance = np.random.default_rng(1)
    bounds = [*range(0, rows, SLICE_ROWS), rows, rows + NEW_ROWS]
    slices = []
    for begin, end in pairwise(bounds):
        offsets, count = np.arange(begin, end), end - begin
        times = START_MS + offsets * STEP_MS
        columns = {
            "offset": pa.array(offsets),
            "op": pa.array(np.zeros(count, np.int32)),
            "system_time": pa.array(times, pa.timestamp("ms", "UTC")),
            "event_time": pa.array(times, pa.timestamp("ms", "UTC")),
            "id": pa.array(offsets),
            "city": pa.array([f"city {number}" for number in chance.integers(0, CITIES, count)]),
            "value": pa.array(chance.normal(size=count)),
            "count": pa.array(chance.integers(0, 100, count), pa.int32()),
        }
        path = f"slice-{rows}-{begin}"
        with SliceWriter(folder / path, SCHEMA) as writer:
            table = pa.table({name: columns[name].cast(SCHEMA.field(name).type) for name in SCHEMA.names})
            for batch in table.cast(SCHEMA).to_batches():
                writer.write(batch)
        slices.append(SliceFile(path=path, offsets=OffsetRange(begin, end)))
    return slices


class Bench:
    """One warm session and a folder for its files."""

    def __init__(self, spark: SparkProcess, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self._number = 0

    def transform(self, sql: str, slices: list[SliceFile], begin: int, checkpoint: str | None) -> str:
        """One transaction over everything from offset `begin` on; the name of its checkpoint."""
        self._number += 1
        end = slices[-1].offsets.end
        step = TransformStep(
            system_time=Instant.from_millis(START_MS + end * STEP_MS),
            last_offset=end - 1,
            watermark=Instant.from_millis(START_MS + end * STEP_MS),
        )
        new_checkpoint = f"checkpoint-{self._number}"
        request = TransformRequest(
            dataset_id=DatasetId(b"\x7f" * 32),
            vocabulary=DatasetVocabulary(),
            transform=TransformSql(engine="spark", query=sql),
            inputs=(
                TransformRequestInput(
                    dataset_id=DatasetId(b"\x01" * 32),
                    query_alias="input",
                    vocabulary=DatasetVocabulary(),
                    data_schema=arrow_to_data_schema(SCHEMA),
                    offsets=OffsetRange(begin, end),
                    slices=tuple(one for one in slices if one.offsets.end > begin),
                    steps=(step,),
                ),
            ),
            data_schema=None,
            prev_watermark=None,
            system_time=Instant.from_millis(START_MS + 10**9),
            next_offset=0,
            checkpoint_paths=() if checkpoint is None else (checkpoint,),
            new_checkpoint_path=new_checkpoint,
            new_data_path=f"data-{self._number}",
        )
        exchange = ExchangeFolder.at(self.folder)
        with exchange.scratch(new_checkpoint) as scratch:
            session = request_session(self.spark.session)
            call = EngineCall(session=session, exchange=exchange, settings=self.spark.settings, scratch=scratch)
            execute_transform(request, call)
        return new_checkpoint

    def plain(self, sql: str, slices: list[SliceFile]) -> None:
        """Spark alone: the query over all slices, its result written as Parquet."""
        session = request_session(self.spark.session)
        session.read.parquet(*(str(self.folder / one.path) for one in slices)).createOrReplaceTempView("input")
        session.sql(sql).coalesce(1).write.mode("overwrite").parquet(str(self.folder / "plain"))


def seconds(work: Callable[[], object], runs: int) -> float:
    """The median over some runs, after one that is not counted."""
    work()
    found = []
    for _ in range(runs):
        started = time.perf_counter()
        work()
        found.append(time.perf_counter() - started)
    return statistics.median(found)


@contextmanager
def bench() -> Iterator[Bench]:
    with tempfile.TemporaryDirectory() as folder:
        settings = replace(EngineSettings(exchange=Path(folder)), memory_mib=2048)
        spark = start_spark(settings)
        try:
            yield Bench(spark, Path(folder))
        finally:
            spark.stop()


def measure(work: Bench, name: str, sql: str, slices: list[SliceFile]) -> None:
    history = slices[-1].offsets.begin
    before = work.transform(sql, slices[:-1], 0, None)
    iteration = seconds(lambda: work.transform(sql, slices, history, before), RUNS)
    anew = seconds(lambda: work.transform(sql, slices, 0, None), 3)
    plain = seconds(lambda: work.plain(sql, slices), 3)
    checkpoint_kib = (work.folder / before).stat().st_size / 1024
    print(
        f"{name:<13} {NEW_ROWS:,} rows after {history:>9,}: {iteration * 1000:5.0f} ms; "
        f"all anew {anew:5.2f} s, {anew / iteration:4.1f} times as long; "
        f"plain Spark {plain:5.2f} s, all anew is {anew / plain:.1f} times as long; checkpoint {checkpoint_kib:,.0f} KiB",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--history", type=int, nargs="+", default=[100_000, 1_000_000])
    arguments = parser.parse_args()
    print(f"load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
    with bench() as work:
        for rows in arguments.history:
            slices = write_slices(work.folder, rows)
            for name, sql in QUERIES.items():
                measure(work, name, sql, slices)
    print(f"load average {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
