"""The state as at an older block, and as of an older event time, against the head.

    PYTHONPATH=src:services/engine-spark/src:. .odf/venv/bin/python tests/perf/bench_as_at.py [--rows 1000000] [--slices 100] [--runs 5] [--sql]

A Snapshot dataset of so many keys, added in the first half of the slices and corrected in the second. The index keeps the states of the
newest 4 blocks, as by default; older ones are found by taking records back. Both are answers of 100 rows; runs take turns, so that other
load falls on all of them. The lines of all records are of a node without an index. With `--sql` the same moments are asked of Spark
instead, by queries that read one column of all rows.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from odfabric.adapters.memory.datasets.exchange import MemoryExchange
from odfabric.adapters.persist.state_index import PersistStateIndex
from odfabric.domain.chain.append import link_blocks
from odfabric.domain.ingestion.ingest_plan import plan_add_data
from odfabric.formats.slices.arrow_schema import arrow_to_data_schema
from odfabric.formats.slices.slice_parquet import SliceWriter
from odfabric.formats.slices.slice_schema import TIMESTAMP_TYPE
from odfabric.model.engine import QueryRequest, QueryResult
from odfabric.model.instant import Instant
from odfabric.model.offsets import OffsetRange
from odfabric.ports.engine import Engine, ProgressListener
from odfabric.testing.changelogs import C_FROM, C_TO, SLICE_COLUMNS, A
from odfabric.usecases.chain.commit import PlannedCommit
from odfabric.usecases.chain.store_slice import store_slice
from odfabric.usecases.queries.query_data import QueryData
from odfabric.usecases.queries.query_document import QueryForm
from odfabric.usecases.state.read_state import ReadState
from odfabric.wiring.node import Node
from odfabric_persist.client import PersistClient
from odfabric_persist.location.memory import MemoryBlob, MemoryConsensus
from tests.usecases.committed import SECOND, START, Committed

BACK = (1, 5, 10, 25)
"""Blocks before the head."""


class Large(Committed):
    """A dataset whose slices come as arrays."""

    def commit_records(self, operations: np.ndarray, ids: np.ndarray, versions: np.ndarray) -> None:
        """A block of these records, each a function of id and version."""
        node, dataset = self.memory.node, self.entry.id
        _, state = node.repository.current(dataset)
        count = len(ids)
        offsets = np.arange(state.next_offset, state.next_offset + count)
        times = pa.array(1_700_000_000_000 + ids * 1000 + versions).cast(TIMESTAMP_TYPE)
        zeros = pa.array(np.zeros(count, np.int64)).cast(TIMESTAMP_TYPE)
        keys = pa.array(ids).cast(pa.string())
        arrays = [pa.array(offsets), pa.array(operations.astype(np.int32)), zeros, times, keys]
        path = self.memory.folder / f"slice-{len(self.heads)}"
        with SliceWriter(path, SLICE_COLUMNS) as writer:
            for batch in pa.table([*arrays, pa.array(ids * 0.5 + versions)], schema=SLICE_COLUMNS).to_batches(65_536):
                writer.write(batch)
        kept = store_slice(
            dataset, path, OffsetRange(state.next_offset, state.next_offset + count), objects=self.memory.objects
        )
        schema = arrow_to_data_schema(SLICE_COLUMNS)
        events = plan_add_data(state, data_schema=schema, new_data=kept, max_event_time=None)
        blocks = link_blocks(state, events, system_time=Instant(START.epoch_ns + len(self.heads) * SECOND))
        node.commits.commit(dataset, lambda _: PlannedCommit(tuple(blocks)))
        self.heads.append(node.datasets.head(self.entry))


class Spark:
    """The engine's share of a query, in one warm session of this process."""

    def __init__(self, engine: Engine, exchange: Path) -> None:
        from odfabric_engine_spark.spark.session import start_spark
        from odfabric_engine_spark.spark.settings import EngineSettings

        self._engine = engine
        self._settings = EngineSettings(exchange=exchange, memory_mib=4096)
        self._process = start_spark(self._settings)
        self.source = ""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def query(self, request: QueryRequest, *, progress: ProgressListener) -> QueryResult:
        """See the port."""
        from odfabric_engine_spark.ingest.raw_query import run_query
        from odfabric_engine_spark.spark.calls.call import EngineCall
        from odfabric_engine_spark.spark.calls.exchange_folder import ExchangeFolder
        from odfabric_engine_spark.spark.session import request_session

        root = self._settings.exchange
        (projection,) = (each.projection for each in request.inputs)
        self.source = "chain" if projection is None or projection.rows_path is None else "index"
        with tempfile.TemporaryDirectory(dir=root) as scratch:
            call = EngineCall(
                session=request_session(self._process.session),
                exchange=ExchangeFolder.at(root),
                settings=self._settings,
                scratch=Path(scratch),
            )
            return run_query(request, call)

    def stop(self) -> None:
        """End its process."""
        self._process.stop()


def sql_works(spark: Spark, node: Node, plain: Node, moments: dict[str, str]) -> dict[str, Callable[[], str]]:
    """Queries at moments, each a table function; the last one without an index."""

    def ask(by: Node, table: str) -> str:
        asked = QueryData(sql=f"SELECT count(*) AS n, sum(value) AS s FROM {table}")
        by.rows.query_document(asked, QueryForm())
        return spark.source

    works = {label: lambda table=table: ask(node, table) for label, table in moments.items()}
    whole = moments[f"sql {BACK[-1]} blocks back"]
    return {**works, "sql, all records": lambda: ask(plain, whole)}


def report(works: dict[str, Callable[[], str]], of: str, runs: int) -> None:
    """Run works in turn, and print each beside the one named `of`."""
    found: dict[str, list[float]] = {label: [] for label in works}
    sources = {}
    works[of]()  # the first query of a process is of another kind
    for _ in range(runs):
        for label, work in works.items():
            start = time.perf_counter()
            sources[label] = work()
            found[label].append(time.perf_counter() - start)
    head = statistics.median(found[of])
    for label, times in found.items():
        median = statistics.median(times)
        print(f"{label:24} {median * 1000:8.0f} ms, {median / head:5.2f} times the head, by {sources[label]}")


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--slices", type=int, default=100)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--sql", action="store_true")
    given = parser.parse_args()
    half = given.slices // 2
    size = given.rows // half
    with tempfile.TemporaryDirectory() as name:
        large = Large(Path(name))
        client = PersistClient(MemoryBlob(), MemoryConsensus())
        index = PersistStateIndex(lambda: client, large.memory.objects, MemoryExchange(Path(name) / "s").session)
        node = Node(replace(large.memory.node.ports, state_index=index), large.memory.settings)
        for number in range(half):
            ids = np.arange(number * size, (number + 1) * size)
            large.commit_records(np.full(size, int(A)), ids, np.zeros(size, np.int64))
        for number in range(half):
            ids = np.repeat(np.arange(number * size, (number + 1) * size, 2), 2)
            pairs = np.tile([0, 1], len(ids) // 2)
            large.commit_records(np.where(pairs == 0, int(C_FROM), int(C_TO)), ids, pairs)
        node.indexes.bring_forward(large.entry, lambda _: None)
        asked = {
            "head": ReadState(limit=100),
            **{f"{back} blocks back": ReadState(limit=100, as_at=large.heads[-1 - back].hash) for back in BACK},
        }
        for back in BACK:
            # As of the last event time of the block before so many of the newest corrections.
            moment = Instant.from_millis(1_700_000_000_000 + (given.rows - back * size) * 1000 - 1)
            asked[f"as of {back} slices back"] = ReadState(limit=100, as_of=moment)
        asked["as of the end"] = ReadState(limit=100, as_of=Instant.from_millis(4_000_000_000_000))
        works = {
            label: lambda one=one: str(node.rows.state(large.entry, one)["source"]) for label, one in asked.items()
        }
        plain = ReadState(limit=100, as_at=large.heads[-1 - BACK[-1]].hash)
        works["all records"] = lambda: str(large.plain.rows.state(large.entry, plain)["source"])
        end = asked["as of the end"]
        works["as of, all records"] = lambda: str(large.plain.rows.state(large.entry, end)["source"])
        print(f"{given.rows} rows, {given.slices} slices of {size} records")
        if not given.sql:
            report(works, "head", given.runs)
        else:
            spark = Spark(large.memory.engine, node.ports.exchange.root)
            moments = {"sql head": "to_table('readings')"}
            for back in BACK:
                moments[f"sql {back} blocks back"] = f"as_at('readings', '{large.heads[-1 - back].hash}')"
            for back in BACK:
                moments[f"sql as of {back} back"] = f"as_of('readings', '{asked[f'as of {back} slices back'].as_of}')"
            nodes = [Node(replace(each.ports, engine=spark), each.settings) for each in (node, large.plain)]
            report(sql_works(spark, *nodes, moments), "sql head", given.runs)
            spark.stop()


if __name__ == "__main__":
    main()
