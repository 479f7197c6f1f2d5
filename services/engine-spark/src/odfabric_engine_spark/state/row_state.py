"""State of an input of a stage: its net rows by the hash of their key.

Owns look-up, change and eviction of rows over sorted runs. Invariant: what it answers is a function of the multiset of rows
that were added; what it stores is a function of the multisets that each transaction added, whatever calls and partitions they
came in. A temporal join costs what it touches. A hash stands for all keys that have it, so keys that collide are bound together,
which is sound. Not here: the bytes of files (`run_file`, `checkpoint`), what rows mean (`operators`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from odfabric.formats.slices.canonical_rows import one_array
from odfabric_engine_spark.arrays.array_types import Hashes, Longs
from odfabric_engine_spark.arrays.equal_runs import run_starts
from odfabric_engine_spark.state.compaction_tiers import merges
from odfabric_engine_spark.state.growing_run import GrowingRun
from odfabric_engine_spark.state.key_ends import Span, read_ends
from odfabric_engine_spark.state.key_ranks import KeyRanks
from odfabric_engine_spark.state.net_rows import KeyedRows, gathered, netted, pieces
from odfabric_engine_spark.state.row_search import (
    Places,
    SomeRows,
    place_in,
    rows_since,
    same_rows,
    shared_hashes,
    weights_in,
)
from odfabric_engine_spark.state.run import CLOSES, HASH, WEIGHT, Run, RunFile, distinct, hashes_of, spans
from odfabric_engine_spark.state.run_file import WrittenRun, open_written, write_run
from odfabric_engine_spark.state.stored_runs import StateWork, runs_to_store, without_dropped

_FURTHER = 4
"""How many times as far is looked where an end of a key did not have enough."""


class RowState:
    """Rows of `schema` with weights, and closing instants where `timed`."""

    def __init__(
        self,
        schema: pa.Schema,
        *,
        timed: bool,
        work: StateWork,
        runs: Sequence[Run] = (),
        dropped_to_us: int | None = None,
    ) -> None:
        self.timed = timed
        self.stored_schema = stored_schema(schema, timed=timed)
        self.dropped_to_us = dropped_to_us
        self._work = work
        self._stored = tuple(runs)
        self._spilled: list[Run] = []
        self._added: list[Run] = []
        self._prepared: tuple[Run, WrittenRun] | None = None

    @property
    def schema(self) -> pa.Schema:
        """Columns of the tables that are given and taken."""
        return pa.schema([pa.field(HASH, pa.uint64(), nullable=False), *self.stored_schema])

    @property
    def rows(self) -> int:
        """At most so many rows are stored."""
        return sum(map(len, self._runs))

    @property
    def bytes(self) -> int:
        """Size of all runs."""
        return sum(run.stored_bytes for run in self._runs)

    @property
    def kept_bytes(self) -> int:
        """As a sealed state."""
        return sum(run.stored_bytes for run in self._stored)

    def of_keys(self, hashes: pa.Array | pa.ChunkedArray) -> pa.Table:
        """Net rows of some keys, by hash, then by canonical bytes.

        Also those that are unmatched (weight below zero).
        """
        wanted = distinct(hashes_of(hashes))
        return self._netted([(run, run.find(wanted)) for run in self._runs])

    def closing_since(self, hashes: Hashes, since_us: Longs) -> pa.Table:
        """Rows of keys that close at an instant or later, as `of_keys` gives them.

        Hashes are sorted and distinct.
        """
        return self._netted([(run, spans(*rows_since(run, hashes, since_us))) for run in self._runs])

    def counts_since(self, hashes: Hashes, since_us: Longs) -> Longs:
        """How many rows of each key `closing_since` gives at most."""
        counts = np.zeros(len(hashes), dtype=np.int64)
        for run in self._runs:
            begins, ends = rows_since(run, hashes, since_us)
            counts += ends - begins
        return counts

    def weights_of_rows(self, hashes: Hashes, rows: pa.Table) -> Longs:
        """The net weights of rows that have all columns but weights, by ascending hashes.

        What is read does not grow with their keys.
        """
        weights = np.zeros(len(hashes), dtype=np.int64)
        for run in self._runs:
            weights += same_rows(run, hashes, rows, self.dropped_to_us)
        return weights

    def at_ends(self, hashes: Hashes, counts: Longs, *, greatest: bool) -> pa.Table:
        """Net rows of keys from one end of the order: at least `counts` if there.

        `hashes` are sorted and distinct. What is read follows what is asked for, not what a key has. Unmatched retractions come where they lie.
        """
        numbers, rows = self._outward([run.bounds(hashes) for run in self._runs], counts, greatest=greatest)
        return self._table(hashes[numbers], rows)

    def places(self, hashes: Hashes, columns: Mapping[str, Longs]) -> Places:
        """Where rows lie that have certain numbers in their first columns.

        A null counts as the least of all.
        """
        return Places(hashes, tuple(place_in(run, hashes, columns) for run in self._runs))

    def between(self, first: Places, last: Places) -> pa.Table:
        """Net rows from places to others of the same keys, those at them included.

        None of them lies between two pairs.
        """
        found = zip(self._runs, first.in_runs, last.in_runs, strict=True)
        return self._netted([(run, spans(begin.lower, end.upper)) for run, begin, end in found])

    def both_ends(self, hashes: Hashes, names: Sequence[str]) -> tuple[Hashes, pa.Table]:
        """Columns of each key's first and last row in each run, after their hashes."""
        owners, found = [hashes[:0]], [self.stored_schema.empty_table().select(names)]
        for run in self._runs:
            begins, ends = run.bounds(hashes)
            there = np.nonzero(begins < ends)[0]
            for at in (begins[there], ends[there] - 1):
                owners.append(hashes[there])
                found.append(run.take(at, names))
        return np.concatenate(owners), pa.concat_tables(found)

    def beside(self, places: Places, counts: Longs, *, after: bool) -> tuple[Longs, pa.Table]:
        """The nearest net rows on one side of places, at least `counts` if there.

        Before them of which place each is.

        Of a state whose rows do not close.
        """
        sides = [each.after if after else each.before for each in places.in_runs]
        numbers, rows = self._outward(sides, counts, greatest=not after)
        return numbers, self._table(places.hashes[numbers], rows)

    def rows_beside(self, places: Places, *, after: bool) -> Iterator[SomeRows]:
        """All rows on one side of places as runs have them, in pieces.

        They are known by the number of their place.
        """
        for run, each in zip(self._runs, places.in_runs, strict=True):
            begins, ends = each.after if after else each.before
            for some in SomeRows.pieces(run, begins, ends, self._work.piece_rows):
                self._work.check()
                yield some

    def _outward(self, spans_of: Sequence[Span], counts: Longs, *, greatest: bool) -> tuple[Longs, pa.Table]:
        """Net rows from one end of spans, at least `counts` if there.

        Before them of which span each is.
        """
        reach, pending = counts.copy(), np.arange(len(counts))
        found: list[tuple[Longs, pa.Table]] = []
        while len(pending):
            within = [(begins[pending], ends[pending]) for begins, ends in spans_of]
            outer = read_ends(self._runs, within, reach[pending], greatest=greatest)
            if outer is None:
                break
            done = outer.complete | (outer.positive(self.dropped_to_us) >= counts[pending])
            numbers, rows = outer.rows_of(done)
            found.append((pending[numbers], rows))
            pending = pending[~done]
            reach[pending] *= _FURTHER
        if not found:
            return pending[:0], self.stored_schema.empty_table()
        return np.concatenate([numbers for numbers, _ in found]), pa.concat_tables(
            [rows for _, rows in found]
        ).combine_chunks()

    def weights_of(
        self, hashes: Hashes, owner: tuple[str, pa.Array], value: tuple[str, pa.Array]
    ) -> tuple[Longs, Hashes]:
        """Net weights of single rows, and hashes that several owners share.

        By ascending hashes and by their values in the first two columns; of the shared hashes of which the weights are
        not known.
        """
        (owner_name, owners), (name, values) = owner, value
        starts = run_starts(hashes)
        weights, shared = np.zeros(len(hashes), dtype=np.int64), []
        for run in self._runs:
            shared.append(shared_hashes(run, hashes[starts], owner_name, owners.take(pa.array(starts))))
            weights += weights_in(run, hashes, name, values, self.dropped_to_us)
        return weights, distinct(*shared)

    def ranks_of(self, hashes: Hashes, owner: tuple[str, pa.Array], name: str) -> Iterator[KeyRanks | None]:
        """The rows of some keys by a column, one key after the other.

        None where the order does not tell: an owner shares its hash, or its rows are removed. Hashes are sorted and
        distinct."""
        bounds = [run.bounds(hashes) for run in self._runs]
        doubts = [shared_hashes(run, hashes, *owner) for run in self._runs]
        if self.dropped_to_us is not None:
            doubts += [run.close_times.between(None, self.dropped_to_us) for run in self._runs]
        doubtful = np.isin(hashes, distinct(*doubts))
        for at in range(len(hashes)):
            own = [(int(begins[at]), int(ends[at])) for begins, ends in bounds]
            yield None if doubtful[at] else KeyRanks(self._runs, own, name)

    def closing(self, above_us: int | None, to_us: int) -> pa.Array:
        """Ascending hashes of keys with rows closing in (above, to].

        Perhaps of rows that were withdrawn since.
        """
        if self.dropped_to_us is not None:
            above_us = self.dropped_to_us if above_us is None else max(above_us, self.dropped_to_us)
        found = [run.close_times.between(above_us, to_us) for run in self._runs]
        return pa.array(distinct(*found), pa.uint64())

    def everything(self, rows_max: int) -> Iterator[pa.Table]:
        """All net rows as `of_keys` gives them, about `rows_max` at a time.

        A key is never cut.
        """
        for piece in pieces(self._runs, rows_max):
            table = self._table(*netted(piece, each_netted=True))
            if table.num_rows:
                yield table

    def counts(self, hashes: Hashes) -> Longs:
        """How many rows each of some keys has at most. They are sorted and distinct."""
        found = np.zeros(len(hashes), dtype=np.int64)
        for run in self._runs:
            found += run.counts(hashes)
        return found

    def files(self) -> tuple[RunFile, ...]:
        """All its rows where other processes find them; those in memory go to scratch."""
        self._added = [run if run.file else self.in_file(run) for run in self._added]
        return tuple(run.file for run in self._runs if run.file is not None)

    def in_file(self, run: Run) -> Run:
        """A run of this state in a file of scratch instead of memory."""
        rows = ((piece.hashes, piece.rows) for piece in self._pieces([run]))
        return open_written(write_run(self.stored_schema, self._work.scratch, rows), self.stored_schema)

    def as_run(self, rows: pa.Table) -> Run:
        """Weighted rows as `add_run` takes them: columns as in `schema`. Any thread."""
        named = rows.select(self.schema.names).cast(self.schema)
        weights = named.column(WEIGHT).to_numpy()
        if not weights.all():
            named = named.filter(pa.array(weights != 0))
        named = named.combine_chunks()
        hashes = one_array(named.column(HASH)).to_numpy()
        rows = named.drop_columns([HASH])
        return Run.of(*netted(gathered([(hashes, rows)]), each_netted=False))

    def add_run(self, run: Run) -> None:
        """Adds a run of net rows; those of each hash lie in the order of their bytes."""
        if not len(run):
            return
        runs = [*self._added, run]
        self._added = [self._together([runs[at] for at in group]) for group in merges([len(run) for run in runs])]
        if sum(each.stored_bytes for each in self._added) > self._work.added_bytes_max:
            self._spill(self._written(self._added))
            self._added = []

    def grow(self) -> GrowingRun:
        """Takes runs as `add_run` does that come by ascending hash; `add_grown` adds them."""
        return GrowingRun(self.stored_schema, self._work, self._kept)

    def add_grown(self, grown: GrowingRun) -> None:
        """Adds all that it has taken."""
        made = grown.finished()
        if isinstance(made, Run):
            self.add_run(made)
        elif made.rows:
            self._spill(made)

    def prepare(self) -> None:
        """Write a transaction's additions early, as `sealed` wants them; more may follow."""
        if len(self._added) == 1 and not self._spilled:
            (run,) = self._added
            self._prepared = run, self._written([run])

    def expire_closed(self, to_us: int) -> None:
        """Removes rows that close at an instant or before, those added later included."""
        self._prepared = None
        self.dropped_to_us = to_us if self.dropped_to_us is None else max(to_us, self.dropped_to_us)

    def to_store(self, *, whole: bool) -> list[Run | WrittenRun]:
        """Kept and new runs to store, oldest first; `whole`: at most one."""
        runs = [*self._stored, *self._added_as_one()]

        def write(group: range) -> WrittenRun:
            return self._written([runs[at] for at in group])

        return runs_to_store(runs, write, whole=whole, dropped_to_us=self.dropped_to_us)

    def _spill(self, written: WrittenRun) -> None:
        run = open_written(written, self.stored_schema)
        self._prepared = run, written
        self._spilled.append(run)

    @property
    def _runs(self) -> list[Run]:
        return [*self._stored, *self._spilled, *self._added]

    def _added_as_one(self) -> list[Run]:
        """What this transaction has added: one run, and none if it came to nothing."""
        if self._prepared is not None and self._spilled == [self._prepared[0]] and not self._added:
            run = self._prepared[0]
        elif self._spilled:
            run = open_written(self._written([*self._spilled, *self._added]), self.stored_schema)
        else:
            run = self._together(self._added)
            if self.dropped_to_us is not None:
                run = Run.of(*self._kept(run.hashes, run.slice(0, len(run))))
        return [run] if len(run) else []

    def _together(self, runs: Sequence[Run]) -> Run:
        if len(runs) == 1:
            return runs[0]
        parts = [(run.hashes, run.slice(0, len(run))) for run in runs]
        nothing = (np.zeros(0, dtype=np.uint64), self.stored_schema.empty_table())
        return Run.of(*self._kept(*netted(gathered(parts or [nothing]), each_netted=True)))

    def _written(self, runs: Sequence[Run]) -> WrittenRun:
        if self._prepared is not None and len(runs) == 1 and runs[0] is self._prepared[0]:
            return self._prepared[1]
        found = (self._kept(*_net(piece, len(runs))) for piece in self._pieces(runs))
        return write_run(self.stored_schema, self._work.scratch, found)

    def _pieces(self, runs: Sequence[Run]) -> Iterator[KeyedRows]:
        for piece in pieces(runs, self._work.piece_rows):
            self._work.check()
            yield piece

    def _kept(self, hashes: Hashes, rows: pa.Table) -> tuple[Hashes, pa.Table]:
        return without_dropped(hashes, rows, self.dropped_to_us)

    def _netted(self, places: Sequence[tuple[Run, Longs]]) -> pa.Table:
        """Net rows at places of runs that hold all their equals."""
        found = [(run.hashes[at], run.take(at)) for run, at in places if len(at)]
        if not found:
            return self.schema.empty_table()
        return self._table(*netted(gathered(found), each_netted=True))

    def _table(self, hashes: Hashes, rows: pa.Table) -> pa.Table:
        hashes, rows = self._kept(hashes, rows)
        return rows.add_column(0, self.schema.field(0), pa.array(hashes, pa.uint64()))


def _net(piece: KeyedRows, runs: int) -> tuple[Hashes, pa.Table]:
    """Net rows of so many runs; those of a single one are net."""
    return netted(piece, each_netted=True) if runs > 1 else (piece.hashes, piece.rows)


def stored_schema(schema: pa.Schema, *, timed: bool) -> pa.Schema:
    """Columns of the runs of a state; hashes lie beside them."""
    hidden = [pa.field(WEIGHT, pa.int64(), nullable=False)]
    if timed:
        hidden.append(pa.field(CLOSES, pa.int64()))
    return pa.schema([*hidden, *schema])
