"""Rows of a kilobyte: one transaction's time and memory, against plain Spark.

Both over the same Parquet.

    PYTHONPATH=. .odf/venv/bin/python tests/perf/bench_wide_rows.py [--rows 500000] [--characters 900] [--only map ..]

Each query runs in a Spark of its own, once: its first transaction, which reads everything. The memory is the greatest resident
set of the engine's Python process and of its JVM meanwhile, sampled ten times a second; the heap is 2 GiB.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import numpy as np
import pyarrow as pa

from odfabric.formats.slices.arrow_schema import arrow_to_data_schema
from odfabric.formats.slices.slice_parquet import SliceWriter
from odfabric.formats.slices.slice_schema import new_slice_schema
from odfabric.model.engine import SliceFile, TransformRequest, TransformRequestInput, TransformStep
from odfabric.model.identity import DatasetId
from odfabric.model.instant import Instant
from odfabric.model.metadata import TransformSql
from odfabric.model.offsets import OffsetRange
from odfabric.model.vocabulary import DatasetVocabulary
from odfabric_engine_spark.execute.execute_transform import execute_transform
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.calls.exchange_folder import ExchangeFolder
from odfabric_engine_spark.spark.session import request_session, start_spark
from odfabric_engine_spark.spark.settings import EngineSettings

QUERIES = {
    "map": "select event_time, k, text || '!' as text from input",
    "join": "select a.event_time, a.k, a.text from input a join (select k, max(event_time) t from input group by k) b on a.k = b.k",
    "top": "select event_time, k, text from (select *, row_number() over (partition by k order by text) n from input) where n = 1",
    "min": "select max(event_time) as event_time, k, min(text) as text from input group by k",
    "distinct": "select distinct event_time, text from input",
    "count": "select max(event_time) as event_time, k, count(distinct text) as n from input group by k",
}
SCHEMA = new_slice_schema((pa.field("k", pa.int64()), pa.field("text", pa.string())), vocabulary=DatasetVocabulary())
SLICE_ROWS = 50_000
KEYS = 20_000
NOW = Instant.from_millis(1_767_225_600_000)


def write_slices(folder: Path, rows: int, characters: int) -> list[SliceFile]:
    """Texts that no codec makes much smaller."""
    chance, slices = np.random.default_rng(1), []
    for begin in range(0, rows, SLICE_ROWS):
        count = min(SLICE_ROWS, rows - begin)
        data = chance.integers(33, 126, (count, characters), dtype=np.uint8).tobytes().decode("ascii")
        columns = {
            "offset": np.arange(begin, begin + count),
            "op": np.zeros(count, np.int32),
            "system_time": pa.array(np.full(count, NOW.epoch_ns // 1_000_000), pa.timestamp("ms", "UTC")),
            "event_time": pa.array(np.full(count, NOW.epoch_ns // 1_000_000), pa.timestamp("ms", "UTC")),
            "k": chance.integers(0, KEYS, count),
            "text": [data[at : at + characters] for at in range(0, len(data), characters)],
        }
        path = f"slice-{begin}"
        with SliceWriter(folder / path, SCHEMA) as writer:
            for batch in pa.table({name: columns[name] for name in SCHEMA.names}).cast(SCHEMA).to_batches():
                writer.write(batch)
        slices.append(SliceFile(path=path, offsets=OffsetRange(begin, begin + count)))
    return slices


@contextmanager
def greatest_memory(pids: list[int]) -> Iterator[dict[int, int]]:
    """The greatest resident set of some processes in KiB."""
    found, done = dict.fromkeys(pids, 0), Event()

    def sample() -> None:
        while not done.wait(0.1):
            for pid in pids:
                lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
                own = next((int(line.split()[1]) for line in lines if line.startswith("VmRSS")), 0)
                found[pid] = max(found[pid], own)

    thread = Thread(target=sample)
    thread.start()
    try:
        yield found
    finally:
        done.set()
        thread.join()


def request_of(sql: str, slices: list[SliceFile]) -> TransformRequest:
    """A first transaction that reads everything."""
    end = slices[-1].offsets.end
    one = TransformRequestInput(
        dataset_id=DatasetId(b"\x01" * 32),
        query_alias="input",
        vocabulary=DatasetVocabulary(),
        data_schema=arrow_to_data_schema(SCHEMA),
        offsets=OffsetRange(0, end),
        slices=tuple(slices),
        steps=(TransformStep(system_time=NOW, last_offset=end - 1, watermark=NOW),),
    )
    return TransformRequest(
        dataset_id=DatasetId(b"\x7f" * 32),
        vocabulary=DatasetVocabulary(),
        transform=TransformSql(engine="spark", query=sql),
        inputs=(one,),
        data_schema=None,
        prev_watermark=None,
        system_time=NOW,
        next_offset=0,
        checkpoint_paths=(),
        new_checkpoint_path="checkpoint",
        new_data_path="data",
    )


def measure(folder: Path, name: str, slices: list[SliceFile]) -> None:
    settings = EngineSettings(exchange=folder, memory_mib=2048)
    spark = start_spark(settings)
    exchange = ExchangeFolder.at(folder)
    try:
        plain = request_session(spark.session)
        plain.read.parquet(*(str(folder / one.path) for one in slices)).createOrReplaceTempView("input")
        started = time.perf_counter()
        plain.sql(QUERIES[name]).coalesce(1).write.mode("overwrite").parquet(str(folder / "plain"))
        bare = time.perf_counter() - started
        with exchange.scratch(name) as scratch, greatest_memory([os.getpid(), spark.jvm.process.pid]) as memory:
            call = EngineCall(
                session=request_session(spark.session), exchange=exchange, settings=settings, scratch=scratch
            )
            started = time.perf_counter()
            execute_transform(request_of(QUERIES[name], slices), call)
            took = time.perf_counter() - started
    finally:
        spark.stop()
    python, java = (each / 2**20 for each in memory.values())
    print(
        f"{name:<9} {took:6.1f} s, {took / bare:4.1f} times plain Spark ({bare:.1f} s, cold); Python {python:.1f} GiB, JVM {java:.1f} GiB",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--characters", type=int, default=900)
    parser.add_argument("--only", nargs="+", default=list(QUERIES))
    arguments = parser.parse_args()
    size = arguments.rows * arguments.characters / 2**20
    print(
        f"{arguments.rows:,} rows, {size:,.0f} MiB of text; load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores"
    )
    with tempfile.TemporaryDirectory() as folder:
        slices = write_slices(Path(folder), arguments.rows, arguments.characters)
        for name in arguments.only:
            measure(Path(folder), name, slices)


if __name__ == "__main__":
    main()
