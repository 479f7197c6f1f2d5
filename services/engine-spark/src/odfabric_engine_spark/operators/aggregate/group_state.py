"""State of an aggregate: the statistics of each group, by its key.

Owns finding, replacing and dropping groups. Invariant: a group that is as if it had never had a row is not there; what is stored
is a function of the groups that each transaction replaced, and what is read is proportional to the groups that are asked for.
A change writes a group again, so of several runs the newest that has a key says what it is. Not here: what is added to a
group (`count_and_sum`), when it closes (`aggregate_run`), files (`state.checkpoint`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from odfabric.formats.slices.canonical_rows import one_array
from odfabric_engine_spark.arrays.array_types import Hashes, Longs, Mask
from odfabric_engine_spark.arrays.byte_hash import byte_hashes
from odfabric_engine_spark.arrays.stable_order import stable_order
from odfabric_engine_spark.operators.aggregate.accumulators.aggregate_functions import Accumulators, GroupValues
from odfabric_engine_spark.state.checkpoint import StoredCheckpoint
from odfabric_engine_spark.state.checkpoint_refusal import damaged
from odfabric_engine_spark.state.compaction_tiers import merges
from odfabric_engine_spark.state.key_range import ALL_KEYS, KeyPart
from odfabric_engine_spark.state.latest_rows import KEY, latest, latest_positions
from odfabric_engine_spark.state.net_rows import KeyedRows, gathered, pieces
from odfabric_engine_spark.state.run import CLOSES, WEIGHT, Run, RunFile, distinct
from odfabric_engine_spark.state.run_file import WrittenRun, open_written, write_run
from odfabric_engine_spark.state.stored_runs import StateWork, runs_to_store, without_dropped


@dataclass(frozen=True, slots=True)
class _Known:
    """Groups that are there: their positions, their keys, and when they close."""

    positions: Longs
    keys: pa.Array
    ends: Longs | None


class GroupState:
    """A query's groups: `key_names` are key columns, `end_column` is when they close.

    A position names a group until the state changes. Changing a state gives another one.
    """

    def __init__(
        self,
        schema: pa.Schema,
        key_names: Sequence[str],
        *,
        end_column: str | None,
        work: StateWork,
        runs: Sequence[Run] = (),
        dropped_to_us: int | None = None,
    ) -> None:
        self.key_names = tuple(key_names)
        self.dropped_to_us = dropped_to_us
        self.stored_schema = stored_schema(schema, timed=end_column is not None)
        self._schema = schema
        self._end_column = end_column
        self._work = work
        self._stored = tuple(runs)
        self._added: tuple[Run, ...] = ()
        self._spilled: tuple[Run, ...] = ()
        self._starts = np.zeros(0, dtype=np.int64)
        self._runs: tuple[Run, ...] = ()
        self._set_added((), ())

    @classmethod
    def schema(cls, key_fields: Sequence[pa.Field], accumulators: Accumulators) -> pa.Schema:
        """Columns of the state of a query."""
        return pa.schema([pa.field(KEY, pa.binary(), nullable=False), *key_fields, *accumulators.fields])

    @property
    def bytes(self) -> int:
        """Size of all runs."""
        return sum(run.stored_bytes for run in self._runs)

    @property
    def kept_bytes(self) -> int:
        """As a sealed state."""
        return sum(run.stored_bytes for run in self._stored)

    def find(self, keys: pa.Array) -> Longs:
        """Positions of keys, -1 for one that is not there. No key occurs twice."""
        found = np.full(len(keys), -1, dtype=np.int64)
        if not self._runs:
            return found
        known = self._known(distinct(byte_hashes(keys)))
        if len(known.keys):
            hits = pc.index_in(known.keys, value_set=keys)
            valid = hits.is_valid().to_numpy(zero_copy_only=False)
            found[hits.drop_null().to_numpy()] = known.positions[valid]
        return found

    def between(self, column: str, *, above_us: int | None, to_us: int, part: KeyPart = ALL_KEYS) -> Longs:
        """Positions of groups whose closing time, in `column`, is in (above, to]."""
        self._check_end(column)
        hashes = distinct(*(run.close_times.between(above_us, to_us) for run in self._runs))
        known = self._known(hashes[part.positions(hashes)])
        assert known.ends is not None
        inside = known.ends <= to_us
        if above_us is not None:
            inside &= known.ends > above_us
        return np.sort(known.positions[inside])

    def closing(self, *, above_us: int | None, to_us: int) -> int:
        """At most so many groups close in (above, to]: no row is read for that."""
        return sum(len(run.close_times.between(above_us, to_us)) for run in self._runs)

    def keys(self, positions: Longs) -> tuple[pa.Array, dict[str, pa.Array]]:
        """Bytes and columns of some keys."""
        rows = self._at(positions, [KEY, *self.key_names])
        return one_array(rows.column(KEY)), {name: one_array(rows.column(name)) for name in self.key_names}

    def values(self, positions: Longs, accumulators: Accumulators) -> GroupValues:
        """Statistics of some groups."""
        rows = self._at(positions, [field.name for field in accumulators.fields])
        return accumulators.load([one_array(column) for column in rows.columns], len(positions))

    def everything(self, rows_max: int) -> Iterator[pa.Table]:
        """All groups, about `rows_max` at a time: their keys and statistics."""
        for piece in pieces(self._runs, rows_max):
            _, rows = without_dropped(*latest(piece, with_gone=False), self.dropped_to_us)
            yield rows.select(self._schema.names)

    def as_run(
        self, keys: pa.Array, columns: dict[str, pa.Array], values: GroupValues, *, known: Mask, always: bool = False
    ) -> Run:
        """What says that groups are as given.

        Those that are zero are gone, unless they are `always` there. `known` are those that `find` finds.
        """
        zero = values.is_zero() & (not always)
        arrays = [keys, *(columns[name] for name in self.key_names), *values.arrays()]
        rows = pa.Table.from_arrays(arrays, schema=self._schema)
        told = np.nonzero(~zero | known)[0]
        return self._run_of(rows.take(pa.array(told)), (~zero[told]).astype(np.int64))

    def with_groups(self, rows: pa.Table) -> GroupState:
        """The state with all groups of a table of keys and statistics."""
        return self.with_run(self._run_of(rows.cast(self._schema), np.ones(rows.num_rows, dtype=np.int64)))

    def with_run(self, run: Run) -> GroupState:
        """The state with all groups as a run says that they are now."""
        if not len(run):
            return self
        runs = [*self._added, run]
        added = tuple(_together([runs[at] for at in group]) for group in merges([len(run) for run in runs]))
        other = self._copy()
        if sum(each.stored_bytes for each in added) > self._work.added_bytes_max:
            written = (latest(piece, with_gone=True) for piece in self._pieces(added))
            other._set_added((), (*self._spilled, self._in_file(written)))
        else:
            other._set_added(added, self._spilled)
        return other

    def without(self, column: str, *, to_us: int) -> GroupState:
        """The state without groups, even later ones, with `column` at most an instant."""
        self._check_end(column)
        other = self._copy()
        other.dropped_to_us = to_us if self.dropped_to_us is None else max(to_us, self.dropped_to_us)
        return other

    def files(self) -> tuple[RunFile, ...]:
        """All its runs where other processes find them, oldest first.

        Those in memory go to scratch.
        """
        added = (run if run.file else self._in_file([(run.hashes, run.slice(0, len(run)))]) for run in self._added)
        self._set_added(tuple(added), self._spilled)
        return tuple(run.file for run in self._runs if run.file is not None)

    def to_store(self, *, whole: bool) -> list[Run | WrittenRun]:
        """Kept and new runs to store, oldest first; `whole`: at most one."""
        runs = [*self._stored, *self._added_as_one()]

        def write(group: range) -> WrittenRun:
            oldest = group.start == 0
            found = (
                without_dropped(*latest(piece, with_gone=not oldest), self.dropped_to_us)
                for piece in self._pieces([runs[at] for at in group])
            )
            return write_run(self.stored_schema, self._work.scratch, found)

        return runs_to_store(runs, write, whole=whole, dropped_to_us=self.dropped_to_us)

    def _pieces(self, runs: Sequence[Run]) -> Iterator[KeyedRows]:
        for piece in pieces(runs, self._work.piece_rows):
            self._work.check()
            yield piece

    def _known(self, hashes: Hashes) -> _Known:
        """Groups with one of these hashes, which are sorted and distinct."""
        names = [WEIGHT, *([CLOSES] if self._end_column else []), KEY]
        parts, positions = [], []
        for start, run in zip(self._starts, self._runs, strict=True):
            if len(at := run.find(hashes)):
                parts.append((run.hashes[at], run.take(at, names)))
                positions.append(start + at)
        if not parts:
            ends = np.zeros(0, dtype=np.int64) if self._end_column else None
            return _Known(np.zeros(0, dtype=np.int64), pa.array([], pa.binary()), ends)
        keyed = gathered(parts)
        there = latest_positions(keyed)
        there = there[one_array(keyed.rows.column(WEIGHT)).to_numpy()[there] != 0]
        ends = None
        if self._end_column:
            ends = one_array(keyed.rows.column(CLOSES)).to_numpy()[there]
            if self.dropped_to_us is not None:
                kept = ends > self.dropped_to_us
                there, ends = there[kept], ends[kept]
        return _Known(np.concatenate(positions)[there], one_array(keyed.rows.column(KEY)).take(pa.array(there)), ends)

    def _at(self, positions: Longs, names: list[str]) -> pa.Table:
        """Some columns of groups, in the order of the positions."""
        order = stable_order(positions)
        ascending = positions[order]
        bounds = np.searchsorted(ascending, np.append(self._starts, np.iinfo(np.int64).max))
        schema = pa.schema([self.stored_schema.field(name) for name in names])
        taken = [schema.empty_table()]
        for number, run in enumerate(self._runs):
            own = ascending[bounds[number] : bounds[number + 1]]
            if len(own):
                taken.append(run.take(own - self._starts[number], names))
        back = np.empty(len(order), dtype=np.int64)
        back[order] = np.arange(len(order))
        return pa.concat_tables(taken).combine_chunks().take(pa.array(back))

    def _run_of(self, rows: pa.Table, weights: Longs) -> Run:
        hidden = [pa.array(weights)]
        if self._end_column is not None:
            hidden.append(one_array(rows.column(self._end_column)).view(pa.int64()))
        stored = pa.Table.from_arrays(
            [*hidden, *(one_array(column) for column in rows.columns)], self.stored_schema.names
        )
        stored = stored.cast(self.stored_schema)
        hashes = byte_hashes(one_array(rows.column(KEY)))
        return Run.of(*latest(gathered([(hashes, stored)]), with_gone=True))

    def _in_file(self, parts: Iterable[tuple[Hashes, pa.Table]]) -> Run:
        return open_written(write_run(self.stored_schema, self._work.scratch, parts), self.stored_schema)

    def _added_as_one(self) -> list[Run]:
        """What this transaction has replaced.

        That a group is gone is reported only if it was there before.
        """
        before = GroupState(
            self._schema, self.key_names, end_column=self._end_column, work=self._work, runs=self._stored
        )
        if self._spilled:
            pieces_of_all = self._pieces([*self._spilled, *self._added])
            run = self._in_file(_told(before, *latest(piece, with_gone=True)) for piece in pieces_of_all)
        elif self._added:
            one = _together(self._added)
            run = Run.of(*_told(before, one.hashes, one.slice(0, len(one))))
        else:
            return []
        return [run] if len(run) else []

    def _set_added(self, added: tuple[Run, ...], spilled: tuple[Run, ...]) -> None:
        self._added = added
        self._spilled = spilled
        self._runs = (*self._stored, *spilled, *added)
        self._starts = np.cumsum([0, *map(len, self._runs)]).astype(np.int64)[:-1]

    def _copy(self) -> GroupState:
        other = GroupState(
            self._schema,
            self.key_names,
            end_column=self._end_column,
            work=self._work,
            runs=self._stored,
            dropped_to_us=self.dropped_to_us,
        )
        other._set_added(self._added, self._spilled)
        return other

    def _check_end(self, column: str) -> None:
        if column != self._end_column:
            raise ValueError(f"groups do not close by {column}")


def _told(before: GroupState, hashes: Hashes, rows: pa.Table) -> tuple[Hashes, pa.Table]:
    """The rows that are worth telling over what was there before."""
    there = one_array(rows.column(WEIGHT)).to_numpy() != 0
    gone = np.nonzero(~there)[0]
    there[gone] = before.find(one_array(rows.column(KEY)).take(pa.array(gone))) >= 0
    kept = np.nonzero(there)[0]
    return hashes[kept], rows.take(pa.array(kept))


def _together(runs: Sequence[Run]) -> Run:
    if len(runs) == 1:
        return runs[0]
    return Run.of(*latest(gathered([(run.hashes, run.slice(0, len(run))) for run in runs]), with_gone=True))


def stored_schema(schema: pa.Schema, *, timed: bool) -> pa.Schema:
    """Columns of the runs of a state; a weight of zero says that a group is gone."""
    hidden = [pa.field(WEIGHT, pa.int64(), nullable=False)]
    if timed:
        hidden.append(pa.field(CLOSES, pa.int64()))
    return pa.schema([*hidden, *schema])


def stored_groups(
    checkpoint: StoredCheckpoint,
    name: str,
    schema: pa.Schema,
    key_names: Sequence[str],
    *,
    end_column: str | None,
    work: StateWork,
) -> GroupState:
    """Groups of a checkpoint: `schema` as `GroupState.schema` has it.

    Raises InvalidData if the file is damaged.
    """
    runs = checkpoint.runs(name, stored_schema(schema, timed=end_column is not None))
    dropped = checkpoint.dropped_to_us(name)
    state = GroupState(schema, key_names, end_column=end_column, work=work, runs=runs, dropped_to_us=dropped)
    table = checkpoint.table(name)
    if table is None:
        return state
    with damaged(checkpoint.name):
        return state.with_groups(table)
