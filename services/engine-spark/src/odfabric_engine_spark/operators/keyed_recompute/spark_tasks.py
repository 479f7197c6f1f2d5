"""Large keyed recomputes as Spark tasks.

Owns what tasks get and what they leave: each writes the rows of its share of a scan's keys to a file of scratch, which Spark
then reads as it reads slices, wherever it runs the plan. Invariant: tasks call what the engine's process itself would, so both ways
give the same changes; a task that runs twice leaves the same file. Not here: which keys are touched, and when a transaction is
large (`recompute_run`). Source: docs/engine.md#steps-and-slicing; docs/engine.md#small-and-large-transactions.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from odfabric.errors import LimitExceeded, OdfError
from odfabric.formats.slices.canonical_rows import one_array
from odfabric_engine_spark.arrays.array_types import Hashes, Longs
from odfabric_engine_spark.operators.touched_keys.before_and_after import counted_rows
from odfabric_engine_spark.operators.touched_keys.extraction import BoundRows, first_rows
from odfabric_engine_spark.operators.touched_keys.new_rows import NO_KEYS, Incoming
from odfabric_engine_spark.operators.touched_keys.old_rows import AskedRows
from odfabric_engine_spark.rows.delta import Delta, added_up
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.catalyst.plan_nodes import Catalyst, Plan, analysed
from odfabric_engine_spark.spark.cluster.task_failures import raise_told, told_failure
from odfabric_engine_spark.spark.frames.exact_filters import with_exact_filters
from odfabric_engine_spark.spark.frames.local_rows import local_rows, schema_of_rows
from odfabric_engine_spark.spark.frames.read_rows import column
from odfabric_engine_spark.spark.frames.result_rows import loosened, whole
from odfabric_engine_spark.spark.frames.spark_path import spark_path
from odfabric_engine_spark.state.row_state import RowState
from odfabric_engine_spark.state.run import CLOSES, HASH, WEIGHT, FilePart, RunFile, hashes_of
from odfabric_engine_spark.state.run_file import open_run_file
from odfabric_engine_spark.state.stored_runs import StateWork

_NO_TIMES = np.zeros(0, dtype=np.int64)
_TOLD = pa.schema([("share", pa.int64()), ("rows", pa.int64()), ("failure", pa.binary())])


@dataclass(frozen=True, slots=True)
class TouchedScan:
    """A scan as tasks know it: runs with its rows, and its touched keys.

    `old` and `new` are the runs with its rows before the transaction and those that it adds.

    `schema` are its own columns, `kept_schema` those of its state, `keys` the sorted hashes of the touched keys, `narrow` those of which
    only some old rows are looked up, and from which instant on.
    """

    schema: pa.Schema
    kept_schema: pa.Schema
    timed: bool
    dropped_to_us: int | None
    old: tuple[RunFile, ...]
    new: RunFile
    keys: FilePart
    narrow: tuple[FilePart, FilePart]
    alone: bool


@dataclass(frozen=True, slots=True)
class Share:
    """What one task looks up: the keys [begin, end) of a scan."""

    scan: int
    begin: int
    end: int

    def file(self, folder: Path) -> Path:
        """Where it leaves their rows."""
        return folder / str(self.scan) / f"{self.begin}.parquet"


@dataclass(frozen=True, slots=True)
class Extracted:
    """The tagged rows of each scan as Spark reads them, and how many they are."""

    sources: list[Plan]
    rows: int


class StageTasks:
    """The tasks of one transaction of a stage. `close` removes what they have left."""

    def __init__(self, catalyst: Catalyst, call: EngineCall) -> None:
        self._catalyst = catalyst
        self._call = call
        self._folder = call.scratch / f"stage-{secrets.token_hex(8)}"
        self._folder.mkdir()

    def close(self) -> None:
        """Nothing reads it any more."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def written_keys(self, hashes: Hashes) -> FilePart:
        """Hashes where tasks find them."""
        path = self._folder / f"keys-{secrets.token_hex(8)}"
        path.write_bytes(hashes.astype("<u8").tobytes())
        return FilePart(path, 0, hashes.nbytes)

    def written_narrow(self, asked: AskedRows | None) -> tuple[FilePart, FilePart]:
        """Narrow keys and their least closing times, in a file for tasks.

        Keys of which only some rows are looked up.
        """
        hashes, since_us = (NO_KEYS, _NO_TIMES) if asked is None else (asked.narrow, asked.since_us)
        return self.written_keys(hashes), self.written_keys(since_us.view(np.uint64))

    def extracted(self, scans: Sequence[TouchedScan]) -> Extracted:
        """The rows of scans.

        Raises LimitExceeded for a key with too many, InvalidData for a damaged checkpoint, Determinate.
        """
        settings = self._call.settings
        shares = shares_of(
            scans,
            rows_each=settings.state_piece_rows,
            at_least=settings.tasks_at_once,
            at_most=settings.stage_tasks_max,
        )
        task = ExtractionTask(
            tuple(scans),
            shares,
            self._folder,
            settings.state_piece_rows,
            settings.batch_bytes,
            settings.bound_bytes_max,
        )
        count = len(shares)
        told = self._catalyst.session.range(0, count, 1, count).mapInArrow(
            task, schema_of_rows(self._call.session, _TOLD)
        )
        found = whole(self._call, told).to_pylist()
        raise_told(each["failure"] for each in found)
        files: list[list[str]] = [[] for _ in scans]
        for each in found:
            if each["rows"]:
                share = shares[each["share"]]
                files[share.scan].append(spark_path(share.file(self._folder)))
        sources = [self._read(own, scan.schema) for own, scan in zip(files, scans, strict=True)]
        return Extracted(sources, sum(each["rows"] for each in found))

    def changes(self, found: DataFrame, *, rows: int, both_sides: bool) -> Delta:
        """What a `BoundPlan` gives over so many rows.

        Where it has two sides, most equal rows are added up.
        """
        if not both_sides:
            return counted_rows(whole(self._call, found))
        frame = loosened(found)
        settings = self._call.settings
        parts = min(max(1 + rows // settings.state_piece_rows, settings.tasks_at_once), settings.stage_tasks_max)
        spread = frame.repartition(parts, *(column(field.name) for field in frame.schema.fields[:-1]))
        task = DifferenceTask(settings.state_piece_rows, settings.batch_bytes)
        return counted_rows(whole(self._call, spread.mapInArrow(task, frame.schema)))

    def _read(self, files: Sequence[str], schema: pa.Schema) -> Plan:
        """Read exactly the files that tasks reported.

        A listing of a shared folder may lag behind.
        """
        nothing = BoundRows(schema.empty_table(), np.zeros(0, dtype=np.int8)).as_table()
        empty = local_rows(self._catalyst.session, nothing)
        if not files:
            return analysed(empty)
        return analysed(with_exact_filters(self._catalyst.session.read.schema(empty.schema).parquet(*files)))


@dataclass(frozen=True)
class ExtractionTask:
    """Look up shares of the touched keys of scans, and write their rows.

    Shares are given by number. Runs in a process of its own.

    It holds about `piece_rows` rows or `piece_bytes` bytes at once, of a single key at most `bytes_max` bytes.
    """

    scans: tuple[TouchedScan, ...]
    shares: tuple[Share, ...]
    folder: Path
    piece_rows: int
    piece_bytes: int
    bytes_max: int

    def __call__(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """One row for each share: how many rows it has, or why it failed."""
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                told: dict[str, object] = {"share": number, "rows": 0}
                try:
                    told["rows"] = self._write(self.shares[number])
                except (OdfError, OSError, pa.ArrowException) as error:
                    told["failure"] = told_failure(error)
                yield pa.RecordBatch.from_pylist([told], schema=_TOLD)

    def _write(self, share: Share) -> int:
        file = share.file(self.folder)
        file.parent.mkdir(exist_ok=True)
        # Another attempt of the same task takes its place with the same rows.
        waiting = file.with_name(f".{file.name}-{secrets.token_hex(8)}")
        rows = 0
        writer: pq.ParquetWriter | None = None
        try:
            for bound in self._pieces(share):
                table = bound.as_table()
                writer = writer or pq.ParquetWriter(waiting, table.schema, compression="lz4")
                writer.write_table(table)
                rows += len(bound)
            if writer is not None:
                writer.close()
                os.replace(waiting, file)
        finally:
            if writer is not None:
                writer.close()
            waiting.unlink(missing_ok=True)
        return rows

    def _pieces(self, share: Share) -> Iterator[BoundRows]:
        """Rows of consecutive keys, as many as fit into memory, or of a single one."""
        scan = self.scans[share.scan]
        hashes = _hashes_in(scan.keys)[share.begin : share.end]
        old, new = _state(scan, scan.old), _state(scan, (scan.new,))
        rows_max = min(self.piece_rows, max(self.piece_bytes // _bytes_of_a_row(scan), 1))
        asked = _asked(scan).of_these(hashes)
        for some in _portions(hashes, asked.counts(old, hashes) + new.counts(hashes), rows_max):
            bound = _bound_rows(scan, old, new, some, asked.of_these(some))
            if len(some) == 1 and bound.rows.nbytes > self.bytes_max:
                raise key_too_large(len(bound), self.bytes_max)
            if len(bound):
                yield bound


def shares_of(scans: Sequence[TouchedScan], *, rows_each: int, at_least: int, at_most: int) -> tuple[Share, ...]:
    """The keys of each scan, divided into shares of about so many rows.

    There are `at_least` shares where the scan has as many keys, and never more than `at_most`.
    """
    found: list[Share] = []
    for number, scan in enumerate(scans):
        hashes = _hashes_in(scan.keys)
        old, new = _state(scan, scan.old), _state(scan, (scan.new,))
        ends = np.cumsum(_asked(scan).of_these(hashes).counts(old, hashes) + new.counts(hashes))
        rows = int(ends[-1]) if len(ends) else 0
        count = min(max(1 + rows // rows_each, at_least), at_most)
        bounds = np.searchsorted(ends, [rows * at // count for at in range(1, count)], side="left")
        cuts = [0, *np.unique(bounds[(bounds > 0) & (bounds < len(hashes))]).tolist(), len(hashes)]
        found += [Share(number, begin, end) for begin, end in pairwise(cuts)]
    return tuple(found)


@dataclass(frozen=True)
class DifferenceTask:
    """Adds up rows equal but for their last column. Runs in its own process.

    The last column says what each counts.

    It holds about `piece_rows` rows or `piece_bytes` bytes at once; equal rows further apart stay apart.
    """

    piece_rows: int
    piece_bytes: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows with what they count together."""
        waiting: list[pa.RecordBatch] = []
        rows = size = 0
        for batch in batches:
            waiting.append(batch)
            rows, size = rows + batch.num_rows, size + batch.nbytes
            if rows >= self.piece_rows or size >= self.piece_bytes:
                yield from _added_up(waiting)
                waiting, rows, size = [], 0, 0
        if waiting:
            yield from _added_up(waiting)


def key_too_large(rows: int, bytes_max: int) -> LimitExceeded:
    """Rows that cannot be divided are more than fit into memory."""
    return LimitExceeded(
        f"{rows} rows have to be looked at together: joins, windows and aggregates need a key that tells more apart",
        limit="bound_bytes_max",
        maximum=bytes_max,
    )


def _state(scan: TouchedScan, runs: Sequence[RunFile]) -> RowState:
    """Only looked at, so it needs no place for what it would have to write."""
    work = StateWork(scratch=Path(os.devnull), piece_rows=1, added_bytes_max=0, check=lambda: None)
    state = RowState(scan.kept_schema, timed=scan.timed, work=work, dropped_to_us=scan.dropped_to_us)
    opened = [open_run_file(run, state.stored_schema) for run in runs]
    return RowState(scan.kept_schema, timed=scan.timed, work=work, runs=opened, dropped_to_us=scan.dropped_to_us)


def _bound_rows(scan: TouchedScan, old: RowState, new: RowState, hashes: Hashes, asked: AskedRows) -> BoundRows:
    added = new.of_keys(pa.array(hashes))
    delta = Delta(added.select(scan.schema.names), one_array(added.column(WEIGHT)).to_numpy())
    if not scan.old:
        return first_rows(delta)
    closes = one_array(added.column(CLOSES)) if scan.timed else None
    return asked.bound(old, Incoming(delta, hashes_of(added.column(HASH)), closes), alone=scan.alone)


def _asked(scan: TouchedScan) -> AskedRows:
    """Keys of which only some rows are looked up; of all others all are."""
    hashes, since_us = map(_hashes_in, scan.narrow)
    return AskedRows(NO_KEYS, hashes, since_us.view(np.int64), 0)


def _portions(hashes: Hashes, counts: Longs, rows_max: int) -> Iterator[Hashes]:
    """Consecutive hashes with at most so many rows together, or a single one."""
    ends = np.cumsum(counts)
    begin = 0
    while begin < len(hashes):
        taken = int(ends[begin - 1]) if begin else 0
        end = max(int(np.searchsorted(ends, taken + rows_max, side="right")), begin + 1)
        yield hashes[begin:end]
        begin = end


def _added_up(batches: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    table = pa.Table.from_batches(batches)
    net = added_up(counted_rows(table))
    columns = [*(one_array(each) for each in net.rows.columns), pa.array(net.weights)]
    yield from pa.Table.from_arrays(columns, schema=table.schema).to_batches()


def _hashes_in(keys: FilePart) -> Hashes:
    found: Hashes = np.frombuffer(keys.mapped(), dtype="<u8")
    return found


def _bytes_of_a_row(scan: TouchedScan) -> int:
    """About, by the files of its runs."""
    runs = (*scan.old, scan.new)
    rows = sum(sum(run.batch_rows) for run in runs)
    return 1 + sum(part.size for run in runs for part in run.parts.values()) // max(rows, 1)
