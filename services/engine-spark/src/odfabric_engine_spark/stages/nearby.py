"""Rows near a change, where no others can be told by it.

Owns which old rows a plan gets to see whose windows reach a number of rows, or a span of values, and no further: around each new row those
that lie within twice the reach. Invariant: the plan gives the same difference as over all rows of the key. A row within the reach of a change
sees all that its own windows reach; one further out may see less than it should, but the same before and after, so what it gives cancels.
Rows lie in the order of the windows in their state; those that tie are looked at together, so what is looked at lies side by side however ties
are broken. Windows over one another may break them differently: what one of them takes last of rows that tie another takes first, so for these
it is different values of the first column that are counted, not rows. Not here: which windows reach how far (`near_windows`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from odfabric.formats.canonical_rows import one_array
from odfabric_engine_spark.incremental.by_column import joined, taken
from odfabric_engine_spark.incremental.exact import Longs
from odfabric_engine_spark.incremental.number_runs import run_starts
from odfabric_engine_spark.incremental.stable_order import stable_order
from odfabric_engine_spark.stages import excerpt
from odfabric_engine_spark.stages.delta import Delta
from odfabric_engine_spark.stages.excerpt import ChosenRows, StoredOrder, each_once, starts_of
from odfabric_engine_spark.state.row_search import Places, numbers_of
from odfabric_engine_spark.state.row_state import RowState
from odfabric_engine_spark.state.run import HASH, WEIGHT, Hashes, distinct, hashes_of

_LEAST, _MOST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Nearby(StoredOrder):
    """An excerpt: windows over rows of one key in an order reach `rows` rows to both sides, or `span` in the numbers of the first column.

    `dense`: rows that tie in the first column count as one.
    """

    rows: int
    span: int | None
    dense: bool = False

    @property
    def has_edges(self) -> bool:
        """As Excerpt."""
        return True

    def of_new(self, hashes: Hashes, rows: pa.Table) -> Longs:
        """As Excerpt: all of them."""
        return np.arange(len(hashes))

    def counts(self, state: RowState, hashes: Hashes, new_hashes: Hashes) -> Longs:
        """As Excerpt."""
        known = state.counts(hashes)
        if self.span is not None:
            return known
        asked = np.zeros(len(hashes), dtype=np.int64)
        starts = run_starts(new_hashes)
        changes = np.diff(np.append(starts, len(new_hashes)))
        asked[np.searchsorted(hashes, new_hashes[starts])] = changes * (2 * self._each_side + 1)
        found: Longs = np.minimum(known, asked)
        return found

    def chosen(self, state: RowState, new_hashes: Hashes, new: Delta) -> ChosenRows:
        """As Excerpt."""
        hashes = distinct(new_hashes)
        all_rows = ChosenRows(state.schema.empty_table(), new.slice(0, 0), hashes)
        counts = state.counts(hashes)
        asked = self.counts(state, hashes, new_hashes) if self.span is None else np.zeros_like(counts)
        large = counts > asked
        if not large.any() or (counts - asked).sum() < excerpt.LEFT_OUT_MIN:
            return all_rows
        near = np.nonzero(np.isin(new_hashes, hashes[large]))[0]
        old = self._near(state, new_hashes[near], new.take(near))
        if counts[large].sum() - old.num_rows < excerpt.LEFT_OUT_MIN:
            return all_rows
        owners = hashes_of(old.column(HASH))
        doubtful = distinct(self._doubtful(owners, old, new_hashes, new), hashes[~large])
        kept = np.nonzero(~np.isin(new_hashes, doubtful))[0]
        return ChosenRows(old.filter(pa.array(~np.isin(owners, doubtful))), new.take(kept), doubtful)

    @property
    def _each_side(self) -> int:
        """How many rows are looked at on each side of a change."""
        return 2 * self.rows

    def _near(self, state: RowState, hashes: Hashes, new: Delta) -> pa.Table:
        """Old rows near new ones, each once, by hash."""
        own = self.columns(new.rows)
        different = starts_of(hashes, [pa.chunked_array([column]) for column in own.values()])
        numbers = {name: numbers_of(column.take(pa.array(different))) for name, column in own.items()}
        if self.span is not None:
            return self._within(state, hashes[different], numbers, 2 * self.span)
        places = state.places(hashes[different], numbers).different()
        # Between places that are near each other all rows are looked at anyway: hardly any is read twice, however many tie beside them.
        apart = (places.hashes[1:] != places.hashes[:-1]) | (places.gaps() > 2 * self._each_side)
        begins, ends = (places.take(np.nonzero(each)[0]) for each in (np.append(True, apart), np.append(apart, True)))
        return each_once(
            [
                state.between(begins, ends),
                self._beside(state, begins, after=False),
                self._beside(state, ends, after=True),
            ]
        )

    def _beside(self, state: RowState, places: Places, *, after: bool) -> pa.Table:
        def read(some: Longs, counts: Longs) -> tuple[Longs, pa.Table]:
            numbers, rows = state.beside(places.take(some), counts, after=after)
            order = stable_order(numbers)
            return some[numbers[order]], taken(rows, order)

        _, rows, _ = self.outer(read, np.full(len(places), self._each_side), greatest=not after, dense=self.dense)
        return rows

    def _within(self, state: RowState, hashes: Hashes, numbers: Mapping[str, Longs], span: int) -> pa.Table:
        """Old rows of which the first column is not further from that of some new row."""
        *marks, (name, values) = numbers.items()
        lower = np.where(values < _LEAST + span, _LEAST, values - span)
        upper = np.where(values > _MOST - span, _MOST, values + span)
        # Rows that are near several new ones are read once. New rows ascend.
        begins = np.ones(len(hashes), dtype=bool)
        begins[1:] = (hashes[1:] != hashes[:-1]) | (lower[1:] > upper[:-1])
        for _, mark in marks:
            begins[1:] |= mark[1:] != mark[:-1]
        first = np.nonzero(begins)[0]
        last = np.append(first[1:], len(hashes)) - 1
        return state.between(
            state.places(hashes[first], {**{each: mark[first] for each, mark in marks}, name: lower[first]}),
            state.places(hashes[first], {**{each: mark[first] for each, mark in marks}, name: upper[last]}),
        )

    def _doubtful(self, owners: Hashes, old: pa.Table, new_hashes: Hashes, new: Delta) -> Hashes:
        """Keys of which rows are owed, or whose hash others have: between what is near may lie what was not taken for near."""
        owed = one_array(old.column(WEIGHT)).to_numpy() < 0
        both = np.concatenate([owners, new_hashes])
        order = stable_order(both)
        together = joined([old.select(new.rows.column_names), new.rows])
        return distinct(both[order][self.shared(both[order], taken(together, order))], owners[owed])
