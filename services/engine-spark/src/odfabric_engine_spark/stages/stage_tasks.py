"""Large transactions of a stage by tasks of Spark: they look up old rows, and make the difference of both sides.

Owns what tasks are told and what they leave: each writes the rows of its share of a leaf's keys to a file of scratch, which Spark
then reads as it reads slices, wherever it runs the plan. Invariant: tasks call what the engine's process itself would, so both ways
give the same changes; a task that runs twice leaves the same file. Not here: which keys are touched, and when a transaction is
large (`rows_run`). Source: rulings on small and large steps.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import types as T

from odfabric.errors import LimitExceeded, OdfError
from odfabric.formats.engine_wire import failure_from_wire, failure_to_wire
from odfabric.generated.engine_v1 import engine_pb2 as pb
from odfabric_engine_spark.call import EngineCall
from odfabric_engine_spark.catalyst import Catalyst, Plan, analysed
from odfabric_engine_spark.incremental.canonical import one_array
from odfabric_engine_spark.incremental.exact import Longs
from odfabric_engine_spark.local_rows import local_rows
from odfabric_engine_spark.read.input_rows import column
from odfabric_engine_spark.result_rows import loosened, whole
from odfabric_engine_spark.stages.binding import counted_rows
from odfabric_engine_spark.stages.delta import Delta, added_up
from odfabric_engine_spark.stages.extraction import BoundRows, first_rows, old_and_new_rows
from odfabric_engine_spark.state.row_state import RowState
from odfabric_engine_spark.state.run import WEIGHT, FilePart, Hashes, RunFile
from odfabric_engine_spark.state.run_file import open_run_file
from odfabric_engine_spark.state.sealing import StateWork

_TASKS_MAX = 256
"""Tasks among which the keys of a leaf are divided; each takes its share piece by piece."""
_TOLD = pa.schema([("leaf", pa.int32()), ("rows", pa.int64()), ("failure", pa.binary())])


@dataclass(frozen=True, slots=True)
class TouchedLeaf:
    """What tasks are told of a leaf: `old` and `new` are the runs with its rows before the transaction and those that it adds.

    `schema` are its own columns, `keys` the sorted hashes of the touched keys.
    """

    schema: pa.Schema
    timed: bool
    dropped_to_us: int | None
    old: tuple[RunFile, ...]
    new: RunFile
    keys: FilePart
    alone: bool


@dataclass(frozen=True, slots=True)
class Share:
    """What one task looks up: the keys [begin, end) of a leaf."""

    leaf: int
    begin: int
    end: int


class StageTasks:
    """The tasks of one transaction of a stage."""

    def __init__(self, catalyst: Catalyst, call: EngineCall) -> None:
        self._catalyst = catalyst
        self._call = call
        self._parts = 1

    def written_keys(self, hashes: Hashes) -> FilePart:
        """Hashes where tasks find them."""
        path = self._call.scratch / f"keys-{secrets.token_hex(8)}"
        path.write_bytes(hashes.astype("<u8").tobytes())
        return FilePart(path, 0, hashes.nbytes)

    def extracted(self, leaves: Sequence[TouchedLeaf]) -> list[Plan]:
        """The tagged rows of each leaf. Raises LimitExceeded for a key with too many, InvalidData for a damaged checkpoint."""
        settings = self._call.settings
        folder = self._call.scratch / f"rows-{secrets.token_hex(8)}"
        folder.mkdir()
        shares = shares_of(leaves, settings.state_piece_rows)
        task = ExtractionTask(tuple(leaves), shares, folder, settings.state_piece_rows, settings.bound_bytes_max)
        count = len(shares)
        told = self._catalyst.session.range(0, count, 1, count).mapInArrow(task, _spark_schema(self._call, _TOLD))
        found = whole(self._call, told)
        _raise_first(found)
        rows = one_array(found.column("rows")).to_numpy()
        # As many as the pieces would be, so that no task of the plan or of the difference gets more than one of them.
        self._parts = min(1 + int(rows.sum()) // settings.state_piece_rows, _TASKS_MAX)
        with_rows = set(one_array(found.column("leaf")).to_numpy()[rows > 0].tolist())
        return [
            self._read(folder / str(number) if number in with_rows else None, leaf.schema)
            for number, leaf in enumerate(leaves)
        ]

    def changes(self, found: DataFrame, *, both_sides: bool) -> Delta:
        """What a `BoundPlan` gives; where that has two sides, equal rows are added up."""
        if not both_sides:
            return counted_rows(whole(self._call, found))
        frame = loosened(found)
        by = [column(field.name) for field in frame.schema.fields[:-1] if not _has_map(field.dataType)]
        spread = frame.repartition(self._parts, *by) if by else frame.repartition(1)
        return counted_rows(whole(self._call, spread.mapInArrow(difference_task, frame.schema)))

    def _read(self, folder: Path | None, schema: pa.Schema) -> Plan:
        nothing = local_rows(
            self._catalyst.session, BoundRows(schema.empty_table(), np.zeros(0, dtype=np.int8)).as_table()
        )
        if folder is None:
            return analysed(nothing)
        return analysed(self._catalyst.session.read.schema(nothing.schema).parquet(str(folder)))


@dataclass(frozen=True)
class ExtractionTask:
    """Looks up shares of the touched keys of leaves, told by number, and writes their rows. Runs in a process of its own."""

    leaves: tuple[TouchedLeaf, ...]
    shares: tuple[Share, ...]
    folder: Path
    piece_rows: int
    bytes_max: int

    def __call__(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """One row for each share: how many rows it has, or why it failed."""
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                share = self.shares[number]
                told: dict[str, object] = {"leaf": share.leaf, "rows": 0}
                try:
                    told["rows"] = self._write(share)
                except OdfError as error:
                    told["failure"] = failure_to_wire(error).SerializeToString()
                yield pa.RecordBatch.from_pylist([told], schema=_TOLD)

    def _write(self, share: Share) -> int:
        folder = self.folder / str(share.leaf)
        folder.mkdir(exist_ok=True)
        # Hidden from Spark until it is whole; another attempt of the same task takes its place with the same rows.
        waiting = folder / f".{share.begin}-{secrets.token_hex(8)}"
        rows = 0
        writer: pq.ParquetWriter | None = None
        try:
            for bound in self._pieces(share):
                table = bound.as_table()
                writer = writer or pq.ParquetWriter(waiting, table.schema, compression="lz4")
                writer.write_table(table)
                rows += len(bound)
        finally:
            if writer is not None:
                writer.close()
        if writer is not None:
            os.replace(waiting, folder / f"{share.begin}.parquet")
        return rows

    def _pieces(self, share: Share) -> Iterator[BoundRows]:
        """Rows of consecutive keys, as many as fit into memory, or of a single one."""
        leaf = self.leaves[share.leaf]
        hashes = np.frombuffer(leaf.keys.mapped(), dtype="<u8")[share.begin : share.end]
        old, new = _state(leaf, leaf.old), _state(leaf, (leaf.new,))
        for some in _portions(hashes, old.counts(hashes) + new.counts(hashes), self.piece_rows):
            bound = _bound_rows(leaf, old, new, some)
            if len(some) == 1 and bound.rows.nbytes > self.bytes_max:
                raise key_too_large(len(bound), self.bytes_max)
            if len(bound):
                yield bound


def shares_of(leaves: Sequence[TouchedLeaf], piece_rows: int) -> tuple[Share, ...]:
    """The keys of each leaf divided evenly; at least one share each."""
    found: list[Share] = []
    for number, leaf in enumerate(leaves):
        keys = leaf.keys.size // np.dtype(np.uint64).itemsize
        count = min(1 + keys // piece_rows, _TASKS_MAX)
        found += [Share(number, keys * at // count, keys * (at + 1) // count) for at in range(count)]
    return tuple(found)


def difference_task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Adds up rows that are equal but for the last column, which says what each counts. Runs in a process of its own."""
    given = list(batches)
    if not given:
        return
    table = pa.Table.from_batches(given)
    net = added_up(counted_rows(table))
    columns = [*(one_array(each) for each in net.rows.columns), pa.array(net.weights)]
    yield from pa.Table.from_arrays(columns, schema=table.schema).to_batches()


def key_too_large(rows: int, bytes_max: int) -> LimitExceeded:
    """Rows that cannot be divided are more than fit into memory."""
    return LimitExceeded(
        f"{rows} rows have to be looked at together: joins, windows and aggregates need a key that tells more apart",
        limit="bound_bytes_max",
        maximum=bytes_max,
    )


def _state(leaf: TouchedLeaf, runs: Sequence[RunFile]) -> RowState:
    """Only looked at, so it needs no place for what it would have to write."""
    work = StateWork(scratch=Path(os.devnull), piece_rows=1, added_bytes_max=0)
    state = RowState(leaf.schema, timed=leaf.timed, work=work, dropped_to_us=leaf.dropped_to_us)
    opened = [open_run_file(run, state.stored_schema) for run in runs]
    return RowState(leaf.schema, timed=leaf.timed, work=work, runs=opened, dropped_to_us=leaf.dropped_to_us)


def _bound_rows(leaf: TouchedLeaf, old: RowState, new: RowState, hashes: Hashes) -> BoundRows:
    added = new.of_keys(pa.array(hashes))
    delta = Delta(added.select(leaf.schema.names), one_array(added.column(WEIGHT)).to_numpy())
    if not leaf.old:
        return first_rows(delta)
    return old_and_new_rows(old.of_keys(pa.array(hashes)), delta, alone=leaf.alone)


def _portions(hashes: Hashes, counts: Longs, rows_max: int) -> Iterator[Hashes]:
    """Consecutive hashes with at most so many rows together, or a single one."""
    ends = np.cumsum(counts)
    begin = 0
    while begin < len(hashes):
        taken = int(ends[begin - 1]) if begin else 0
        end = max(int(np.searchsorted(ends, taken + rows_max, side="right")), begin + 1)
        yield hashes[begin:end]
        begin = end


def _raise_first(told: pa.Table) -> None:
    for failure in told.column("failure").drop_null().to_pylist():
        raise failure_from_wire(pb.Failure.FromString(failure))


def _spark_schema(call: EngineCall, schema: pa.Schema) -> T.StructType:
    return local_rows(call.session, schema.empty_table()).schema


def _has_map(data_type: T.DataType) -> bool:
    """Spark does not hash maps, so it cannot divide rows by them."""
    match data_type:
        case T.MapType():
            return True
        case T.ArrayType():
            return _has_map(data_type.elementType)
        case T.StructType():
            return any(_has_map(member.dataType) for member in data_type.fields)
        case _:
            return False
