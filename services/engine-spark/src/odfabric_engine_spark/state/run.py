"""A run: rows sorted by the hash of their key, found by binary search.

Owns look-up by hash and by closing time within one run, in memory or mapped from a file. Invariant: what is read is
proportional to the rows that are asked for, never to the run. Not here: what several runs mean together (`row_state`,
`operators.aggregate.group_state`), the bytes of their files (`run_file`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from odfabric.formats.slices.canonical_rows import one_array
from odfabric_engine_spark.arrays.array_types import Hashes, Longs
from odfabric_engine_spark.arrays.equal_runs import run_starts
from odfabric_engine_spark.arrays.stable_order import stable_order

HASH = "__odf_hash"
WEIGHT = "__odf_weight"
CLOSES = "__odf_closes"
"""Microseconds after the epoch at which a row closes; null for never."""


@dataclass(frozen=True, slots=True)
class CloseTimes:
    """When rows close, in that order, with the hashes of their keys; each pair once.

    `never` speaks of rows that do not.
    """

    times: Longs
    hashes: Hashes
    never: bool

    @classmethod
    def of(cls, hashes: Hashes, closes: pa.Array) -> CloseTimes:
        """Those of some rows in the order of their hashes."""
        valid = closes.is_valid().to_numpy(zero_copy_only=False)
        times: Longs = closes.drop_null().to_numpy(zero_copy_only=False)
        order = stable_order(times)
        times, hashes = times[order], hashes[valid][order]
        new = run_starts(times, hashes)
        return cls(times[new], hashes[new], not valid.all())

    def between(self, above_us: int | None, to_us: int) -> Hashes:
        """Hashes of keys with rows that close in (above, to]."""
        begin = 0 if above_us is None else int(np.searchsorted(self.times, above_us, side="right"))
        return self.hashes[begin : int(np.searchsorted(self.times, to_us, side="right"))]

    def share_closed(self, to_us: int) -> float:
        """Which part closes at an instant or before."""
        closed = int(np.searchsorted(self.times, to_us, side="right"))
        return closed / (len(self.times) + self.never) if closed else 0.0


NO_CLOSE_TIMES = CloseTimes(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.uint64), True)


@dataclass(frozen=True, slots=True)
class StoredAt:
    """Where a run lies: the hash of a checkpoint file and the run's name in it."""

    file: str
    name: str


@dataclass(frozen=True, slots=True)
class FilePart:
    """Bytes within a file."""

    path: Path
    at: int
    size: int

    def mapped(self) -> pa.Buffer:
        """They, mapped. Raises OSError, also if the file has less."""
        if not self.size:
            return pa.py_buffer(b"")
        with pa.memory_map(str(self.path)) as file:
            file.seek(self.at)
            found = file.read_buffer(self.size)
        if found.size != self.size:
            raise OSError(f"{self.path.name} has {found.size} of {self.size} bytes")
        return found


@dataclass(frozen=True, slots=True)
class RunFile:
    """A run for another process: where its parts are, its header, its file's name.

    The name that users know.
    """

    parts: Mapping[str, FilePart]
    batch_rows: tuple[int, ...]
    never: bool
    name: str


class Run:
    """Sorted hashes, and the rows beside them in batches.

    `starts` are the positions at which batches begin, and the end.

    `stored_at` is where a checkpoint has it, `file` where other processes find it, if they do.
    """

    __slots__ = ("_close_times", "batches", "file", "hashes", "schema", "starts", "stored_at", "stored_bytes")

    def __init__(
        self,
        schema: pa.Schema,
        hashes: Hashes,
        batches: Sequence[pa.RecordBatch],
        starts: Longs,
        close_times: CloseTimes | None = None,
        *,
        stored_at: StoredAt | None = None,
        file: RunFile | None = None,
        stored_bytes: int = 0,
    ) -> None:
        """Without `close_times` they are those of its rows."""
        self.schema = schema
        self.hashes = hashes
        self.batches = batches
        self.starts = starts
        self._close_times = close_times
        self.stored_at = stored_at
        self.file = file
        self.stored_bytes = stored_bytes

    @classmethod
    def of(cls, hashes: Hashes, rows: pa.Table) -> Run:
        """A run in memory; `hashes` are sorted."""
        batches = rows.to_batches()
        starts = np.cumsum([0, *(batch.num_rows for batch in batches)]).astype(np.int64)
        return cls(rows.schema, hashes, batches, starts, stored_bytes=rows.nbytes + hashes.nbytes)

    def __len__(self) -> int:
        return len(self.hashes)

    @property
    def close_times(self) -> CloseTimes:
        """When its rows close. Most runs in memory are written before anybody asks."""
        if self._close_times is None:
            self._close_times = NO_CLOSE_TIMES
            if CLOSES in self.schema.names and len(self):
                closes = self.slice(0, len(self)).column(CLOSES).combine_chunks()
                self._close_times = CloseTimes.of(self.hashes, closes)
        return self._close_times

    def find(self, hashes: Hashes) -> Longs:
        """Positions of rows with one of these hashes, which are sorted and distinct.

        Ascending.
        """
        return spans(*self.bounds(hashes))

    def counts(self, hashes: Hashes) -> Longs:
        """How many rows have each of these hashes."""
        begins, ends = self.bounds(hashes)
        return ends - begins

    def bounds(self, hashes: Hashes) -> tuple[Longs, Longs]:
        """Where the rows with each of some sorted hashes begin and end."""
        begins = np.searchsorted(self.hashes, hashes, side="left")
        return begins, np.maximum(np.searchsorted(self.hashes, hashes, side="right"), begins)

    def take(self, positions: Longs, names: Sequence[str] | None = None) -> pa.Table:
        """Rows at some positions, or some of their columns."""
        if len(self.batches) > 1 and (positions[1:] < positions[:-1]).any():
            # Batch by batch: a look into another batch for each row takes longer than all the rest.
            order = np.argsort(positions, kind="stable")
            places = np.empty_like(order)
            places[order] = np.arange(len(order))
            return self.take(positions[order], names).combine_chunks().take(pa.array(places))
        schema = self.schema if names is None else pa.schema([self.schema.field(name) for name in names])
        numbers = np.searchsorted(self.starts, positions, side="right") - 1
        firsts = np.nonzero(np.diff(numbers, prepend=-1))[0]
        taken = []
        for first, last in zip(firsts, np.append(firsts, len(positions))[1:], strict=True):
            number = int(numbers[first])
            inside = positions[first:last] - self.starts[number]
            batch = self.batches[number] if names is None else self.batches[number].select(names)
            taken.append(batch.take(pa.array(inside)))
        return pa.Table.from_batches(taken, schema=schema)

    def slice(self, begin: int, end: int, names: Sequence[str] | None = None) -> pa.Table:
        """Consecutive rows, or some of their columns."""
        schema = self.schema if names is None else pa.schema([self.schema.field(name) for name in names])
        taken = []
        number = max(int(np.searchsorted(self.starts, begin, side="right")) - 1, 0)
        while begin < end:
            start, stop = int(self.starts[number]), int(self.starts[number + 1])
            batch = self.batches[number] if names is None else self.batches[number].select(names)
            taken.append(batch.slice(begin - start, min(end, stop) - begin))
            begin, number = stop, number + 1
        return pa.Table.from_batches(taken, schema=schema)


def hashes_of(column: pa.Array | pa.ChunkedArray) -> Hashes:
    """A column of hashes as numbers."""
    found: Hashes = one_array(column).to_numpy(zero_copy_only=False).astype(np.uint64)
    return found


def distinct(*parts: Hashes) -> Hashes:
    """All hashes ascending, each once.

    Most are different, so sorting takes a tenth of the time of a table of them.
    """
    whole: Hashes = np.concatenate([np.zeros(0, dtype=np.uint64), *parts])
    if not (whole[1:] >= whole[:-1]).all():
        whole.sort()
    starts = run_starts(whole)
    return whole if len(starts) == len(whole) else whole[starts]


def spans(begins: Longs, ends: Longs) -> Longs:
    """All numbers of the ranges [begin, end), one range after the other."""
    lengths = ends - begins
    skipped = np.cumsum(lengths) - lengths
    numbers: Longs = np.repeat(begins - skipped, lengths) + np.arange(int(lengths.sum()))
    return numbers
