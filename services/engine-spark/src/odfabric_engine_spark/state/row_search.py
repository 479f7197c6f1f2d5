"""Find some rows of keys by binary search.

Owns looking up one row of a key that may have millions, or those that close late. Invariant: rows of a key lie in the order of their
canonical bytes in each run, by the time at which they close first, so of keys with one value in their first column the rows lie in the
order of the second. Not here: rows of whole keys (`net_rows`), ends of keys (`key_ends`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from odfabric.formats.slices.canonical_rows import has_integers_in_order, integers_in_order, one_array
from odfabric_engine_spark.arrays.array_types import Hashes, Longs
from odfabric_engine_spark.state.net_rows import bytes_of, told_apart_by
from odfabric_engine_spark.state.run import CLOSES, WEIGHT, Run, spans

_Mask = npt.NDArray[np.bool_]
_LEAST = np.iinfo(np.int64).min
_NUMBERS_MAX = 3
"""First columns by whose numbers rows are looked for before their bytes are made."""


def shared_hashes(run: Run, hashes: Hashes, name: str, owners: pa.Array) -> Hashes:
    """Those of some distinct hashes that other owners share in a run.

    Owners are known by the column `name`; the owner meant is the one beside the hash.
    """
    begins, ends = run.bounds(hashes)
    there = np.nonzero(begins < ends)[0]
    other = np.zeros(len(there), dtype=bool)
    for at in (begins[there], ends[there] - 1):
        found = one_array(run.take(at, [name]).column(name))
        other |= pc.not_equal(found, owners.take(pa.array(there))).to_numpy(zero_copy_only=False)
    shared: Hashes = hashes[there[other]]
    return shared


def weights_in(run: Run, hashes: Hashes, name: str, values: pa.Array, dropped_to_us: int | None) -> Longs:
    """Weights of rows by ascending hashes and values in `name`; 0 if missing.

    All rows of a hash have the same in the columns before. Rows that close at `dropped_to_us` or before are removed.
    """
    begins, ends = run.bounds(hashes)
    wanted = _comparable(values)
    lower = _first_not(begins, ends, lambda at, some: _is_less(_values_at(run, at, name), _chosen(wanted, some)))
    inside = np.nonzero(lower < ends)[0]
    same = inside[_is_same(_values_at(run, lower[inside], name), _chosen(wanted, inside))]
    return _weights_at(run, lower, same, dropped_to_us)


def same_rows(run: Run, hashes: Hashes, rows: pa.Table, dropped_to_us: int | None) -> Longs:
    """The weights of rows by their hashes, which ascend, and all their columns.

    0 for a row that is not there.

    Rows that close at `dropped_to_us` or before are removed.
    """
    begins, ends = run.bounds(hashes)
    decided = np.ones(len(hashes), dtype=bool)
    for name in told_apart_by(rows)[:_NUMBERS_MAX]:
        if not has_integers_in_order(rows.schema.field(name).type):
            break
        numbers = numbers_of(rows.column(name))
        lower, upper = _with_number(run, begins, ends, name, numbers)
        begins, ends = np.where(decided, lower, begins), np.where(decided, upper, ends)
        # A null and the least integer have one number: rows with both do not lie in the order of what follows.
        decided &= numbers != _LEAST
    wanted = bytes_of(rows)
    lower = _first_not(begins, ends, lambda at, some: _is_less(bytes_of(run.take(at)), _chosen(wanted, some)))
    inside = np.nonzero(lower < ends)[0]
    same = inside[_is_same(bytes_of(run.take(lower[inside])), _chosen(wanted, inside))]
    return _weights_at(run, lower, same, dropped_to_us)


def rows_since(run: Run, hashes: Hashes, since_us: Longs) -> tuple[Longs, Longs]:
    """Ranges of rows per ascending hash that close at an instant or later.

    Those that never close do not.
    """
    begins, ends = run.bounds(hashes)
    return _first_not(begins, ends, lambda at, some: _numbers_at(run, at, CLOSES) < since_us[some]), ends


@dataclass(frozen=True, slots=True)
class Place:
    """Places in a run: a key's rows from `begins` to `ends`, equals `lower`-`upper`."""

    begins: Longs
    lower: Longs
    upper: Longs
    ends: Longs

    @property
    def before(self) -> tuple[Longs, Longs]:
        """Rows of the key that come earlier."""
        return self.begins, self.lower

    @property
    def after(self) -> tuple[Longs, Longs]:
        """Rows of the key that come later."""
        return self.upper, self.ends

    def take(self, some: Longs) -> Place:
        """Some of them."""
        return Place(self.begins[some], self.lower[some], self.upper[some], self.ends[some])


@dataclass(frozen=True, slots=True)
class Places:
    """Places in the order of the rows of keys, in each run of a state."""

    hashes: Hashes
    in_runs: tuple[Place, ...]

    def __len__(self) -> int:
        return len(self.hashes)

    def take(self, some: Longs) -> Places:
        """Some of them."""
        return Places(self.hashes[some], tuple(each.take(some) for each in self.in_runs))

    def gaps(self) -> Longs:
        """Rows of all runs between neighbouring places of one key; places ascend.

        Between each place but the last and the next one.
        """
        found = np.zeros(max(len(self) - 1, 0), dtype=np.int64)
        for each in self.in_runs:
            found += each.lower[1:] - each.upper[:-1]
        return found

    def count(self, *, after: bool) -> Longs:
        """How many rows lie on one side of each place."""
        found = np.zeros(len(self), dtype=np.int64)
        for each in self.in_runs:
            begins, ends = each.after if after else each.before
            found += ends - begins
        return found

    def everything(self) -> Places:
        """All rows of each key as one place."""
        return Places(
            self.hashes, tuple(Place(each.begins, each.begins, each.ends, each.ends) for each in self.in_runs)
        )

    def different(self) -> Places:
        """Each once, as far as rows tell them apart."""
        bounds = [bound for each in self.in_runs for bound in (each.lower, each.upper)]
        told = np.stack([self.hashes.view(np.int64), *bounds], axis=1)
        _, first = np.unique(told, axis=0, return_index=True)
        return self.take(np.sort(first))


@dataclass(frozen=True, slots=True)
class SomeRows:
    """Rows of a run, from `begins` to `ends`, of keys that are known by number.

    A key may have several such spans. None is empty.
    """

    run: Run
    owners: Longs
    begins: Longs
    ends: Longs

    @classmethod
    def pieces(cls, run: Run, begins: Longs, ends: Longs, rows_max: int) -> Iterator[SomeRows]:
        """Spans of rows of numbered keys, fewer than twice so many rows at a time."""
        counts = -(-(ends - begins) // rows_max)
        owners = np.repeat(np.arange(len(begins)), counts)
        first = spans(np.zeros_like(counts), counts) * rows_max + begins[owners]
        last = np.minimum(first + rows_max, ends[owners])
        numbers = (np.cumsum(last - first) - 1) // rows_max
        starts = np.nonzero(np.diff(numbers, prepend=-1))[0]
        for some in map(slice, starts, np.append(starts, len(numbers))[1:]):
            yield cls(run, owners[some], first[some], last[some])

    @property
    def counts(self) -> Longs:
        """How many rows each span has."""
        return self.ends - self.begins

    @property
    def starts(self) -> Longs:
        """Where each begins among all of them."""
        found: Longs = np.cumsum(self.counts) - self.counts
        return found

    def taken(self, names: Sequence[str] | None) -> pa.Table:
        """The rows, or some of their columns."""
        if len(self.begins) == 1:
            return self.run.slice(int(self.begins[0]), int(self.ends[0]), names)
        return self.run.take(spans(self.begins, self.ends), names)

    def chosen(self, some: Longs) -> SomeRows:
        """Single rows among them."""
        at = spans(self.begins, self.ends)[some]
        return SomeRows(self.run, np.repeat(self.owners, self.counts)[some], at, at + 1)


def place_in(run: Run, hashes: Hashes, columns: Mapping[str, Longs]) -> Place:
    """Where a run has rows of keys with certain numbers in their first columns.

    A null counts as the least.
    """
    begins, ends = run.bounds(hashes)
    lower, upper = begins, ends
    for name, numbers in columns.items():
        lower, upper = _with_number(run, lower, upper, name, numbers)
    return Place(begins, lower, upper, ends)


def _with_number(run: Run, begins: Longs, ends: Longs, name: str, wanted: Longs) -> tuple[Longs, Longs]:
    """Of spans ordered by a column those with a number; a null counts as least."""
    lower = _first_not(begins, ends, lambda at, some: _numbers_at(run, at, name) < wanted[some])
    return lower, _first_not(lower, ends, lambda at, some: _numbers_at(run, at, name) <= wanted[some])


def _first_not(begins: Longs, ends: Longs, is_before: Callable[[Longs, Longs], _Mask]) -> Longs:
    """The first position of each span that is not before the target, or its end.

    `is_before` decides for positions of some spans.
    """
    lower, upper = begins.copy(), ends.copy()
    active = np.nonzero(lower < upper)[0]
    while len(active):
        middle = (lower[active] + upper[active]) // 2
        before = is_before(middle, active)
        lower[active[before]] = middle[before] + 1
        upper[active[~before]] = middle[~before]
        active = active[lower[active] < upper[active]]
    return lower


def _weights_at(run: Run, positions: Longs, some: Longs, dropped_to_us: int | None) -> Longs:
    """Weights of the rows at some of the positions, 0 for others and removed rows."""
    weights = np.zeros(len(positions), dtype=np.int64)
    names = [WEIGHT, CLOSES] if CLOSES in run.schema.names else [WEIGHT]
    found = run.take(positions[some], names)
    weights[some] = one_array(found.column(WEIGHT)).to_numpy()
    if dropped_to_us is not None and len(names) > 1:
        expired = pc.fill_null(pc.less_equal(one_array(found.column(CLOSES)), dropped_to_us), False)
        weights[some[expired.to_numpy(zero_copy_only=False)]] = 0
    return weights


def _numbers_at(run: Run, positions: Longs, name: str) -> Longs:
    return numbers_of(run.take(positions, [name]).column(name))


def numbers_of(column: pa.Array | pa.ChunkedArray) -> Longs:
    """Values as integers in their order, a null as the least.

    Their type has such integers.
    """
    values = one_array(column)
    if not values.null_count:
        return integers_in_order(values)
    nulls = values.is_null().to_numpy(zero_copy_only=False)
    nothing = pa.scalar(False) if pa.types.is_boolean(values.type) else pa.scalar(0, values.type)
    numbers = integers_in_order(pc.fill_null(values, nothing)).copy()
    numbers[nulls] = _LEAST
    return numbers


def _comparable(values: pa.Array) -> Longs | pa.Array:
    return integers_in_order(values) if has_integers_in_order(values.type) else values


def _values_at(run: Run, positions: Longs, name: str) -> Longs | pa.Array:
    return _comparable(one_array(run.take(positions, [name]).column(name)))


def _chosen(values: Longs | pa.Array, positions: Longs) -> Longs | pa.Array:
    return values.take(pa.array(positions)) if isinstance(values, pa.Array) else values[positions]


def _is_less(some: Longs | pa.Array, others: Longs | pa.Array) -> _Mask:
    return _mask(pc.less(some, others)) if isinstance(some, pa.Array) else np.less(some, others)


def _is_same(some: Longs | pa.Array, others: Longs | pa.Array) -> _Mask:
    return _mask(pc.equal(some, others)) if isinstance(some, pa.Array) else np.equal(some, others)


def _mask(found: pa.Array) -> _Mask:
    mask: _Mask = found.to_numpy(zero_copy_only=False)
    return mask
