"""Read the rows within reach of a change, for bounded window frames.

Owns which old rows a plan gets to see whose windows reach a number of rows, or a span of values, and no further: around each new row those
that lie within twice the reach. Invariant: the plan gives the same difference as over all rows of the key. A row within the reach of a change
sees all that its own windows reach; one further out may see less than it should, but the same before and after, so what it gives cancels.
Rows lie in the order of the windows in their state; those that tie are looked at together, so what is looked at lies side by side however ties
are broken. Windows over one another may break them differently: what one of them takes last of rows that tie another takes first, so for these
it is different values of the first column that are counted, not rows. Not here: which windows reach how far (`bounded_frames`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from odfabric_engine_spark.arrays.array_types import Hashes, Longs
from odfabric_engine_spark.arrays.equal_runs import run_starts
from odfabric_engine_spark.operators.touched_keys import partial_read
from odfabric_engine_spark.operators.touched_keys.partial_read import (
    ChosenRows,
    StoredOrder,
    each_once,
    further,
    starts_of,
)
from odfabric_engine_spark.rows.delta import Delta
from odfabric_engine_spark.state.row_search import Places, numbers_of
from odfabric_engine_spark.state.row_state import RowState
from odfabric_engine_spark.state.run import HASH, distinct, hashes_of


@dataclass(frozen=True, slots=True)
class BoundedFrameRead(StoredOrder):
    """A partial read for windows over a bounded frame of one key's ordered rows.

    Windows reach `rows` rows to both sides, or `span` in the numbers of the first column.

    `dense`: rows that tie in the first column count as one.
    """

    rows: int
    span: int | None
    dense: bool = False

    def counts(self, state: RowState, hashes: Hashes, new_hashes: Hashes, new: Delta) -> Longs:
        """As `PartialRead`."""
        known = state.counts(hashes)
        if known.sum() < partial_read.LEFT_OUT_MIN or not len(new_hashes):
            return known
        near = np.zeros(len(hashes), dtype=np.int64)
        if self.span is None:
            starts = run_starts(new_hashes)
            changes = np.diff(np.append(starts, len(new_hashes)))
            near[np.searchsorted(hashes, new_hashes[starts])] = changes * (2 * self._each_side + 1)
        else:
            first, last = self._stretches(state, new_hashes, new, self.span)
            at = np.searchsorted(hashes, first.hashes)
            for begin, end in zip(first.in_runs, last.in_runs, strict=True):
                np.add.at(near, at, end.upper - begin.lower)
        found: Longs = np.minimum(known, near)
        return found

    def chosen(self, state: RowState, new_hashes: Hashes, new: Delta) -> ChosenRows:
        """As `PartialRead`."""
        hashes = distinct(new_hashes)
        left_out = state.counts(hashes) - self.counts(state, hashes, new_hashes, new)
        is_near = left_out > 0
        if not is_near.any() or left_out.sum() < partial_read.LEFT_OUT_MIN:
            return ChosenRows(state.schema.empty_table(), new.slice(0, 0), hashes)
        near = np.nonzero(np.isin(new_hashes, hashes[is_near]))[0]
        old = self._near(state, new_hashes[near], new.take(near))
        owners = hashes_of(old.column(HASH))
        doubtful = distinct(self.doubtful(owners, old, new_hashes, new), hashes[~is_near])
        kept = np.nonzero(~np.isin(new_hashes, doubtful))[0]
        return ChosenRows(old.filter(pa.array(~np.isin(owners, doubtful))), new.take(kept), doubtful)

    @property
    def _each_side(self) -> int:
        """How many rows are looked at on each side of a change."""
        return 2 * self.rows

    def _near(self, state: RowState, hashes: Hashes, new: Delta) -> pa.Table:
        """Old rows near new ones, each once, by hash."""
        if self.span is not None:
            return state.between(*self._stretches(state, hashes, new, self.span))
        different, numbers = self._numbers(hashes, new)
        places = state.places(hashes[different], numbers).different()
        # Between places that are near each other all rows are looked at anyway: hardly any is read twice, however many tie beside them.
        apart = (places.hashes[1:] != places.hashes[:-1]) | (places.gaps() > 2 * self._each_side)
        begins, ends = (places.take(np.nonzero(each)[0]) for each in (np.append(True, apart), np.append(apart, True)))
        return each_once(
            [
                state.between(begins, ends),
                self.beside(state, begins, self._each_side, after=False, dense=self.dense),
                self.beside(state, ends, self._each_side, after=True, dense=self.dense),
            ]
        )

    def _stretches(self, state: RowState, hashes: Hashes, new: Delta, span: int) -> tuple[Places, Places]:
        """Stretches of old rows within twice the reach of a new row, each once.

        Distance is by the first column.
        """
        different, numbers = self._numbers(hashes, new)
        hashes = hashes[different]
        *marks, (name, values) = numbers.items()
        lower, upper = further(values, 2 * span, up=False), further(values, 2 * span, up=True)
        begins = np.ones(len(hashes), dtype=bool)
        begins[1:] = (hashes[1:] != hashes[:-1]) | (lower[1:] > upper[:-1])
        for _, mark in marks:
            begins[1:] |= mark[1:] != mark[:-1]
        first = np.nonzero(begins)[0]
        last = np.append(first[1:], len(hashes)) - 1
        both = {each: np.tile(mark[first], 2) for each, mark in marks}
        places = state.places(np.tile(hashes[first], 2), {**both, name: np.concatenate([lower[first], upper[last]])})
        return places.take(np.arange(len(first))), places.take(np.arange(len(first), 2 * len(first)))

    def _numbers(self, hashes: Hashes, new: Delta) -> tuple[Longs, dict[str, Longs]]:
        """Positions of new rows that differ in key or order, and their sort numbers."""
        own = self.columns(new.rows)
        different = starts_of(hashes, [pa.chunked_array([column]) for column in own.values()])
        return different, {name: numbers_of(column.take(pa.array(different))) for name, column in own.items()}
