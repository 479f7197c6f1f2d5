"""The first rows of keys, where nothing can come of the others.

Owns which rows of a ranked leaf a plan gets to see, where it takes rows up to some rank: of old and of new rows those that can be among the
first before or after a transaction. Invariant: the plan gives the same as over all rows of the key. A row that is withdrawn lets at most
one move up, so as many more old rows are looked at; what ties with the last of them is looked at too. Rows lie in the order of the
ranking in their state (`columns` come first in its rows), so what is read does not grow with the key. Not here: which leaves are ranked
(`ranked`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from odfabric.formats.canonical_rows import has_integers_in_order, integers_in_order, one_array, row_bytes
from odfabric_engine_spark.incremental.by_column import joined, taken
from odfabric_engine_spark.incremental.exact import Longs
from odfabric_engine_spark.incremental.number_runs import run_starts
from odfabric_engine_spark.incremental.stable_order import stable_order
from odfabric_engine_spark.stages.delta import Delta
from odfabric_engine_spark.state.row_state import RowState
from odfabric_engine_spark.state.run import HASH, WEIGHT, Hashes, distinct, hashes_of

_Mask = npt.NDArray[np.bool_]
_STORED = "__odf_order"
"""How columns are named that are stored before those of a leaf."""
_FURTHER = 4
"""How many times as far is looked where the last rows tie."""


@dataclass(frozen=True, slots=True)
class OrderColumn:
    """A column of a leaf by which its rows are ranked. `inverted`: against the direction in which rows are read.

    `marks_nulls`: nulls do not come where they lie in a state.
    """

    position: int
    inverted: bool
    marks_nulls: bool


def is_ordered_here(data_type: pa.DataType, *, inverted: bool) -> bool:
    """Whether values of a type are stored in the order that Spark has, or in its inverse."""
    if has_integers_in_order(data_type) or types.is_decimal(data_type):
        return True
    return not inverted and bool(types.is_string(data_type) or types.is_binary(data_type))


@dataclass(frozen=True, slots=True)
class FirstRows:
    """Rows that can be looked at, and of which. `doubtful` are keys of which all rows are needed."""

    old: pa.Table
    new: Delta
    doubtful: Hashes


@dataclass(frozen=True, slots=True)
class Outermost:
    """Rows of one key are ranked by `order`, and those up to the rank `count` are taken. Columns are known by position.

    `greatest`: the first are those that are stored last. `keys` are the columns of the key. `dense`: rows that tie have one rank, and
    the next ones that after it.
    """

    count: int
    keys: tuple[int, ...]
    order: tuple[OrderColumn, ...]
    greatest: bool
    dense: bool

    def columns(self, rows: pa.Table) -> dict[str, pa.Array]:
        """What is stored first of rows of the leaf: the canonical order of these is that of the ranking. A column whose own it is stands there."""
        found: dict[str, pa.Array] = {}
        for at, each in enumerate(self.order):
            name = _column(each.position)
            values = one_array(rows.column(name))
            if each.marks_nulls:
                found[f"{_STORED}{at}.null"] = values.is_null()
            if each.inverted or types.is_floating(values.type):
                found[f"{_STORED}{at}"] = _in_order(values, inverted=each.inverted)
            else:
                found[name] = values
        return found

    def stored(self, rows: pa.Table) -> dict[str, pa.Array | pa.ChunkedArray]:
        """All that is stored of rows of the leaf."""
        return self.columns(rows) | dict(zip(rows.column_names, rows.columns, strict=True))

    def stored_schema(self, leaf: pa.Schema) -> pa.Schema:
        """The columns of a state."""
        return pa.schema([pa.field(name, array.type) for name, array in self.stored(leaf.empty_table()).items()])

    def of_new(self, hashes: Hashes, rows: pa.Table) -> Longs:
        """Positions of new rows, as a run has them, that can be among the first or are withdrawn; all those of keys that share a hash."""
        weights = one_array(rows.column(WEIGHT)).to_numpy()
        chosen = weights < 0
        chosen |= self._first(hashes, rows, weights > 0, self._limits(hashes, weights))
        chosen |= self._shared(hashes, rows)
        positions: Longs = np.nonzero(chosen)[0]
        return positions

    def first_rows(self, state: RowState, new_hashes: Hashes, new: Delta) -> FirstRows:
        """Of the keys of new rows, which are what `of_new` has chosen."""
        hashes = distinct(new_hashes)
        old, is_cut = self._old(state, hashes, self._limits(new_hashes, new.weights))
        owners = hashes_of(old.column(HASH))
        owed = one_array(old.column(WEIGHT)).to_numpy() < 0
        both = np.concatenate([owners, new_hashes])
        order = stable_order(both)
        together = pa.concat_tables([old.select(new.rows.column_names), new.rows]).take(pa.array(order))
        doubtful = distinct(both[order][self._shared(both[order], together)], owners[owed])
        chosen = ~np.isin(new_hashes, doubtful)
        chosen &= ~self._beyond(old, is_cut, hashes, new_hashes, new)
        return FirstRows(old.filter(pa.array(~np.isin(owners, doubtful))), new.take(np.nonzero(chosen)[0]), doubtful)

    def _limits(self, hashes: Hashes, weights: Longs) -> Longs:
        """How many rows of each key have to be looked at."""
        starts = run_starts(hashes)
        withdrawn = np.add.reduceat(np.maximum(-weights, 0), starts) if len(starts) else starts
        limits: Longs = self.count + withdrawn
        return limits

    def _old(self, state: RowState, hashes: Hashes, limits: Longs) -> tuple[pa.Table, _Mask]:
        """As many rows of keys as `limits` say, with those that tie with the last, by hash; and of which keys there are others."""
        asked, pending = limits.copy(), np.arange(len(hashes))
        found = [state.schema.empty_table()]
        is_cut = np.zeros(len(hashes), dtype=bool)
        while len(pending):
            rows = _by_hash([state.at_ends(hashes[pending], asked[pending], greatest=self.greatest)])
            owners = hashes_of(rows.column(HASH))
            at = np.searchsorted(hashes, owners)
            there = one_array(rows.column(WEIGHT)).to_numpy() > 0
            first = self._first(owners, rows, there, limits[at[run_starts(owners)]])
            is_cut[at[~first]] = True
            is_whole = np.bincount(at[there], minlength=len(hashes)) < asked
            done = is_whole | is_cut
            found.append(rows.filter(pa.array(first & done[at])))
            pending = pending[~done[pending]]
            asked[pending] *= _FURTHER
        return _by_hash(found), is_cut

    def _beyond(self, old: pa.Table, is_cut: _Mask, hashes: Hashes, new_hashes: Hashes, new: Delta) -> _Mask:
        """Which new rows come after all old ones of their key that are looked at, if it has others."""
        found: _Mask = is_cut[np.searchsorted(hashes, new_hashes)]
        at = np.nonzero(found)[0]
        if len(at):
            owners = hashes_of(old.column(HASH))
            starts = run_starts(owners)
            last = starts if self.greatest else np.append(starts, len(owners))[1:] - 1
            last = last[np.searchsorted(owners[starts], new_hashes[at])]
            own = self.columns(taken(new.rows, at))
            new_bytes = row_bytes(list(own.values()))
            ends = row_bytes([one_array(old.column(name).take(pa.array(last))) for name in own])
            further = pc.less(new_bytes, ends) if self.greatest else pc.greater(new_bytes, ends)
            found[at] = further.to_numpy(zero_copy_only=False)
        return found

    def _first(self, hashes: Hashes, rows: pa.Table, is_there: _Mask, limits: Longs) -> _Mask:
        """Rows before whose like fewer than `limits` of their key are there, or different ones. They ascend by hash, those of a key by their order."""
        if not len(hashes):
            return np.zeros(0, dtype=bool)
        starts = _starts(hashes, [rows.column(name) for name in self.columns(rows.slice(0, 0))])
        lengths = np.diff(np.append(starts, len(hashes)))
        there = np.add.reduceat(is_there, starts, dtype=np.int64)
        there = np.minimum(there, 1) if self.dense else there
        keys = run_starts(hashes[starts])
        key_of = np.repeat(np.arange(len(keys)), np.diff(np.append(keys, len(starts))))
        before = np.cumsum(there) - there
        before -= before[keys][key_of]
        if self.greatest:
            before = np.add.reduceat(there, keys)[key_of] - before - there
        return np.repeat(before < limits[key_of], lengths)

    def _shared(self, hashes: Hashes, rows: pa.Table) -> _Mask:
        """Rows whose hash several keys have. They ascend by it."""
        if not self.keys or not len(hashes):
            return np.zeros(len(hashes), dtype=bool)
        starts = _starts(hashes, [rows.column(_column(position)) for position in self.keys])
        first = run_starts(hashes)
        counts = np.diff(np.append(np.searchsorted(starts, first), len(starts)))
        return np.repeat(counts > 1, np.diff(np.append(first, len(hashes))))


def _column(position: int) -> str:
    """How a column of a leaf is named."""
    return f"c{position}"


def _by_hash(parts: Sequence[pa.Table]) -> pa.Table:
    """Rows of different keys in the order of their hashes, those of a key as they come."""
    together = joined(parts)
    order = stable_order(hashes_of(together.column(HASH)))
    return taken(together, order)


def _starts(hashes: Hashes, columns: Iterable[pa.ChunkedArray]) -> Longs:
    """Where rows begin that differ from the one before in hash or columns."""
    differs = np.zeros(len(hashes), dtype=bool)
    differs[:1] = True
    differs[1:] = hashes[1:] != hashes[:-1]
    for column in columns:
        differs[1:] |= _differing(one_array(column))
    return np.nonzero(differs)[0]


def _differing(column: pa.Array) -> _Mask:
    """For each value but the first whether it is another than the one before."""
    column = row_bytes([column]) if types.is_nested(column.type) else column
    now, before = column.slice(1), column.slice(0, max(len(column) - 1, 0))
    differs = pc.not_equal(now, before)
    if column.null_count:
        differs = pc.coalesce(differs, pc.xor(now.is_null(), before.is_null()))
    found: _Mask = differs.to_numpy(zero_copy_only=False)
    return found


def _in_order(values: pa.Array, *, inverted: bool) -> pa.Array:
    """Numbers in the order that Spark has, or in its inverse: to it zeros are one, and the canonical order tells them apart."""
    if types.is_decimal(values.type):
        return pc.negate(values) if inverted else values
    nulls = values.is_null().to_numpy(zero_copy_only=False)
    if values.null_count:
        nothing = pa.scalar(False) if types.is_boolean(values.type) else pa.scalar(0, values.type)
        values = pc.fill_null(values, nothing)
    numbers = integers_in_order(pc.add(values, 0.0) if types.is_floating(values.type) else values)
    return pa.array(~numbers if inverted else numbers, mask=nulls)
