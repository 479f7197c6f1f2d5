"""Run files: streamed writing, and reading from a memory-mapped file.

Owns the three parts of a stored run: `hashes` (8 bytes each), `rows` (Arrow IPC in batches, not compressed) and `closings`
(times, then hashes, 8 bytes each). Invariant: the bytes depend on the rows alone, batches included; what is read of an opened
run is checked before it is used, for a file may come from elsewhere. Not here: the file around it (`checkpoint`).
"""

from __future__ import annotations

import errno
import io
import os
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast, overload

import numpy as np
import pyarrow as pa
from pyarrow import types

from odfabric.formats.slices.canonical_rows import one_array
from odfabric_engine_spark.arrays.array_types import Hashes, Longs
from odfabric_engine_spark.state.canonical_columns import content_bytes, plain
from odfabric_engine_spark.state.checkpoint_refusal import damaged
from odfabric_engine_spark.state.run import CLOSES, NO_CLOSE_TIMES, CloseTimes, FilePart, Run, RunFile, spans

BATCH_ROWS = 1 << 17
"""Rows of a batch. Part of the format, as the next: other numbers are other bytes."""
BATCH_BYTES = 32 << 20
"""A batch with more content than this is halved."""
PARTS = ("hashes", "rows", "closings")
_SCRATCH = "scratch"
"""What users would read of a file of ours."""
PIECE_BYTES = 4 << 20
"""Parts up to this size never reach the disk before their checkpoint does."""
_PASSED_ON_BYTES_MAX = 1 << 30
"""Bytes that one call to the system copies."""


class WrittenPart(io.RawIOBase):
    """Bytes of a part: in memory, and in a scratch file as soon as they are many.

    No file stays open.
    """

    def __init__(self, scratch: Path) -> None:
        self._path = scratch / f"run-{secrets.token_hex(8)}"
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self.size = 0

    def writable(self) -> bool:
        """As a file."""
        return True

    def tell(self) -> int:
        """As a file."""
        return self.size

    def write(self, data: Any) -> int:
        """As a file."""
        taken = memoryview(data).cast("B")
        self.size += len(taken)
        if self._waiting_bytes + len(taken) <= PIECE_BYTES:
            # Whose memory it is may be changed afterwards.
            self._waiting.append(bytes(taken))
            self._waiting_bytes += len(taken)
            return len(taken)
        with self._path.open("ab") as file:
            file.writelines(self._waiting)
            file.write(taken)
        self._waiting, self._waiting_bytes = [], 0
        return len(taken)

    def copy_to(self, file: IO[bytes]) -> None:
        """Appends all bytes to a file. OSError passes through."""
        if self.size > self._waiting_bytes:
            with self._path.open("rb") as source:
                _append(source, file)
        file.writelines(self._waiting)

    def mapped(self) -> pa.Buffer:
        """All bytes, mapped where they are many."""
        if self.size == self._waiting_bytes:
            return pa.py_buffer(b"".join(self._waiting))
        return self.on_disk().mapped()

    def on_disk(self) -> FilePart:
        """Where other processes find them."""
        with self._path.open("ab") as file:
            file.writelines(self._waiting)
        self._waiting, self._waiting_bytes = [], 0
        return FilePart(self._path, 0, self.size)

    def discard(self) -> None:
        """Nobody asks for the bytes any more."""
        self._path.unlink(missing_ok=True)


def _append(source: IO[bytes], file: IO[bytes]) -> None:
    """Append a file to another within the kernel: nine times as fast as by memory."""
    file.flush()
    left = os.fstat(source.fileno()).st_size
    while left:
        sent = os.sendfile(file.fileno(), source.fileno(), None, min(left, _PASSED_ON_BYTES_MAX))
        if not sent:
            raise OSError(errno.EIO, "a file became shorter while it was copied")
        left -= sent


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenRun:
    """A finished run: its parts, and what a header says of it."""

    parts: Mapping[str, WrittenPart]
    batch_rows: tuple[int, ...]
    rows: int
    close_times: int
    never: bool

    def on_disk(self) -> RunFile:
        """Where other processes find it."""
        parts = {name: part.on_disk() for name, part in self.parts.items()}
        return RunFile(parts, self.batch_rows, self.never, _SCRATCH)


@dataclass(slots=True)
class RunWriter:
    """Takes rows in the order of a run, in pieces of any size."""

    schema: pa.Schema
    scratch: Path
    _hashes: WrittenPart = field(init=False)
    _rows: WrittenPart = field(init=False)
    _ipc: pa.ipc.RecordBatchFileWriter = field(init=False)
    _waiting: list[pa.Table] = field(default_factory=list)
    _waiting_rows: int = 0
    _batch_rows: list[int] = field(default_factory=list)
    _close_times: list[tuple[Hashes, pa.Array]] = field(default_factory=list)
    _close_times_rows: int = 0
    _close_times_max: int = 1 << 20
    """Of more, those that are reported twice are left out."""
    _count: int = 0

    def __post_init__(self) -> None:
        self._hashes, self._rows = WrittenPart(self.scratch), WrittenPart(self.scratch)
        self._ipc = pa.ipc.new_file(pa.PythonFile(self._rows, "w"), self.schema)

    def write(self, hashes: Hashes, rows: pa.Table) -> None:
        """The next rows. OSError passes through."""
        if not len(hashes):
            return
        self._hashes.write(np.ascontiguousarray(hashes, "<u8"))
        self._count += len(hashes)
        if CLOSES in self.schema.names:
            self._add_close_times(hashes, one_array(rows.column(CLOSES)))
        self._waiting.append(rows)
        self._waiting_rows += len(hashes)
        while self._waiting_rows >= BATCH_ROWS:
            self._write_batches(BATCH_ROWS)

    def finish(self) -> WrittenRun:
        """The run."""
        if self._waiting_rows:
            self._write_batches(self._waiting_rows)
        self._ipc.close()
        close_times = self._all_close_times()
        third = WrittenPart(self.scratch)
        third.write(np.ascontiguousarray(close_times.times, "<i8"))
        third.write(np.ascontiguousarray(close_times.hashes, "<u8"))
        return WrittenRun(
            parts=dict(zip(PARTS, (self._hashes, self._rows, third), strict=True)),
            batch_rows=tuple(self._batch_rows),
            rows=self._count,
            close_times=len(close_times.times),
            never=close_times.never,
        )

    def _write_batches(self, rows: int) -> None:
        together = pa.concat_tables(self._waiting)
        self._waiting = [together.slice(rows)]
        self._waiting_rows -= rows
        self._write_batch([one_array(column) for column in together.slice(0, rows).columns])

    def _write_batch(self, columns: Sequence[pa.Array]) -> None:
        rows = len(columns[0])
        if rows > 1 and sum(map(content_bytes, columns)) > BATCH_BYTES:
            half = rows // 2
            self._write_batch([column.slice(0, half) for column in columns])
            self._write_batch([column.slice(half) for column in columns])
            return
        self._ipc.write_batch(pa.RecordBatch.from_arrays([plain(column) for column in columns], schema=self.schema))
        self._batch_rows.append(rows)

    def _add_close_times(self, hashes: Hashes, closes: pa.Array) -> None:
        self._close_times.append((hashes, closes))
        self._close_times_rows += len(hashes)
        if self._close_times_rows > self._close_times_max:
            once = self._all_close_times()
            never = pa.nulls(int(once.never), pa.int64())
            hashes = np.append(once.hashes, np.zeros(len(never), dtype=np.uint64))
            self._close_times = [(hashes, pa.concat_arrays([pa.array(once.times), never]))]
            self._close_times_rows = len(hashes)
            self._close_times_max = max(self._close_times_max, 2 * len(hashes))

    def _all_close_times(self) -> CloseTimes:
        if not self._close_times:
            return NO_CLOSE_TIMES
        hashes = np.concatenate([hashes for hashes, _ in self._close_times])
        return CloseTimes.of(hashes, pa.concat_arrays([closes for _, closes in self._close_times]))


def write_run(schema: pa.Schema, scratch: Path, parts: Iterable[tuple[Hashes, pa.Table]]) -> WrittenRun:
    """A run of all rows, which come in its order."""
    writer = RunWriter(schema, scratch)
    for hashes, rows in parts:
        writer.write(hashes, rows)
    return writer.finish()


class StoredBatches(Sequence[pa.RecordBatch]):
    """Batches of a stored run, opened when they are asked for.

    Raises InvalidData where damaged.
    """

    def __init__(self, body: pa.Buffer, schema: pa.Schema, batch_rows: Sequence[int], name: str) -> None:
        self._name = name
        self._rows = batch_rows
        self._with_offsets = tuple(field.name for field in schema if _has_offsets(field.type))
        self._opened: dict[int, CheckedBatch] = {}
        with damaged(name):
            self._reader = pa.ipc.open_file(body)
            if self._reader.num_record_batches != len(batch_rows) or not self._reader.schema.equals(schema):
                raise ValueError("rows of a run have other columns or other batches than announced")

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> pa.RecordBatch: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[pa.RecordBatch]: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(len(self)))]
        if index not in self._opened:
            with damaged(self._name):
                batch = self._reader.get_batch(index)
                batch.validate()
                if batch.num_rows != self._rows[index]:
                    raise ValueError("a batch of a run has another size than announced")
            self._opened[index] = CheckedBatch(batch, self._name, self._with_offsets)
        return self._opened[index]


@dataclass(frozen=True, slots=True)
class CheckedBatch:
    """A batch of a file.

    Offsets, which some columns have, are looked at before Arrow follows them: it would follow them out of the file.
    """

    batch: pa.RecordBatch
    name: str
    with_offsets: tuple[str, ...]

    def select(self, names: Sequence[str]) -> CheckedBatch:
        """As a batch."""
        return CheckedBatch(
            self.batch.select(names), self.name, tuple(each for each in self.with_offsets if each in names)
        )

    def take(self, indices: pa.Array) -> pa.RecordBatch:
        """As a batch. Raises InvalidData where damaged."""
        self._check(indices.to_numpy())
        return self.batch.take(indices)

    def slice(self, offset: int, length: int) -> pa.RecordBatch:
        """As a batch. Raises InvalidData where damaged."""
        self._check(np.arange(offset, offset + length))
        return self.batch.slice(offset, length)

    def _check(self, positions: Longs) -> None:
        with damaged(self.name):
            for name in self.with_offsets:
                check_offsets(self.batch.column(name), positions)


def _has_offsets(data_type: pa.DataType) -> bool:
    """Whether values of a type lie where others say."""
    return not types.is_primitive(data_type) and not types.is_null(data_type)


def check_offsets(array: pa.Array, positions: Longs) -> None:
    """Raises ValueError if a value at one of these positions lies outside its buffers."""
    data_type = array.type
    if types.is_struct(data_type):
        for index in range(data_type.num_fields):
            check_offsets(array.field(index), positions)
        return
    has_items = types.is_list(data_type) or types.is_map(data_type)
    if not len(positions) or not (has_items or types.is_string(data_type) or types.is_binary(data_type)):
        return
    buffers = array.buffers()
    offsets = np.frombuffer(buffers[1], dtype=np.int32)[array.offset :]
    begins, ends = offsets[positions].astype(np.int64), offsets[positions + 1].astype(np.int64)
    items = _items(array) if has_items else None
    size = len(items) if items is not None else (buffers[2].size if buffers[2] is not None else 0)
    if (begins < 0).any() or (ends < begins).any() or int(ends.max()) > size:
        raise ValueError("a value of a run lies outside its file")
    if items is not None:
        check_offsets(items, spans(begins, ends))


def _items(array: pa.Array) -> pa.Array:
    """All items of a list or entries of a map, from the first of its buffer on."""
    if types.is_list(array.type):
        return array.values
    keys, values = array.keys, array.items
    return pa.StructArray.from_arrays([keys, values], names=["key", "value"])


def open_written(written: WrittenRun, schema: pa.Schema) -> Run:
    """A run that was written in this call, mapped; other processes find it too."""
    return open_run_file(written.on_disk(), schema)


def open_run_file(file: RunFile, schema: pa.Schema) -> Run:
    """A run in files. Raises InvalidData where damaged; OSError passes through."""
    return open_run({name: part.mapped() for name, part in file.parts.items()}, file, schema)


def open_run(body: Mapping[str, pa.Buffer], file: RunFile, schema: pa.Schema) -> Run:
    """A run whose parts are mapped. Raises InvalidData where damaged."""
    name, batch_rows = file.name, file.batch_rows
    with damaged(name):
        hashes = np.frombuffer(body["hashes"], dtype="<u8")
        close_times = np.frombuffer(body["closings"], dtype="<i8")
        half = len(close_times) // 2
        if len(hashes) != sum(batch_rows) or len(close_times) % 2 or min(batch_rows, default=1) < 1:
            raise ValueError("the parts of a run have different sizes")
    return Run(
        schema,
        hashes,
        cast("Sequence[pa.RecordBatch]", StoredBatches(body["rows"], schema, batch_rows, name)),
        np.cumsum([0, *batch_rows]).astype(np.int64),
        CloseTimes(close_times[:half], close_times[half:].view("<u8"), file.never),
        file=file,
        stored_bytes=sum(part.size for part in body.values()),
    )
