"""Rows from the first change of a key on, where windows reach back to its first row but can go on from what the rows before gave.

Owns which old rows a plan gets to see: those that do not come before the earliest change; and what the others sum up to. Invariant: rows
before it are the same before and after a transaction, and what windows give for them does not change; so they stand for nothing but their number and their
sums, which are linear: rows that were withdrawn and those that took them back need not meet. Of keys of which rows are owed
before the cut, or that share a hash with others there, all rows are looked at. Not here: which windows these are (`running_windows`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from pyarrow import types

from odfabric.formats.canonical_rows import one_array
from odfabric_engine_spark.incremental.exact import (
    Integers,
    Longs,
    decimal_longs,
    decimal_units,
    object_array,
    units_to_decimal,
)
from odfabric_engine_spark.incremental.number_runs import run_starts
from odfabric_engine_spark.stages import excerpt
from odfabric_engine_spark.stages.delta import Delta
from odfabric_engine_spark.stages.excerpt import ChosenRows, Mask, StoredOrder, column_name, differing, further
from odfabric_engine_spark.state.row_search import Places, SomeRows, numbers_of
from odfabric_engine_spark.state.row_state import RowState
from odfabric_engine_spark.state.run import HASH, WEIGHT, Hashes, distinct, hashes_of

_EXACT = 1 << 62
"""Sums of magnitudes below this are exact as 64 bits."""
_BEFORE = "__odf_before"
_WITHDRAWN_MAX = 100_000
"""Rows withdrawn before a cut that are looked for one by one."""


@dataclass(frozen=True, slots=True)
class Before:
    """What the rows before a cut give: their number, or how many have a value in the column at `position`, or the sum of these."""

    position: int | None
    is_sum: bool
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class Running(StoredOrder):
    """An excerpt: windows over rows of one key, `greatest`: from those that are stored last on, need `before` of the rows that are cut off.

    Windows among them reach `rows` rows, or `span` in the numbers of the first column, as `nearby` has them. `dense`: rows that tie in it count as one.
    """

    greatest: bool
    before: tuple[Before, ...]
    rows: int = 0
    span: int | None = None
    dense: bool = False

    def counts(self, state: RowState, hashes: Hashes, new_hashes: Hashes, new: Delta) -> Longs:
        """As Excerpt."""
        known = state.counts(hashes)
        if known.sum() < excerpt.LEFT_OUT_MIN or not len(new_hashes):
            return known
        places = self._cuts(state, new_hashes, new)
        known[np.searchsorted(hashes, places.hashes)] -= places.count(after=self.greatest)
        return known

    def chosen(self, state: RowState, new_hashes: Hashes, new: Delta) -> ChosenRows:
        """As Excerpt. Rows have what the rows before them give in further columns."""
        places = self._cuts(state, new_hashes, new)
        left_out = places.count(after=self.greatest)
        is_cut = left_out > 0
        if left_out.sum() < excerpt.LEFT_OUT_MIN:
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
            return _beside(rows, cut_off.columns(np.searchsorted(places.hashes, hashes)))

        old = after(hashes_of(old.column(HASH)), old)
        return ChosenRows(old, _with(new.take(own), lambda rows: after(new_hashes[own], rows)), all_doubtful)

    def whole(self, rows: pa.Table) -> pa.Table:
        """As Excerpt: before them there is nothing."""
        return _beside(rows, [pa.nulls(rows.num_rows, each.type) for each in self.before])

    def _cuts(self, state: RowState, new_hashes: Hashes, new: Delta) -> Places:
        """For each key of new rows a place in the order of the window, before which nothing is needed of single rows.

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
        """Which row of each key, of which those of one follow each other, comes first in the order of the window."""
        starts = run_starts(hashes)
        return np.append(starts, len(hashes))[1:] - 1 if self.greatest else starts

    def _numbers(self, rows: pa.Table) -> dict[str, Longs]:
        """By which numbers rows are ordered."""
        return {name: numbers_of(column) for name, column in self.columns(rows).items()}

    def _cut_off(self, state: RowState, places: Places, new_hashes: Hashes, new: Delta) -> _CutOff:
        """What the rows before some places give."""
        found = _CutOff.nothing(self.before, len(places))
        keys = [column_name(position) for position in self.keys]
        own = new.rows.select(keys).take(pa.array(np.searchsorted(new_hashes, places.hashes)))
        withdrawn: list[SomeRows] = []
        read = [column_name(each.position) for each in self.before if each.position is not None]
        names = list(dict.fromkeys([WEIGHT, *keys, *read]))
        for some in state.rows_beside(places, after=self.greatest):
            rows = some.taken(names)
            weights = one_array(rows.column(WEIGHT)).to_numpy()
            found.add(some.owners, some.starts, rows, weights)
            of_rows = np.repeat(some.owners, some.counts)
            found.is_doubtful[of_rows[_others(rows, own, of_rows)]] = True
            if (weights < 0).any():
                withdrawn.append(some.chosen(np.nonzero(weights < 0)[0]))
        self._note_owed(state, places, withdrawn, found)
        for part, totals in zip(self.before, found.totals, strict=True):
            found.is_doubtful[np.abs(totals) > _largest(part)] = True  # Spark has the word for that
        return found

    def _note_owed(self, state: RowState, places: Places, withdrawn: Sequence[SomeRows], found: _CutOff) -> None:
        """Keys of which a row that was withdrawn was not there are in doubt: what is owed is not counted."""
        if sum(int(some.counts.sum()) for some in withdrawn) > _WITHDRAWN_MAX:
            for some in withdrawn:
                found.is_doubtful[some.owners] = True
            return
        for some in withdrawn:
            owners = np.repeat(some.owners, some.counts)
            rows = some.taken(None).drop_columns([WEIGHT])
            owed = state.weights_of_rows(places.hashes[owners], rows) < 0
            found.is_doubtful[owners[owed]] = True


@dataclass(frozen=True, slots=True)
class _CutOff:
    """What the rows before the cut of each key give, by the position of the key: `totals` of each part, and how many values were summed."""

    parts: tuple[Before, ...]
    totals: tuple[Integers, ...]
    values: tuple[Longs, ...]
    is_doubtful: Mask

    @classmethod
    def nothing(cls, parts: tuple[Before, ...], keys: int) -> _CutOff:
        """Of no rows."""
        totals = tuple(object_array([0] * keys) for _ in parts)
        return cls(parts, totals, tuple(np.zeros(keys, dtype=np.int64) for _ in parts), np.zeros(keys, dtype=bool))

    def add(self, owners: Longs, starts: Longs, rows: pa.Table, weights: Longs) -> None:
        """More rows: those of each owner, perhaps more than once, begin at `starts`."""
        for part, totals, values in zip(self.parts, self.totals, self.values, strict=True):
            column = None if part.position is None else one_array(rows.column(column_name(part.position)))
            there = weights
            if column is not None and column.null_count:
                there = np.where(column.is_valid().to_numpy(zero_copy_only=False), weights, 0)
            counts = np.add.reduceat(there, starts)
            np.add.at(values, owners, counts)
            added = _sums(column, there, starts) if part.is_sum and column is not None else counts.astype(object)
            np.add.at(totals, owners, added)

    def columns(self, keys: Longs) -> list[pa.Array]:
        """For rows of some keys, none of which is in doubt."""
        found = []
        for part, totals, values in zip(self.parts, self.totals, self.values, strict=True):
            known = np.where(self.is_doubtful, 0, totals)
            column = _column(known, part, values)
            found.append(column.take(pa.array(keys)))
        return found


def _column(totals: Integers, part: Before, values: Longs) -> pa.Array:
    """Totals in the type of a sum or a count; the sum of nothing is null."""
    valid = values > 0 if part.is_sum else np.ones(len(values), dtype=bool)
    if types.is_decimal(part.type):
        return units_to_decimal(totals, part.type, valid=valid)
    return pa.array(totals.astype(np.int64), part.type, mask=~valid)


def _sums(column: pa.Array, weights: Longs, starts: Longs) -> Integers:
    """Sums of consecutive runs of whole numbers or decimals, each as often as its weight says, in units of their scale."""
    is_decimal = types.is_decimal(column.type)
    longs = decimal_longs(column) if is_decimal else column.fill_null(0).to_numpy().astype(np.int64)
    if longs is not None and _magnitude(longs) * int(np.abs(weights).sum()) < _EXACT:
        return np.add.reduceat(longs * weights, starts).astype(object)
    units = decimal_units(column) if longs is None else longs.astype(object)
    return np.add.reduceat(units * weights, starts)


def _magnitude(values: Longs) -> int:
    return max(abs(int(values.max())), abs(int(values.min())))


def _largest(part: Before) -> int:
    """What fits into the type of a sum."""
    return 10**part.type.precision - 1 if types.is_decimal(part.type) else (1 << 63) - 1


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
