"""An iteration on 1,000 and 10 new rows after long history, against recomputation.

    PYTHONPATH=src:services/engine-spark/src .odf/venv/bin/python tests/perf/bench_transform.py [--history 100000 1000000]
        [--only "keyed sum" ..] [--items 1000000] [--versions 1]

For each history and query: the iterations (medians of runs with different rows that all start from the same checkpoint), the transaction that
computes the history from nothing, and plain Spark SQL over the same Parquet, all in one warm session. An iteration
includes judging the query (kept after the first time), reading and writing checkpoints, writing the slice. Nothing of the
coordinator is in it. Joins meet a table of one million items; with `--items 20` a table of few, each of which has many rows,
with `--versions 50000` one in which each has so many versions.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from odfabric.formats.slices.arrow_schema import arrow_to_data_schema
from odfabric.formats.slices.slice_parquet import SliceWriter
from odfabric.formats.slices.slice_schema import new_slice_schema
from odfabric.model.engine import SliceFile, TransformRequest, TransformRequestInput, TransformStep
from odfabric.model.identity import DatasetId
from odfabric.model.instant import Instant
from odfabric.model.metadata import TemporalTable, TransformSql
from odfabric.model.multihash import Multihash, sha3_256_multihash
from odfabric.model.offsets import OffsetRange
from odfabric.model.vocabulary import DatasetVocabulary
from odfabric_engine_spark.arrays.mapped_files import MappedFiles
from odfabric_engine_spark.arrays.memory_reuse import reuse_freed_memory
from odfabric_engine_spark.execute.execute_transform import execute_transform
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.calls.exchange_folder import ExchangeFolder
from odfabric_engine_spark.spark.calls.plan_cache import KeptPlans
from odfabric_engine_spark.spark.session import SparkProcess, request_session, start_spark
from odfabric_engine_spark.spark.settings import EngineSettings

QUERIES = {
    "linear map": "select event_time, id, city, value * 2 as twice from input where count > 10",
    "keyed sum": "select max(event_time) as event_time, city, sum(count) as total, avg(value) as mean from input group by city",
    "1-hour window": (
        "select window.start as event_time, city, sum(count) as total"
        " from input group by window(event_time, '1 hour'), city"
    ),
    "join": "select l.event_time, l.id, i.price from input l join items i on l.item = i.item",
    "optional reference": (
        "select l.event_time, l.id, r.value from input l join input r"
        " on case when l.count < 25 then l.item end = case when r.count < 25 then r.id end"
    ),
    "top 3": (
        "select event_time, id, item, count from"
        " (select *, row_number() over (partition by item order by count desc, id) as place from input) where place <= 3"
    ),
    "latest": "select max(event_time) as event_time, city, max_by(value, event_time) as value from input group by city",
    "lag": "select event_time, id, item, value, lag(value) over (partition by item order by event_time, id) as last from input",
    "last minute": (
        "select event_time, id, item, avg(value) over (partition by item order by event_time"
        " range between interval 1 minute preceding and current row) as mean from input"
    ),
    "balance": "select event_time, id, item, sum(count) over (partition by item order by event_time, id) as balance from input",
    "peak": "select event_time, id, item, max(value) over (partition by item order by event_time, id) as peak from input",
    "last known": (
        "select event_time, id, item, last_value(case when count > 90 then value end) ignore nulls"
        " over (partition by item order by event_time, id rows between unbounded preceding and current row) as known from input"
    ),
    "percentile": (
        "select max(event_time) as event_time, item % 10 as tens, percentile(value, 0.95) as p from input group by item % 10"
    ),
    "distinct of all": "select max(event_time) as event_time, count(distinct item) as items from input",
    "top 10 of all": "select * from (select event_time, id, item, count from input order by value desc, id limit 10)",
    "temporal join": (
        "select l.event_time, l.id, i.price from input l join lateral (select v.price from items v"
        " where v.item = l.item and v.event_time <= l.event_time order by v.event_time desc limit 1) i"
    ),
}
"""By name; those that name `items` read the table of items too."""
PLAIN = {
    "temporal join": (
        "select any_value(l.event_time) as event_time, any_value(l.id) as id, max_by(i.price, i.event_time) as price"
        " from input l join items i on l.item = i.item and i.event_time <= l.event_time group by l.offset"
    )
}
"""What plain Spark runs where it cannot run the query itself."""
PLAIN_OF_MANY = {
    "temporal join": (
        "select event_time, id, price from (select event_time, id, row, last_value(price) ignore nulls over (partition by item"
        " order by event_time, row rows between unbounded preceding and current row) as price from (select event_time, id, item,"
        " 1 as row, null as price from input union all select event_time, null, item, 0, price from items)) where row = 1"
    )
}
"""The same where each item has so many versions that rows cannot be joined with all of them."""
NEW_ROWS = 1_000
FEW_ROWS = 10
RUNS = 7
RUNS_OF_ALL = 3
"""Of what reads the whole history."""
WARM_ROUNDS = 7
"""Rounds of the whole history that are not counted: so many it takes until Java has compiled both."""
ITEMS = 1_000_000
CITIES = 5_000
SLICE_ROWS = 100_000
START_MS = 1_704_067_200_000
STEP_MS = 50
"""Time between rows: a million of them last some 14 hours."""

SCHEMA = new_slice_schema(
    (
        pa.field("id", pa.int64()),
        pa.field("item", pa.int64()),
        pa.field("city", pa.string()),
        pa.field("value", pa.float64()),
        pa.field("count", pa.int32()),
    ),
    vocabulary=DatasetVocabulary(),
)
ITEM_SCHEMA = new_slice_schema(
    (pa.field("item", pa.int64()), pa.field("price", pa.int32())), vocabulary=DatasetVocabulary()
)


def write_slices(folder: Path, rows: int, items: int) -> list[SliceFile]:
    """The history in slices of 100,000 rows, the new rows in one more."""
    bounds = pairwise([*range(0, rows, SLICE_ROWS), rows])
    history = [write_rows(folder, f"slice-{rows}-{begin}", begin, end, items) for begin, end in bounds]
    return [*history, write_new_rows(folder, rows, items)]


def write_new_rows(folder: Path, rows: int, items: int, number: int = 0) -> SliceFile:
    """Rows that come after so many; for each number they are others."""
    return write_rows(folder, f"new-{rows}-{number}", rows, rows + NEW_ROWS, items, seed=number)


def write_rows(folder: Path, path: str, begin: int, end: int, items: int, seed: int = 0) -> SliceFile:
    """A slice of the input."""
    chance = np.random.default_rng([begin, seed])
    offsets, count = np.arange(begin, end), end - begin
    own = {
        "id": pa.array(offsets),
        "item": pa.array(chance.integers(0, items, count)),
        "city": pa.array([f"city {number}" for number in chance.integers(0, CITIES, count)]),
        "value": pa.array(chance.normal(size=count)),
        "count": pa.array(chance.integers(0, 100, count), pa.int32()),
    }
    return write_slice(folder, path, SCHEMA, offsets, START_MS + offsets * STEP_MS, own)


def write_items(folder: Path, items: int, versions: int = 1) -> list[SliceFile]:
    """Versions of each item, from before the history."""
    offsets = np.arange(items * versions)
    own = {"item": pa.array(offsets % items), "price": pa.array(offsets % 1000, pa.int32())}
    times = START_MS - versions + offsets // items
    return [write_slice(folder, f"items-{items}", ITEM_SCHEMA, offsets, times, own)]


def write_slice(
    folder: Path,
    path: str,
    schema: pa.Schema,
    offsets: npt.NDArray[np.int64],
    times: npt.NDArray[np.int64],
    own: dict[str, pa.Array],
) -> SliceFile:
    """A slice of appended rows."""
    instants = pa.array(times, pa.timestamp("ms", "UTC"))
    system = {"offset": pa.array(offsets), "op": pa.array(np.zeros(len(offsets), np.int32)), "system_time": instants}
    columns = {**system, "event_time": instants, **own}
    with SliceWriter(folder / path, schema) as writer:
        table = pa.table({name: columns[name].cast(schema.field(name).type) for name in schema.names})
        for batch in table.cast(schema).to_batches():
            writer.write(batch)
    return SliceFile(path=path, offsets=OffsetRange(int(offsets[0]), int(offsets[-1]) + 1))


@dataclass(frozen=True)
class Reading:
    """How much input a transaction takes: offsets [begin, end), items with the first."""

    begin: int
    end: int
    items: bool


class Bench:
    """One warm session and a folder for its files."""

    def __init__(self, spark: SparkProcess, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.slices: list[SliceFile] = []
        self.items: list[SliceFile] = []
        self.new_rows: list[SliceFile] = []
        self.has_many_versions = False
        self.plans: KeptPlans[Any] = KeptPlans()
        self.mapped = MappedFiles()
        self.hashes: dict[str, Multihash] = {}
        self._number = 0
        self._loose: set[str] = set()

    def transform(self, sql: str, reading: Reading, before: str | None) -> str:
        """One transaction; the name of its checkpoint."""
        self._number += 1
        inputs = [self._input("input", b"\x01", SCHEMA, self.slices, reading.begin, reading.end)]
        if " items " in sql:
            total = self.items[-1].offsets.end
            begin = 0 if reading.items else total
            inputs.append(self._input("items", b"\x02", ITEM_SCHEMA, self.items, begin, total))
        lookups = (TemporalTable(name="items", primary_key=("item",)),) if " lateral " in sql else None
        checkpoint = f"checkpoint-{self._number}"
        request = TransformRequest(
            dataset_id=DatasetId(b"\x7f" * 32),
            vocabulary=DatasetVocabulary(),
            transform=TransformSql(engine="spark", query=sql, temporal_tables=lookups),
            inputs=tuple(inputs),
            data_schema=None,
            prev_watermark=None,
            system_time=Instant.from_millis(START_MS + 10**9),
            next_offset=0,
            checkpoint_paths=() if before is None else (before,),
            checkpoint_hashes=() if before is None else (self.hashes[before],),
            new_checkpoint_path=checkpoint,
            new_data_path=f"data-{self._number}",
        )
        exchange = ExchangeFolder.at(self.folder)
        with exchange.scratch(checkpoint) as scratch:
            session = request_session(self.spark.session)
            call = EngineCall(
                session=session,
                exchange=exchange,
                settings=self.spark.settings,
                scratch=scratch,
                plans=self.plans,
                mapped=self.mapped,
            )
            execute_transform(request, call)
        self._loose |= {checkpoint, f"data-{self._number}"}
        return checkpoint

    def _input(
        self, alias: str, number: bytes, schema: pa.Schema, slices: list[SliceFile], begin: int, end: int
    ) -> TransformRequestInput:
        instant = Instant.from_millis(START_MS + end * STEP_MS)
        taken = tuple(one for one in slices if one.offsets.end > begin and one.offsets.begin < end)
        return TransformRequestInput(
            dataset_id=DatasetId(number * 32),
            query_alias=alias,
            vocabulary=DatasetVocabulary(),
            data_schema=arrow_to_data_schema(schema),
            offsets=OffsetRange(begin, end),
            slices=taken,
            steps=(TransformStep(system_time=instant, last_offset=end - 1, watermark=instant),),
        )

    def remember(self, checkpoint: str) -> str:
        """A checkpoint on which others can build.

        As at a node, the engine's file is a link to the one that is kept.
        """
        self._loose.remove(checkpoint)
        (self.folder / f"kept-{checkpoint}").hardlink_to(self.folder / checkpoint)
        with (self.folder / checkpoint).open("rb") as file:
            self.hashes[checkpoint] = sha3_256_multihash(hashlib.file_digest(file, hashlib.sha3_256).digest())
        return checkpoint

    def tidy(self) -> None:
        """Remove what transactions wrote that nobody builds on, as a node does.

        Or each would fill other pages of memory, and in a virtual machine those that were not used before cost half of
        the time of a first run."""
        for name in self._loose:
            (self.folder / name).unlink(missing_ok=True)
        self._loose.clear()

    def seconds(self, doing: Callable[[], object]) -> float:
        """How long something takes; tidies up behind it."""
        started = time.perf_counter()
        doing()
        took = time.perf_counter() - started
        self.tidy()
        return took

    def iteration(self, sql: str, new_rows: int, before: str) -> None:
        """A transaction with so many new rows, which are others each time."""
        self.slices[-1] = self.new_rows[self._number % len(self.new_rows)]
        history = self.slices[-1].offsets.begin
        self.transform(sql, Reading(history, history + new_rows, items=False), before)

    def plain(self, name: str, sql: str) -> None:
        """Spark alone: the query over all slices, its result written as Parquet."""
        session = request_session(self.spark.session)
        for alias, slices in (("input", self.slices), ("items", self.items)):
            session.read.parquet(*(str(self.folder / one.path) for one in slices)).createOrReplaceTempView(alias)
        stated = PLAIN_OF_MANY if self.has_many_versions else PLAIN
        session.sql(stated.get(name, sql)).coalesce(1).write.mode("overwrite").parquet(str(self.folder / "plain"))


def median(work: Bench, doing: Callable[[], object], runs: int) -> float:
    """The median over some runs, after one that is not counted."""
    work.seconds(doing)
    return statistics.median(work.seconds(doing) for _ in range(runs))


def in_turn(work: Bench, doings: list[Callable[[], object]]) -> list[float]:
    """The median of each over some rounds, after some that are not counted."""
    found: list[list[float]] = [[] for _ in doings]
    for round_ in range(WARM_ROUNDS + RUNS_OF_ALL):
        for doing, times in zip(doings, found, strict=True):
            took = work.seconds(doing)
            if round_ >= WARM_ROUNDS:
                times.append(took)
    return [statistics.median(times) for times in found]


@contextmanager
def bench(**changes: Any) -> Iterator[Bench]:
    """A started Spark, in a process that handles memory as the engine's does.

    `changes` are settings of the engine.
    """
    reuse_freed_memory()
    with tempfile.TemporaryDirectory() as folder:
        settings = replace(EngineSettings(exchange=Path(folder), memory_mib=2048), **changes)
        spark = start_spark(settings)
        try:
            yield Bench(spark, Path(folder))
        finally:
            spark.stop()


def measure(work: Bench, name: str, sql: str) -> None:
    history = work.slices[-1].offsets.begin
    first = Reading(0, history, items=True)
    started = time.perf_counter()
    before = work.remember(work.transform(sql, first, None))
    cold = time.perf_counter() - started
    # In turn, so that both are as warm: Java compiles what it runs often, and they share much of it.
    loading, plain = in_turn(work, [lambda: work.transform(sql, first, None), lambda: work.plain(name, sql)])
    iteration = median(work, lambda: work.iteration(sql, NEW_ROWS, before), RUNS)
    few = median(work, lambda: work.iteration(sql, FEW_ROWS, before), RUNS)
    size_mib = (work.folder / before).stat().st_size / 2**20
    print(
        f"{name:<13} after {history:>10,} rows: {NEW_ROWS:,} more {iteration * 1000:5.0f} ms, {FEW_ROWS} more {few * 1000:4.0f} ms; "
        f"plain Spark anew {plain:5.2f} s, {plain / iteration:4.1f} and {plain / few:4.1f} times as long; "
        f"first run {loading:6.2f} s ({cold:.2f} s cold), {loading / plain:4.1f} times plain Spark; checkpoint {size_mib:,.1f} MiB",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--history", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--only", nargs="+", default=list(QUERIES))
    parser.add_argument("--items", type=int, default=ITEMS)
    parser.add_argument("--versions", type=int, default=1)
    arguments = parser.parse_args()
    print(f"load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
    with bench() as work:
        work.items = write_items(work.folder, arguments.items, arguments.versions)
        work.has_many_versions = arguments.versions > 1
        for rows in arguments.history:
            work.slices = write_slices(work.folder, rows, arguments.items)
            work.new_rows = [write_new_rows(work.folder, rows, arguments.items, number) for number in range(1 + RUNS)]
            for name in arguments.only:
                measure(work, name, QUERIES[name])
    print(f"load average {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
