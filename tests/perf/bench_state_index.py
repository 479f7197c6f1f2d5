"""A dataset's state by index against its history, and the effect on a push.

    PYTHONPATH=src:services/engine-spark/src .odf/venv/bin/python tests/perf/bench_state_index.py [--keys 200000] [--no-engine]

A Snapshot dataset with as many rows as keys, each corrected nine times (19 changes for each key), in one slice and in 200. An export is
what a merge asks of an index: net rows, in a file for the engine. The push is one of 1,000 rows, of which the dataset's other rows are
withdrawn, and one of a whole dump with 1,000 changed rows; the engine's share alone, in one warm session.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from odfabric.adapters.local_fs.exchange import FolderExchange
from odfabric.adapters.local_fs.object_store import FolderObjectStore
from odfabric.adapters.persist.location import PersistLocation, blobs_in_folder, versions_in_file
from odfabric.adapters.persist.state_index import PersistStateIndex
from odfabric.formats.identifiers.dataset_layout import data_key
from odfabric.formats.identifiers.physical_hash import physical_hash
from odfabric.formats.slices.arrow_schema import arrow_to_data_schema, data_schema_to_arrow
from odfabric.formats.slices.slice_parquet import SliceWriter
from odfabric.formats.slices.slice_schema import TIMESTAMP_TYPE, new_slice_schema
from odfabric.formats.slices.state_rows import added_up, read_changes, write_state_file
from odfabric.model.engine import IngestRequest, SliceFile
from odfabric.model.instant import Instant
from odfabric.model.offsets import OffsetRange
from odfabric.model.operation import OperationType
from odfabric.model.source import MergeStrategySnapshot, ReadStepParquet
from odfabric.model.state_index import IndexDefinition, IndexedSlice, IndexMode
from odfabric.model.vocabulary import DatasetVocabulary
from odfabric.testing.chains import example_id
from odfabric.testing.chains import physical_hash as hash_of_text

RUNS = 5
ROUNDS = 9
PAGE_ROWS = 1_000_000
SLICES = 200
COLUMNS = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("city", pa.string()),
        pa.field("value", pa.float64()),
        pa.field("count", pa.int32()),
    ]
)
SCHEMA = new_slice_schema(list(COLUMNS), vocabulary=DatasetVocabulary())
MERGE = MergeStrategySnapshot(primary_key=("id",))


def rows_of(ids: np.ndarray, version: int) -> list[pa.Array]:
    """Event time and data of rows, a function of id and version."""
    cities = pa.array([f"city {number}" for number in range(5000)]).take(pa.array((ids * 7 + version) % 5000))
    times = pa.array(1_700_000_000_000 + ids * 1000 + version).cast(TIMESTAMP_TYPE)
    values = pa.array(ids * 0.5 + version)
    return [times, pa.array(ids), cities, values, pa.array(((ids + version) % 100).astype(np.int32))]


def changelog(keys: int) -> pa.Table:
    """All changes, without offset and system time."""
    chance = np.random.default_rng(1)
    pieces = [_piece(np.arange(keys), 0, OperationType.APPEND)]
    for version in range(1, ROUNDS + 1):
        ids = chance.permutation(keys)
        old = _piece(ids, version - 1, OperationType.CORRECT_FROM)
        new = _piece(ids, version, OperationType.CORRECT_TO)
        pairs = np.arange(2 * keys).reshape(2, keys).T.ravel()
        pieces.append(pa.concat_tables([old, new]).take(pa.array(pairs)))
    return pa.concat_tables(pieces).combine_chunks()


def _piece(ids: np.ndarray, version: int, operation: OperationType) -> pa.Table:
    times, *columns = rows_of(ids, version)
    operations = pa.array(np.full(len(ids), int(operation), np.int32))
    return pa.table([operations, times, *columns], names=["op", "event_time", *COLUMNS.names])


class Dataset:
    """The changes in some slices, in a store, with an index in a folder."""

    def __init__(self, folder: Path, changes: pa.Table, slices: int) -> None:
        folder.mkdir()
        (folder / "exchange").mkdir()
        self.exchange = FolderExchange(folder / "exchange")
        self.objects = FolderObjectStore(folder / "objects", private_folders=[self.exchange.root])
        self.location = PersistLocation(blobs_in_folder(folder / "persist"), versions_in_file(folder / "versions.db"))
        self.index = PersistStateIndex(self.location.client, self.objects, self.exchange.session)
        columns = arrow_to_data_schema(pa.schema([field.with_nullable(True) for field in list(SCHEMA)[3:]]))
        self.definition = IndexDefinition(
            dataset=example_id("bench"),
            epoch="0" * 32,
            mode=IndexMode.STATE,
            keys=("id",),
            columns=columns,
            vocabulary=DatasetVocabulary(),
        )
        self.files: list[SliceFile] = []
        self.slices: list[IndexedSlice] = []
        size = -(-changes.num_rows // slices // 2) * 2
        for start in range(0, changes.num_rows, size):
            self._add(changes.slice(start, size), start)

    def _add(self, changes: pa.Table, start: int) -> None:
        path = self.exchange.root / f"slice-{start}"
        count = changes.num_rows
        added = {
            "offset": pa.array(np.arange(start, start + count)),
            "system_time": pa.repeat(pa.scalar(0, pa.int64()), count).cast(TIMESTAMP_TYPE),
        }
        columns = [added[name] if name in added else changes.column(name) for name in SCHEMA.names]
        with SliceWriter(path, SCHEMA) as writer:
            for batch in pa.table(columns, schema=SCHEMA).to_batches(65_536):
                writer.write(batch)
        name, _ = physical_hash(path)
        self.objects.put_file(data_key(self.definition.dataset, name), path)
        offsets = OffsetRange(start, start + count)
        number = len(self.slices)
        self.files.append(SliceFile(path=path.name, offsets=offsets))
        self.slices.append(
            IndexedSlice(
                sequence_number=number,
                block_hash=hash_of_text(f"block {number}"),
                physical_hash=name,
                offsets=offsets,
            )
        )

    def bring_forward(self, *, history_blocks: int) -> None:
        """Index all slices, a million rows at a time."""
        page: list[IndexedSlice] = []
        for one in self.slices:
            page.append(one)
            if sum(len(other.offsets) for other in page) >= PAGE_ROWS or one is self.slices[-1]:
                frontier = self.index.extend(self.definition, page)
                assert frontier.violation is None
                self.index.maintain(self.definition, since=max(0, frontier.upper - 1 - history_blocks))
                page = []

    def export(self) -> SliceFile:
        """What a merge asks for."""
        path = self.exchange.root / "indexed-state"
        tables = self.index.rows_at(self.definition, len(self.slices) - 1)
        columns = data_schema_to_arrow(self.definition.columns, encodings=False)
        rows = write_state_file(str(path), tables, columns, DatasetVocabulary())
        return SliceFile(path=path.name, offsets=OffsetRange(0, rows))

    def read_history(self) -> None:
        """The same rows from all slices."""
        columns = data_schema_to_arrow(self.definition.columns, encodings=False)
        found = [read_changes(self.exchange.root / one.path, columns, DatasetVocabulary()) for one in self.files]
        added_up([(one.rows, one.diffs) for one in found], columns)

    def close(self) -> None:
        """Close the stores."""
        self.location.close()
        self.exchange.close()


def timed(work: Callable[[], object], *, runs: int = RUNS) -> float:
    """Median milliseconds after one run that warms up."""
    work()
    found = []
    for _ in range(runs):
        start = time.perf_counter()
        work()
        found.append((time.perf_counter() - start) * 1000)
    return statistics.median(found)


def timed_in_turn(works: Mapping[int, Callable[[], object]]) -> dict[int, float]:
    """The same for several, run by run in turn: other load falls on all of them."""
    for work in works.values():
        work()
    found: dict[int, list[float]] = {name: [] for name in works}
    for _ in range(4 * RUNS):
        for name, work in works.items():
            start = time.perf_counter()
            work()
            found[name].append((time.perf_counter() - start) * 1000)
    return {name: statistics.median(times) for name, times in found.items()}


def pushes(dataset: Dataset, keys: int) -> None:
    """The engine's share of pushes with history and with the index."""
    from odfabric_engine_spark.ingest.ingest_files import ingest
    from odfabric_engine_spark.spark.calls.call import EngineCall
    from odfabric_engine_spark.spark.calls.exchange_folder import ExchangeFolder
    from odfabric_engine_spark.spark.session import request_session, start_spark
    from odfabric_engine_spark.spark.settings import EngineSettings

    root = dataset.exchange.root
    some = np.arange(1000)
    others = np.arange(1000, keys)
    dump = [pa.concat_arrays(pair) for pair in zip(rows_of(some, ROUNDS + 1), rows_of(others, ROUNDS), strict=True)]
    names = ["event_time", *COLUMNS.names]
    pq.write_table(pa.table(rows_of(some, ROUNDS + 1), names=names), root / "rows-1000")
    pq.write_table(pa.table(dump, names=names), root / "rows-dump")
    spark = start_spark(EngineSettings(exchange=root, memory_mib=3072))
    count = 0

    def push(content: str, history: Sequence[SliceFile]) -> bytes:
        nonlocal count
        count += 1
        scratch = root / f"scratch-{count}"
        scratch.mkdir()
        request = IngestRequest(
            vocabulary=DatasetVocabulary(),
            data_paths=(content,),
            file_names=(content,),
            read=ReadStepParquet(),
            preprocess=None,
            merge=MERGE,
            data_schema=arrow_to_data_schema(SCHEMA),
            history=tuple(history),
            system_time=Instant.parse("2050-01-01T00:00:00Z"),
            event_time_fallback=Instant.parse("2049-12-31T00:00:00Z"),
            next_offset=dataset.files[-1].offsets.end,
            new_data_path=f"out-{count}",
        )
        call = EngineCall(
            session=request_session(spark.session),
            exchange=ExchangeFolder.at(root),
            settings=EngineSettings(exchange=root),
            scratch=scratch,
        )
        ingest(request, call)
        return (root / request.new_data_path).read_bytes()

    try:
        for content in ("rows-1000", "rows-dump"):
            assert push(content, dataset.files) == push(content, [dataset.export()]), "the slices are not the same"
            with_history = timed(lambda content=content: push(content, dataset.files), runs=3)  # type: ignore[misc]
            with_index = timed(lambda content=content: push(content, [dataset.export()]), runs=3)  # type: ignore[misc]
            print(
                f"push of {content:10} with history {with_history:8.0f} ms, with the index (export included) "
                f"{with_index:8.0f} ms: {with_history / with_index:.1f} times"
            )
    finally:
        spark.stop()


@contextmanager
def datasets(folder: Path, keys: int) -> Iterator[dict[int, Dataset]]:
    """The same changes in one slice and in many."""
    changes = changelog(keys)
    found = {count: Dataset(folder / f"slices-{count}", changes, count) for count in (1, SLICES)}
    print(f"{keys} keys, {changes.num_rows} changes")
    with closing(found[1]), closing(found[SLICES]):
        yield found


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--keys", type=int, default=200_000)
    parser.add_argument("--no-engine", action="store_true")
    given = parser.parse_args()
    for history_blocks in (0, 4):
        with tempfile.TemporaryDirectory() as name, datasets(Path(name), given.keys) as found:
            built = {}
            for count, dataset in found.items():
                start = time.perf_counter()
                dataset.bring_forward(history_blocks=history_blocks)
                built[count] = time.perf_counter() - start
            exports = timed_in_turn({count: dataset.export for count, dataset in found.items()})
            for count, dataset in found.items():
                history = timed(dataset.read_history, runs=2)
                frontier = dataset.index.frontier(dataset.definition)
                assert frontier is not None
                print(
                    f"history of {history_blocks} blocks kept, {count:3} slices: made in {built[count]:5.1f} s, "
                    f"{frontier.rows} rows and {frontier.bytes / 2**20:.1f} MiB kept, {frontier.tail_slices} slices referred to; "
                    f"export {exports[count]:6.0f} ms, history {history:6.0f} ms: {history / exports[count]:.1f} times"
                )
            print(f"export of {SLICES} slices against one: {exports[SLICES] / exports[1]:.2f} times")
            if history_blocks == 0 and not given.no_engine:
                pushes(found[SLICES], given.keys)


if __name__ == "__main__":
    main()
