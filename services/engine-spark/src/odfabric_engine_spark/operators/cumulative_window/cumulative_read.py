"""Read rows from the first change on, for cumulative windows.

Owns which old rows a plan gets to see: those that do not come before the earliest change. Invariant: rows
before it are the same before and after a transaction, and what windows give for them does not change; so they stand for nothing but what functions need
of them. Of keys of which rows are unmatched before the cut, or that share a hash with others there, or of which that is not certain, all
rows are looked at. Not here: which windows these are (`cumulative_frames`), what the rows before give (`prefix_values`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from odfabric.formats.slices.canonical_rows import one_array
from odfabric_engine_spark.arrays.array_types import Hashes, Longs
from odfabric_engine_spark.arrays.equal_runs import run_starts
from odfabric_engine_spark.operators.cumulative_window.prefix_values import Before, Stretches, prefix_value
from odfabric_engine_spark.operators.touched_keys import partial_read
from odfabric_engine_spark.operators.touched_keys.partial_read import (
    ChosenRows,
    Mask,
    StoredOrder,
    column_name,
    differing,
    further,
)
from odfabric_engine_spark.rows.delta import Delta
from odfabric_engine_spark.state.row_search import Places, SomeRows, numbers_of
from odfabric_engine_spark.state.row_state import RowState
from odfabric_engine_spark.state.run import HASH, WEIGHT, distinct, hashes_of

_BEFORE = "__odf_before"
_WITHDRAWN_MAX = 100_000
"""Rows withdrawn before a cut that are looked for one by one."""


@dataclass(frozen=True, slots=True)
class CumulativeRead(StoredOrder):
    """A partial read for windows that need `before` of the rows that are cut off.

    Windows are over rows of one key; `greatest`: they begin with the rows that are stored last.

    Windows among them reach `rows` rows, or `span` in the numbers of the first column, as `nearby` has them. `dense`: rows that tie in it count as one.
    """

    greatest: bool
    before: tuple[Before, ...]
    rows: int = 0
    span: int | None = None
    dense: bool = False

    def counts(self, state: RowState, hashes: Hashes, new_hashes: Hashes, new: Delta) -> Longs:
        """As `PartialRead`."""
        known = state.counts(hashes)
        if known.sum() < partial_read.LEFT_OUT_MIN or not len(new_hashes):
            return known
        places = self._cuts(state, new_hashes, new)
        known[np.searchsorted(hashes, places.hashes)] -= places.count(after=self.greatest)
        return known

    def chosen(self, state: RowState, new_hashes: Hashes, new: Delta) -> ChosenRows:
        """As `PartialRead`. Rows have what the rows before them give in further columns."""
        places = self._cuts(state, new_hashes, new)
        left_out = places.count(after=self.greatest)
        is_cut = left_out > 0
        if left_out.sum() < partial_read.LEFT_OUT_MIN:
            return ChosenRows(self.whole(state.schema.empty_table()), _with(new.slice(0, 0), self.whole), places.hashes)
        doubtful = [places.hashes[~is_cut]]
        places = places.take(np.nonzero(is_cut)[0])
        cut_off = self._cut_off(state, places, new_hashes, new)
        doubtful.append(places.hashes[cut_off.is_doubtful])
        every = places.everything()
        old = state.between(every, places) if self.greatest else state.between(places, every)
        owners = hashes_of(old.column(HASH))
        kept = np.isin(new_hashes, places.hashes)
        doubtful.append(self.doubtful(owners, old, new_hashes[kept], new.take(np.nonzero(kept)[0])))
        all_doubtful = distinct(*doubtful)
        old = old.filter(pa.array(~np.isin(owners, all_doubtful)))
        own = np.nonzero(~np.isin(new_hashes, all_doubtful))[0]

        def after(hashes: Hashes, rows: pa.Table) -> pa.Table:
            return _beside(rows, cut_off.of(np.searchsorted(places.hashes, hashes)))

        old = after(hashes_of(old.column(HASH)), old)
        return ChosenRows(old, _with(new.take(own), lambda rows: after(new_hashes[own], rows)), all_doubtful)

    def whole(self, rows: pa.Table) -> pa.Table:
        """As `PartialRead`: before them there is nothing."""
        return _beside(rows, [pa.nulls(rows.num_rows, each.type) for each in self.before])

    def _cuts(self, state: RowState, new_hashes: Hashes, new: Delta) -> Places:
        """Each new row's key's cut in the window order; single rows before are unneeded.

        It is where the first change lies, or so far before it that what is near the cut is further from the change than any window reaches.
        """
        first = self._outermost(new_hashes)
        hashes, numbers = new_hashes[first], self._numbers(new.rows.take(pa.array(first)))
        if self.span is not None:
            name, values = list(numbers.items())[-1]
            numbers[name] = further(values, 2 * self.span, up=self.greatest)
        places = state.places(hashes, numbers)
        if not self.rows:
            return places
        near = self.beside(state, places, 2 * self.rows, after=self.greatest, dense=self.dense)
        owners = hashes_of(near.column(HASH))
        last = self._outermost(owners)
        of_last = self._numbers(near.select(new.rows.column_names).take(pa.array(last)))
        at = np.searchsorted(hashes, owners[last])
        for name, values in of_last.items():
            numbers[name] = numbers[name].copy()
            numbers[name][at] = values
        return state.places(hashes, numbers)

    def _outermost(self, hashes: Hashes) -> Longs:
        """The first row of each key in the window's order; a key's rows are adjacent."""
        starts = run_starts(hashes)
        return np.append(starts, len(hashes))[1:] - 1 if self.greatest else starts

    def _numbers(self, rows: pa.Table) -> dict[str, Longs]:
        """By which numbers rows are ordered."""
        return {name: numbers_of(column) for name, column in self.columns(rows).items()}

    def _cut_off(self, state: RowState, places: Places, new_hashes: Hashes, new: Delta) -> _PrefixOfKeys:
        """What the rows before some places give."""
        things = [prefix_value(each, len(places)) for each in self.before]
        is_doubtful = np.zeros(len(places), dtype=bool)
        own = new.rows.select(self._of_keys).take(pa.array(np.searchsorted(new_hashes, places.hashes)))
        withdrawn: list[SomeRows] = []
        for some in state.rows_beside(places, after=self.greatest):
            stretches = self._stretches(some)
            for each in things:
                each.add(stretches)
            of_rows = stretches.owner_of
            is_doubtful[of_rows[_others(stretches.rows, own, of_rows)]] = True
            if (stretches.weights < 0).any():
                withdrawn.append(some.chosen(np.nonzero(stretches.weights < 0)[0]))
        is_doubtful |= self._unmatched(state, places, withdrawn)
        settled = [each.settled() for each in things]
        for _, in_doubt in settled:
            is_doubtful |= in_doubt
        return _PrefixOfKeys(tuple(column for column, _ in settled), is_doubtful)

    @property
    def _of_keys(self) -> list[str]:
        return [column_name(position) for position in self.keys]

    def _stretches(self, some: SomeRows) -> Stretches:
        """Rows with what is asked of them."""
        read = [column_name(each.position) for each in self.before if each.position is not None]
        goes_by_order = any(each.goes_by_order for each in self.before)
        ordered = [column_name(each.position) for each in self.order if goes_by_order]
        rows = some.taken(list(dict.fromkeys([WEIGHT, *self._of_keys, *read, *ordered])))
        weights = one_array(rows.column(WEIGHT)).to_numpy()
        return Stretches(some.owners, some.starts, rows, weights, self._in_order(rows) if goes_by_order else None)

    def _in_order(self, rows: pa.Table) -> Longs:
        """Numbers that ascend in the order of the windows."""
        *marks, numbers = self._numbers(rows).values()
        for is_null in marks:  # these lie behind all others
            numbers = np.where(is_null == 1, np.iinfo(np.int64).max, numbers)
        return ~numbers if self.greatest else numbers

    def _unmatched(self, state: RowState, places: Places, withdrawn: Sequence[SomeRows]) -> Mask:
        """Keys in doubt because a row that was withdrawn was not there.

        An unmatched retraction is not counted.
        """
        found = np.zeros(len(places), dtype=bool)
        if sum(int(some.counts.sum()) for some in withdrawn) > _WITHDRAWN_MAX:
            for some in withdrawn:
                found[some.owners] = True
            return found
        for some in withdrawn:
            owners = np.repeat(some.owners, some.counts)
            rows = some.taken(None).drop_columns([WEIGHT])
            unmatched = state.weights_of_rows(places.hashes[owners], rows) < 0
            found[owners[unmatched]] = True
        return found


@dataclass(frozen=True, slots=True)
class _PrefixOfKeys:
    """What the rows before the cut of each key give, by the position of the key."""

    columns: tuple[pa.Array, ...]
    is_doubtful: Mask

    def of(self, keys: Longs) -> list[pa.Array]:
        """For rows of some keys, none of which is in doubt."""
        return [each.take(pa.array(keys)) for each in self.columns]


def _others(rows: pa.Table, own: pa.Table, owners: Longs) -> Mask:
    """Rows that have another key than their owner."""
    found = np.zeros(rows.num_rows, dtype=bool)
    for name in own.column_names:
        expected = one_array(own.column(name)).take(pa.array(owners))
        found |= differing(one_array(rows.column(name)), expected)
    return found


def _with(delta: Delta, change: Callable[[pa.Table], pa.Table]) -> Delta:
    return replace(delta, rows=change(delta.rows))


def _beside(rows: pa.Table, columns: Sequence[pa.Array]) -> pa.Table:
    for at, column in enumerate(columns):
        rows = rows.append_column(f"{_BEFORE}{at}", column)
    return rows
