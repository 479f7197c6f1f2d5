"""Partial reads: some rows of a key that suffice for all of them.

Owns how rows of a scan lie in their state where only some of a key are looked up, and what is common to all ways to choose them. Invariant:
the columns by which rows are ordered come first among those that are stored, so the canonical order of rows, in which they lie in each run, is
that of the query. Not here: which rows suffice (`top_n_read`, `bounded_frame_read`), which scans have such rows (`top_n_scan`, `bounded_frames`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from odfabric.formats.slices.canonical_rows import has_integers_in_order, integers_in_order, one_array, row_bytes
from odfabric_engine_spark.arrays.array_types import Hashes, Longs
from odfabric_engine_spark.arrays.equal_runs import first_places, run_starts
from odfabric_engine_spark.arrays.parallel_columns import joined, taken
from odfabric_engine_spark.arrays.stable_order import stable_order
from odfabric_engine_spark.rows.delta import Delta
from odfabric_engine_spark.state.net_rows import bytes_of
from odfabric_engine_spark.state.row_search import Places
from odfabric_engine_spark.state.row_state import RowState
from odfabric_engine_spark.state.run import HASH, WEIGHT, distinct, hashes_of

Mask: TypeAlias = npt.NDArray[np.bool_]
LEFT_OUT_MIN = 4096
"""So many rows have to be left out at least: to look for single rows, or for places, takes longer than to read a few more."""
_STORED = "__odf_order"
"""How columns are named that are stored before those of a scan."""
_LEAST, _MOST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
_FURTHER = 4
"""How many times as far is looked where the last rows tie."""


@dataclass(frozen=True, slots=True)
class OrderColumn:
    """A column of a scan by which its rows are ordered.

    `inverted`: against the direction in which rows are read.

    `marks_nulls`: nulls do not come where they lie in a state.
    """

    position: int
    inverted: bool
    marks_nulls: bool


def is_ordered_here(data_type: pa.DataType, *, inverted: bool) -> bool:
    """Whether a type's values are stored in Spark's order, or in its inverse."""
    if has_integers_in_order(data_type) or types.is_decimal(data_type):
        return True
    return not inverted and bool(types.is_string(data_type) or types.is_binary(data_type))


@dataclass(frozen=True, slots=True)
class ChosenRows:
    """Rows that can be looked at.

    `doubtful` are keys of which all rows are needed; no old row of these is here.
    """

    old: pa.Table
    new: Delta
    doubtful: Hashes


class PartialRead(Protocol):
    """Which rows of a key a plan gets to see."""

    @property
    def has_edges(self) -> bool:
        """Whether an excerpt may pair other rows than the whole key does.

        So that an expression may fail there alone.
        """

    def stored(self, rows: pa.Table) -> dict[str, pa.Array | pa.ChunkedArray]:
        """All that is stored of rows of the scan."""

    def stored_schema(self, scan: pa.Schema) -> pa.Schema:
        """The columns of a state."""

    def of_new(self, hashes: Hashes, rows: pa.Table) -> Longs:
        """Positions of new rows, as a run has them, of which something may come."""

    def counts(self, state: RowState, hashes: Hashes, new_hashes: Hashes, new: Delta) -> Longs:
        """About how many old rows each of some keys brings along.

        New rows are of these keys.
        """

    def chosen(self, state: RowState, new_hashes: Hashes, new: Delta) -> ChosenRows:
        """Of the keys of new rows, which are what `of_new` has chosen."""

    def whole(self, rows: pa.Table) -> pa.Table:
        """Rows of keys that are looked at whole, as `chosen` gives rows."""


ReadOuter: TypeAlias = Callable[[Longs, Longs], tuple[Longs, pa.Table]]
"""Of some owners at least so many rows from one end: the owner of each row, ascending, and the rows, those of an owner in their order."""


@dataclass(frozen=True, slots=True)
class StoredOrder:
    """The order in which rows of a key lie: by `columns`.

    Columns are known by position; `keys` are those of the key.
    """

    keys: tuple[int, ...]
    order: tuple[OrderColumn, ...]

    def columns(self, rows: pa.Table) -> dict[str, pa.Array]:
        """The columns stored first: their canonical order is that of the query.

        A column of the scan whose own order that is stands there itself.
        """
        found: dict[str, pa.Array] = {}
        for at, each in enumerate(self.order):
            name = column_name(each.position)
            values = one_array(rows.column(name))
            if each.marks_nulls:
                found[f"{_STORED}{at}.null"] = values.is_null()
            if each.inverted or types.is_floating(values.type):
                found[f"{_STORED}{at}"] = _in_order(values, inverted=each.inverted)
            else:
                found[name] = values
        return found

    def stored(self, rows: pa.Table) -> dict[str, pa.Array | pa.ChunkedArray]:
        """All that is stored of rows of the scan."""
        return self.columns(rows) | dict(zip(rows.column_names, rows.columns, strict=True))

    def stored_schema(self, scan: pa.Schema) -> pa.Schema:
        """The columns of a state."""
        return pa.schema([pa.field(name, array.type) for name, array in self.stored(scan.empty_table()).items()])

    @property
    def has_edges(self) -> bool:
        """As `PartialRead`."""
        return True

    def of_new(self, hashes: Hashes, rows: pa.Table) -> Longs:
        """As `PartialRead`: all of them."""
        return np.arange(len(hashes))

    def whole(self, rows: pa.Table) -> pa.Table:
        """As `PartialRead`: as they are."""
        return rows

    def outer(
        self, read: ReadOuter, limits: Longs, *, greatest: bool, dense: bool = False
    ) -> tuple[Longs, pa.Table, Mask]:
        """Up to `limits` rows of each owner from one end, with ties; owners with others.

        Gives the owner of each row first: their numbers ascend.
        """
        asked, pending = limits.copy(), np.arange(len(limits))
        found: list[pa.Table] = []
        owners_of: list[Longs] = []
        is_cut = np.zeros(len(limits), dtype=bool)
        while len(pending) or not found:
            owners, rows = read(pending, asked[pending])
            there = one_array(rows.column(WEIGHT)).to_numpy() > 0
            first = self.first(owners, rows, there, limits[owners[run_starts(owners)]], greatest=greatest, dense=dense)
            is_cut[owners[~first]] = True
            is_whole = np.bincount(owners[there], minlength=len(limits)) < asked
            done = is_whole | is_cut
            found.append(rows.filter(pa.array(first & done[owners])))
            owners_of.append(owners[first & done[owners]])
            pending = pending[~done[pending]]
            asked[pending] *= _FURTHER
        owners = np.concatenate(owners_of)
        together = stable_order(owners)
        return owners[together], taken(joined(found), together), is_cut

    def beside(self, state: RowState, places: Places, count: int, *, after: bool, dense: bool = False) -> pa.Table:
        """The nearest `count` old rows on one side of places, some more than once.

        Or different ones (`dense`), with those that tie with the last.
        """

        def read(some: Longs, counts: Longs) -> tuple[Longs, pa.Table]:
            numbers, rows = state.beside(places.take(some), counts, after=after)
            order = stable_order(numbers)
            return some[numbers[order]], taken(rows, order)

        _, rows, _ = self.outer(read, np.full(len(places), count), greatest=not after, dense=dense)
        return rows

    def first(
        self, owners: npt.NDArray[Any], rows: pa.Table, is_there: Mask, limits: Longs, *, greatest: bool, dense: bool
    ) -> Mask:
        """Rows preceded by fewer than `limits` of their owner, or of `dense` ones.

        They ascend by owner, those of an owner by their order; `greatest`: the first are the last of these.
        """
        if not len(owners):
            return np.zeros(0, dtype=bool)
        starts = starts_of(owners, [rows.column(name) for name in self.columns(rows.slice(0, 0))])
        lengths = np.diff(np.append(starts, len(owners)))
        there = np.add.reduceat(is_there, starts, dtype=np.int64)
        there = np.minimum(there, 1) if dense else there
        keys = run_starts(owners[starts])
        key_of = np.repeat(np.arange(len(keys)), np.diff(np.append(keys, len(starts))))
        before = np.cumsum(there) - there
        before -= before[keys][key_of]
        if greatest:
            before = np.add.reduceat(there, keys)[key_of] - before - there
        return np.repeat(before < limits[key_of], lengths)

    def doubtful(self, owners: Hashes, old: pa.Table, new_hashes: Hashes, new: Delta) -> Hashes:
        """Keys for which rows that were not looked up may matter.

        Of these keys old rows that were looked up are unmatched, or other keys have the same hash.
        """
        unmatched = one_array(old.column(WEIGHT)).to_numpy() < 0
        both = np.concatenate([owners, new_hashes])
        order = stable_order(both)
        together = taken(joined([old.select(new.rows.column_names), new.rows]), order)
        return distinct(both[order][self.shared(both[order], together)], owners[unmatched])

    def shared(self, hashes: Hashes, rows: pa.Table) -> Mask:
        """Rows whose hash several keys have. They ascend by it."""
        if not self.keys or not len(hashes):
            return np.zeros(len(hashes), dtype=bool)
        starts = starts_of(hashes, [rows.column(column_name(position)) for position in self.keys])
        first = run_starts(hashes)
        counts = np.diff(np.append(np.searchsorted(starts, first), len(starts)))
        return np.repeat(counts > 1, np.diff(np.append(first, len(hashes))))


def column_name(position: int) -> str:
    """How a column of a scan is named."""
    return f"c{position}"


def by_hash(parts: Sequence[pa.Table]) -> pa.Table:
    """Rows of different keys in the order of hashes, a key's rows as they come."""
    together = joined(parts)
    order = stable_order(hashes_of(together.column(HASH)))
    return taken(together, order)


def each_once(parts: Sequence[pa.Table]) -> pa.Table:
    """Net rows of a state that were looked up in several ways, by hash."""
    together = by_hash(parts)
    encoded = bytes_of(together).dictionary_encode()
    return taken(together, first_places(encoded.indices.to_numpy(), len(encoded.dictionary)))


def starts_of(owners: npt.NDArray[Any], columns: Iterable[pa.ChunkedArray]) -> Longs:
    """Where rows begin that differ from the one before in owner or columns."""
    differs = np.zeros(len(owners), dtype=bool)
    differs[:1] = True
    differs[1:] = owners[1:] != owners[:-1]
    for column in columns:
        values = one_array(column)
        values = row_bytes([values]) if types.is_nested(values.type) else values
        differs[1:] |= differing(values.slice(1), values.slice(0, max(len(values) - 1, 0)))
    return np.nonzero(differs)[0]


def differing(some: pa.Array, others: pa.Array) -> Mask:
    """For each value whether it is another than the one beside it; nulls are equal."""
    if types.is_nested(some.type):
        some, others = row_bytes([some]), row_bytes([others])
    differs = pc.not_equal(some, others)
    if differs.null_count:
        differs = pc.coalesce(differs, pc.xor(some.is_null(), others.is_null()))
    found: Mask = differs.to_numpy(zero_copy_only=False)
    return found


def further(numbers: Longs, distance: int, *, up: bool) -> Longs:
    """Numbers so far on, or the last that there is."""
    if up:
        return np.where(numbers > _MOST - distance, _MOST, numbers + distance)
    return np.where(numbers < _LEAST + distance, _LEAST, numbers - distance)


def _in_order(values: pa.Array, *, inverted: bool) -> pa.Array:
    """Numbers in Spark's order, or its inverse, with one zero.

    The canonical order distinguishes zeros.
    """
    if types.is_decimal(values.type):
        return pc.negate(values) if inverted else values
    nulls = values.is_null().to_numpy(zero_copy_only=False)
    if values.null_count:
        nothing = pa.scalar(False) if types.is_boolean(values.type) else pa.scalar(0, values.type)
        values = pc.fill_null(values, nothing)
    numbers = integers_in_order(pc.add(values, 0.0) if types.is_floating(values.type) else values)
    return pa.array(~numbers if inverted else numbers, mask=nulls)
