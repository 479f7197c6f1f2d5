"""Batches as one sorted, consolidated stream, in a bounded number of rows.

Owns the merge of sorted runs chunk by chunk, and the sorting of what is not sorted. Invariants: tables come out in the order of
rows, no two tables hold rows that are equal, and all together they are what consolidating everything at once would give; about
`rows_max` decoded rows are held at once, plus the bytes of one part for each of at most `runs_max` runs. Rows of one key and time
are held together: only their number can exceed the bound. Not here: where the output goes (`compact`, `client`).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa

from odfabric_persist.batch import Parts
from odfabric_persist.frontier import Frontier
from odfabric_persist.rows import RowCodec, advanced, between, concatenated
from odfabric_persist.state import Batch, Part

Run: TypeAlias = Callable[[int], Iterator[pa.Table]]
"""Opens a run: its updates in order, at most so many in each table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeLimits:
    """`rows_max`: decoded rows in memory.

    `runs_max`: runs that are merged at once. `spill_folder`: None is the system's.
    """

    rows_max: int = 2_000_000
    runs_max: int = 32
    spill_folder: Path | None = None


@dataclass(frozen=True, slots=True)
class Window:
    """What counts of batches, and how: times before `until`, moved up to `to`."""

    until: Frontier = None
    to: Frontier = 0


def merged(parts: Parts, batches: Sequence[Batch], window: Window, limits: MergeLimits) -> Iterator[pa.Table]:
    """Consolidated, sorted updates of batches, in non-empty tables of `rows_max` rows.

    Raises what reading a part raises.
    """
    if sum(batch.rows for batch in batches) <= limits.rows_max:
        tables = [_counted(parts.read(part), batch, window) for batch in batches for part in batch.parts]
        rows = parts.codec.consolidated(concatenated(tables, parts.codec.update_schema))
        if rows.num_rows:
            yield rows
        return
    with tempfile.TemporaryDirectory(prefix="persist-merge-", dir=limits.spill_folder) as folder:
        spills = _Spills(Path(folder), parts.codec)
        runs = [*_sorted_runs(parts, batches, window), *_unsorted_as_runs(parts, batches, window, limits, spills)]
        while len(runs) > limits.runs_max:
            first, runs = runs[: limits.runs_max], runs[limits.runs_max :]
            runs.append(spills.keep(merge_runs(parts.codec, first, limits.rows_max)))
        for table in merge_runs(parts.codec, runs, limits.rows_max):
            for start in range(0, table.num_rows, limits.rows_max):
                yield table.slice(start, limits.rows_max)


def _counted(updates: pa.Table, batch: Batch, window: Window) -> pa.Table:
    """What counts of a part.

    Times that were advanced cannot be outside the bounds of their batch.
    """
    if batch.since == 0:
        updates = between(updates, batch.lower, batch.upper)
    if window.until is not None:
        updates = between(updates, 0, window.until)
    return advanced(updates, window.to)


def _sorted_runs(parts: Parts, batches: Sequence[Batch], window: Window) -> Iterator[Run]:
    for batch in batches:
        for run in batch.runs:
            sorted_parts = [part for part in run if part.external is None]
            if sorted_parts:
                yield _run_of(parts, batch, sorted_parts, window)


def _run_of(parts: Parts, batch: Batch, run: Sequence[Part], window: Window) -> Run:
    def opened(rows: int) -> Iterator[pa.Table]:
        for part in run:
            for table in parts.stream(part, rows):
                yield _counted(table, batch, window)

    return opened


def _unsorted_as_runs(
    parts: Parts, batches: Sequence[Batch], window: Window, limits: MergeLimits, spills: _Spills
) -> Iterator[Run]:
    """External parts, as many at once as memory allows, sorted and put on the disk."""
    waiting: list[pa.Table] = []
    rows = 0
    for batch in batches:
        for part in batch.parts:
            if part.external is None:
                continue
            if waiting and rows + part.rows > limits.rows_max:
                yield spills.keep(_consolidated(parts.codec, waiting))
                waiting, rows = [], 0
            waiting.append(_counted(parts.read(part), batch, window))
            rows += part.rows
    if waiting:
        yield spills.keep(_consolidated(parts.codec, waiting))


def _consolidated(codec: RowCodec, tables: Sequence[pa.Table]) -> Iterator[pa.Table]:
    yield codec.consolidated(concatenated(tables, codec.update_schema))


@dataclass(slots=True)
class _Spills:
    """Runs in files of one folder, which its owner removes."""

    folder: Path
    codec: RowCodec
    count: int = 0

    def keep(self, tables: Iterator[pa.Table]) -> Run:
        path = self.folder / f"run-{self.count}"
        self.count += 1
        schema = self.codec.update_schema
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, schema) as writer:
            for table in tables:
                writer.write_table(table, max_chunksize=_SPILL_ROWS)

        def opened(rows: int) -> Iterator[pa.Table]:
            with pa.OSFile(str(path), "rb") as source, pa.ipc.open_stream(source) as reader:
                for batch in reader:
                    table = pa.Table.from_batches([batch], schema)
                    for start in range(0, table.num_rows, rows):
                        yield table.slice(start, rows)

        return opened


_SPILL_ROWS = 16 * 1024
"""Rows of a spilled run that are read at once."""


@dataclass(slots=True)
class _Head:
    """What is in memory of one run, and where the rest comes from."""

    codec: RowCodec
    rest: Iterator[pa.Table]
    rows: pa.Table = field(init=False)
    order: pa.Table = field(init=False)
    ended: bool = False

    def __post_init__(self) -> None:
        self.rows = self.codec.no_rows
        self.order = self.codec.comparable(self.rows, self.codec.order)
        self.extend()

    def extend(self) -> None:
        """Read on, until there are more rows or the run ends."""
        for table in self.rest:
            if table.num_rows:
                self.rows = pa.concat_tables([self.rows, table])
                self.order = pa.concat_tables([self.order, self.codec.comparable(table, self.codec.order)])
                return
        self.ended = True

    def take(self, count: int) -> pa.Table:
        """Hand out the first rows."""
        taken = self.rows.slice(0, count)
        self.rows, self.order = self.rows.slice(count), self.order.slice(count)
        return taken


def merge_runs(codec: RowCodec, runs: Sequence[Run], rows_max: int) -> Iterator[pa.Table]:
    """Sorted runs as one, consolidated.

    What stands before the end of every unfinished run is complete: it can be consolidated and handed out.
    """
    share = max(1, rows_max // max(1, len(runs)))
    heads = [_Head(codec, run(share)) for run in runs]
    while unfinished := [head for head in heads if not head.ended]:
        ends = [head.order.slice(head.order.num_rows - 1, 1) for head in unfinished]
        first = codec.first(ends)
        complete = [head.take(codec.before(head.order, ends[first])) for head in heads]
        rows = codec.consolidated(concatenated(complete, codec.update_schema))
        if rows.num_rows:
            yield rows
        unfinished[first].extend()
        heads = [head for head in heads if head.rows.num_rows]
    rows = codec.consolidated(concatenated([head.rows for head in heads], codec.update_schema))
    if rows.num_rows:
        yield rows
