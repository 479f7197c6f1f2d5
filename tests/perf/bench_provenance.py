"""Explaining one record after a long history, against recomputing.

    PYTHONPATH=.:src:services/engine-spark/src .odf/venv/bin/python tests/perf/bench_provenance.py [--history 1000000] [--keys 100000] [--records 8]

Of each query: a transaction over the whole history in ten slices, another one over 1,000 new records, and then single records of that one,
explained one call each after a first one that compiles the query. Times are medians in one warm session: witnesses checked by a run of the
query (`verified`), and witnesses alone (`lineage`); CPU is that of this
process and the JVM, whose compiler works for minutes. Nothing of the coordinator is in it.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from odfabric.formats.slices.slice_parquet import SliceWriter
from odfabric.model.engine import SliceFile, TransformStep
from odfabric.model.instant import Instant
from odfabric.model.offsets import OffsetRange
from odfabric.model.provenance import ProvenanceEffort, ProvenanceKind
from odfabric_engine_spark.arrays.kept_files import KeptFiles
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.calls.exchange_folder import ExchangeFolder
from odfabric_engine_spark.spark.session import request_session, start_spark
from odfabric_engine_spark.spark.settings import EngineSettings
from tests.services.engine.provenance.explaining import explained
from tests.services.engine.transforming import HOUR, Derivative, Input, input_schema

QUERIES = {
    "sum per key": "select max(event_time) as event_time, k, sum(v) as s from sales group by k",
    "top 2 per key": (
        "select event_time, k, v from (select *, row_number() over (partition by k order by v desc) r from sales) where r <= 2"
    ),
    "hour and key": (
        "select window.start as event_time, k, sum(v) as s from sales group by window(event_time, '1 hour'), k"
    ),
    "row-wise": "select event_time, k, v * 2 as w from sales",
}
SLICES = 10
NEW_ROWS = 1_000


def sales(folder: Path, history: int, keys: int) -> Input:
    """An input of `history` records in ten slices, and 1,000 more."""
    chance = np.random.default_rng(1)
    one = Input(folder, "sales", input_schema(pa.field("k", pa.int64()), pa.field("v", pa.int64())))
    begin = 0
    for number, count in enumerate([history // SLICES] * SLICES + [NEW_ROWS]):
        arrays = [
            pa.array(np.arange(begin, begin + count)),
            pa.array(np.zeros(count, np.int32)),
            pa.array(np.full(count, number * 1000)).cast(pa.timestamp("ms", "UTC")),
            pa.array(chance.integers(0, 100 * HOUR, count)).cast(pa.timestamp("ms", "UTC")),
            pa.array(chance.integers(0, keys, count)),
            pa.array(chance.integers(0, 1_000_000, count)),
        ]
        path = f"sales-{number}"
        with SliceWriter(folder / path, one.schema) as writer:
            for batch in pa.Table.from_arrays(arrays, schema=one.schema).to_batches():
                writer.write(batch)
        # As a node's object store has it: only of files that others have too are indexes kept.
        os.link(folder / path, folder / f"{path}-stored")
        one.slices.append(SliceFile(path=path, offsets=OffsetRange(begin, begin + count)))
        begin += count
        one.steps.append(
            TransformStep(
                system_time=Instant.from_millis(number * 1000),
                last_offset=begin - 1,
                watermark=Instant.from_millis((101 if number >= SLICES - 1 else 1) * HOUR),
            )
        )
    return one


def call_in(folder: Path, settings: EngineSettings, session: object) -> EngineCall:
    """A call of its own."""
    (folder / "scratch").mkdir(exist_ok=True)
    return EngineCall(
        session=session,  # type: ignore[arg-type]
        exchange=ExchangeFolder.at(folder),
        settings=settings,
        scratch=folder / "scratch",
        kept_files=KeptFiles(ExchangeFolder.at(folder).key_indexes, bytes_max=settings.provenance_index_bytes_max),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--history", type=int, default=1_000_000)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--records", type=int, default=8)
    parser.add_argument("--only", nargs="*", default=list(QUERIES))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        settings = EngineSettings(exchange=folder, memory_mib=2048)
        spark = start_spark(settings)
        try:
            source = sales(folder, options.history, options.keys)
            for title in options.only:
                call = call_in(folder, settings, request_session(spark.session))
                derivative = Derivative(QUERIES[title], [source], call, name=f"out-{options.only.index(title)}")
                began = time.perf_counter()
                derivative.pull([SLICES])
                whole_s = time.perf_counter() - began
                derivative.pull()
                report(title, derivative, whole_s, options.records)
        finally:
            spark.stop()


def report(title: str, derivative: Derivative, whole_s: float, records: int) -> None:
    """Prints one line."""
    offsets = derivative.transactions[1].table.column("offset").to_pylist()
    chosen = offsets[:: max(1, len(offsets) // (records + 1))][: records + 1]
    kinds = frozenset({ProvenanceKind.WITNESSES, ProvenanceKind.CELLS})
    times: dict[str, str] = {}
    for effort in (ProvenanceEffort.VERIFIED, ProvenanceEffort.LINEAGE):
        taken = []
        for offset in chosen:
            began, used = time.perf_counter(), cpu_s(os.getpid())
            answer = explained(derivative, 1, [offset], kinds=kinds, effort=effort)
            taken.append((time.perf_counter() - began, cpu_s(os.getpid()) - used))
            assert answer.record(offset).found, (title, offset)
        wall, processor = (statistics.median(column) for column in zip(*taken[1:], strict=True))
        times[effort.name.lower()] = f"{wall:.2f} s (CPU {processor:.2f} s)"
    began = time.perf_counter()
    page = explained(derivative, 1, offsets[:100], kinds=kinds, effort=ProvenanceEffort.LINEAGE)
    page_s = time.perf_counter() - began
    cost = answer.result.cost
    print(
        f"{title}: from the beginning {whole_s:.2f} s, verified {times['verified']}, lineage {times['lineage']}, "
        f"{len(page.result.records)} records {page_s:.2f} s; read {cost.read.value}, {cost.rows_bound} rows, {cost.jobs} jobs",
        flush=True,
    )


def cpu_s(pid: int) -> float:
    """Processor time of a process and of its children that run: the JVM."""
    stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    below = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK") + sum(cpu_s(int(each)) for each in below)


if __name__ == "__main__":
    main()
