"""Stored statistics of groups: counts, exact sums, value multisets.

Owns four kinds: counts, exact sums of numbers, exact sums of floats, and values with their counts. A statistic's value over a set
of groups can be made from weighted rows, added, stored and loaded. Invariant: a statistic is a linear function of the group's net
rows, so its value, and its bytes, depend neither on the order of rows nor on how they were cut. Not here: results made of
statistics (`aggregate_functions`). Source: docs/engine.md#unmatched-retractions; docs/engine.md#exact-aggregates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from odfabric.formats.slices.canonical_rows import (
    floats_of_bits,
    has_integers_in_order,
    integers_in_order,
    one_array,
    ordered_bits,
    row_bytes,
)
from odfabric_engine_spark.arrays.array_types import Longs, Mask
from odfabric_engine_spark.arrays.equal_runs import run_starts
from odfabric_engine_spark.arrays.exact_sums import (
    Integers,
    decimal_units,
    object_array,
    pack_units,
    sum_integers,
    sum_runs,
    units_to_decimal,
    unpack_units,
)
from odfabric_engine_spark.arrays.float_sums import sum_floats
from odfabric_engine_spark.arrays.stable_order import order_by, stable_order
from odfabric_engine_spark.arrays.weighted_rows import WeightedRows

STORED_DIGITS = 76


class StatisticValue(Protocol):
    """A statistic's value for each of a number of groups."""

    def __len__(self) -> int:
        """Number of groups."""

    def add_at(self, groups: Longs, other: StatisticValue) -> None:
        """Adds the n-th value of `other` to group `groups[n]`; no group occurs twice."""

    def take(self, groups: Longs) -> StatisticValue:
        """A copy of the values of some groups."""

    def is_zero(self) -> Mask:
        """Which groups are as if they had never had a row."""

    def arrays(self) -> list[pa.Array]:
        """Stored columns."""


class Statistic(Protocol):
    """A statistic of one input of the query."""

    @property
    def fields(self) -> list[pa.Field]:
        """Stored columns; their names begin with the statistic's name."""

    def of_rows(self, rows: WeightedRows) -> StatisticValue:
        """The value that rows alone give."""

    def zeros(self, count: int) -> StatisticValue:
        """The value of groups without rows."""

    def load(self, arrays: Sequence[pa.Array], count: int) -> StatisticValue:
        """From stored columns."""


@dataclass(slots=True)
class Counts:
    """Sums of weights."""

    counts: Longs

    def __len__(self) -> int:
        return len(self.counts)

    def add_at(self, groups: Longs, other: StatisticValue) -> None:
        """As SlotValue."""
        assert isinstance(other, Counts)
        self.counts[groups] += other.counts

    def take(self, groups: Longs) -> Counts:
        """As SlotValue."""
        return Counts(self.counts[groups])

    def is_zero(self) -> Mask:
        """As SlotValue."""
        return np.equal(self.counts, 0)

    def arrays(self) -> list[pa.Array]:
        """As SlotValue."""
        return [pa.array(self.counts)]


@dataclass(frozen=True, slots=True)
class CountStatistic:
    """Net number of rows, or of rows in which `input` is not null."""

    name: str
    input: int | None

    @property
    def fields(self) -> list[pa.Field]:
        """As Statistic."""
        return [pa.field(self.name, pa.int64(), nullable=False)]

    def of_rows(self, rows: WeightedRows) -> Counts:
        """As Statistic."""
        weights = rows.weights
        if self.input is not None and rows.values[self.input].null_count:
            weights = np.where(_valid(rows.values[self.input]), weights, 0)
        return Counts(_sum_longs(weights, rows.starts))

    def zeros(self, count: int) -> Counts:
        """As Statistic."""
        return Counts(np.zeros(count, dtype=np.int64))

    def load(self, arrays: Sequence[pa.Array], count: int) -> Counts:
        """As Statistic."""
        return Counts(_longs(arrays[0]).copy())


@dataclass(slots=True)
class Sums:
    """Exact sums in units of a scale."""

    units: Integers
    scale: int

    def __len__(self) -> int:
        return len(self.units)

    def add_at(self, groups: Longs, other: StatisticValue) -> None:
        """As SlotValue."""
        assert isinstance(other, Sums)
        self.units[groups] += other.units

    def take(self, groups: Longs) -> Sums:
        """As SlotValue."""
        return Sums(self.units[groups], self.scale)

    def is_zero(self) -> Mask:
        """As SlotValue."""
        return np.equal(self.units, 0).astype(bool)

    def arrays(self) -> list[pa.Array]:
        """As SlotValue."""
        return [units_to_decimal(self.units, pa.decimal256(STORED_DIGITS, self.scale))]


@dataclass(frozen=True, slots=True)
class SumStatistic:
    """Net sum of integers or decimals."""

    name: str
    input: int
    scale: int

    @property
    def fields(self) -> list[pa.Field]:
        """As Statistic."""
        return [pa.field(self.name, pa.decimal256(STORED_DIGITS, self.scale), nullable=False)]

    def of_rows(self, rows: WeightedRows) -> Sums:
        """As Statistic."""
        array = rows.values[self.input]
        if types.is_decimal(array.type):
            return Sums(sum_integers(decimal_units(array) * rows.weights.astype(object), rows.starts), self.scale)
        values = _longs(pc.fill_null(array, pa.scalar(0, array.type)) if array.null_count else array)
        largest = _largest(values) * _largest(rows.weights)
        if largest >= 1 << 62:
            return Sums(sum_integers(values.astype(object) * rows.weights.astype(object), rows.starts), self.scale)
        return Sums(sum_runs(values * rows.weights, rows.starts, largest=largest), self.scale)

    def zeros(self, count: int) -> Sums:
        """As Statistic."""
        return Sums(object_array([0] * count), self.scale)

    def load(self, arrays: Sequence[pa.Array], count: int) -> Sums:
        """As Statistic."""
        return Sums(decimal_units(arrays[0]), self.scale)


@dataclass(slots=True)
class FloatSums:
    """Exact sums of finite floats in units of 2^-1074, and special value counts."""

    units: Integers
    nans: Longs
    infinities: Longs
    negative_infinities: Longs

    def __len__(self) -> int:
        return len(self.units)

    def add_at(self, groups: Longs, other: StatisticValue) -> None:
        """As SlotValue."""
        assert isinstance(other, FloatSums)
        self.units[groups] += other.units
        self.nans[groups] += other.nans
        self.infinities[groups] += other.infinities
        self.negative_infinities[groups] += other.negative_infinities

    def take(self, groups: Longs) -> FloatSums:
        """As SlotValue."""
        return FloatSums(
            self.units[groups], self.nans[groups], self.infinities[groups], self.negative_infinities[groups]
        )

    def is_zero(self) -> Mask:
        """As SlotValue."""
        special = (self.nans != 0) | (self.infinities != 0) | (self.negative_infinities != 0)
        plain: Mask = np.equal(self.units, 0).astype(bool) & ~special
        return plain

    def arrays(self) -> list[pa.Array]:
        """As SlotValue."""
        packed = [pack_units(units) for units in self.units]
        return [
            pa.array([digits for digits, _ in packed], pa.binary()),
            pa.array([zeros for _, zeros in packed], pa.int32()),
            pa.array(self.nans),
            pa.array(self.infinities),
            pa.array(self.negative_infinities),
        ]


@dataclass(frozen=True, slots=True)
class FloatSumStatistic:
    """Net sum of floats."""

    name: str
    input: int

    @property
    def fields(self) -> list[pa.Field]:
        """As Statistic."""
        specials = [
            pa.field(f"{self.name}_{kind}", pa.int64(), nullable=False)
            for kind in ("nan", "infinity", "minus_infinity")
        ]
        return [
            pa.field(f"{self.name}_digits", pa.binary(), nullable=False),
            pa.field(f"{self.name}_zeros", pa.int32(), nullable=False),
            *specials,
        ]

    def of_rows(self, rows: WeightedRows) -> FloatSums:
        """As Statistic."""
        array = rows.values[self.input].cast(pa.float64())
        values = (pc.fill_null(array, 0.0) if array.null_count else array).to_numpy(zero_copy_only=False)
        finite = np.isfinite(values)
        if finite.all():
            return FloatSums(sum_floats(values, rows), *self._nothing(rows.group_count))
        return FloatSums(
            sum_floats(np.where(finite, values, 0.0), rows),
            _sum_longs(np.where(np.isnan(values), rows.weights, 0), rows.starts),
            _sum_longs(np.where(np.isposinf(values), rows.weights, 0), rows.starts),
            _sum_longs(np.where(np.isneginf(values), rows.weights, 0), rows.starts),
        )

    def zeros(self, count: int) -> FloatSums:
        """As Statistic."""
        return FloatSums(object_array([0] * count), *self._nothing(count))

    def _nothing(self, count: int) -> tuple[Longs, Longs, Longs]:
        return np.zeros(count, np.int64), np.zeros(count, np.int64), np.zeros(count, np.int64)

    def load(self, arrays: Sequence[pa.Array], count: int) -> FloatSums:
        """As Statistic."""
        digits, zeros, *specials = arrays
        units = [
            unpack_units(packed, count) for packed, count in zip(digits.to_pylist(), zeros.to_pylist(), strict=True)
        ]
        nans, infinities, negative = (_longs(array).copy() for array in specials)
        return FloatSums(object_array(units), nans, infinities, negative)


@dataclass(slots=True)
class Values:
    """Multisets: each group's ordered values with net numbers, never 0.

    `groups` and `values` are sorted together. A group may have many, so they are not stored with it (`value_state`).
    """

    size: int
    groups: Longs
    values: pa.Array
    counts: Longs

    def __len__(self) -> int:
        return self.size

    def add_at(self, groups: Longs, other: Values) -> None:
        """Adds those of the n-th group of `other` to group `groups[n]`.

        No group occurs twice.
        """
        if not len(self.groups) and (groups[1:] > groups[:-1]).all():
            self.groups, self.values, self.counts = groups[other.groups], other.values, other.counts
            return
        touched = np.zeros(self.size, dtype=bool)
        touched[groups] = True
        own = touched[self.groups]
        merged = merge_values(
            np.concatenate([self.groups[own], groups[other.groups]]),
            pa.concat_arrays([self.values.filter(pa.array(own)), other.values]),
            np.concatenate([self.counts[own], other.counts]),
        )
        rest = ~own
        if not rest.any():
            self.groups, self.values, self.counts = merged
            return
        all_groups = np.concatenate([self.groups[rest], merged[0]])
        order = stable_order(all_groups)
        self.groups = all_groups[order]
        self.values = pa.concat_arrays([self.values.filter(pa.array(rest)), merged[1]]).take(pa.array(order))
        self.counts = np.concatenate([self.counts[rest], merged[2]])[order]

    def add_all(self, parts: Sequence[tuple[Longs, Values]]) -> None:
        """As `add_at` for each part at once: groups may have as many values as rows."""
        runs = [(np.arange(self.size), self), *parts]
        order = _order_by_group(self.size, runs)
        self.groups, self.values, self.counts = merge_values(
            np.concatenate([groups[other.groups] for groups, other in runs])[order],
            pa.concat_arrays([other.values for _, other in runs]).take(pa.array(order)),
            np.concatenate([other.counts for _, other in runs])[order],
        )

    def take(self, groups: Longs) -> Values:
        """A copy of those of some groups.

        Nothing is moved where all groups are taken as they are: no column is ever changed in its place.
        """
        if len(groups) == self.size and (groups == np.arange(self.size)).all():
            return Values(self.size, self.groups, self.values, self.counts)
        if len(groups) and (groups[1:] == groups[:-1] + 1).all():
            begin, end = np.searchsorted(self.groups, [groups[0], groups[-1] + 1])
            own = slice(begin, end)
            return Values(len(groups), self.groups[own] - groups[0], self.values[own], self.counts[own])
        begins, ends = self.bounds()
        lengths = (ends - begins)[groups]
        positions = np.repeat(begins[groups] - np.cumsum(lengths) + lengths, lengths) + np.arange(lengths.sum())
        new_groups = np.repeat(np.arange(len(groups), dtype=np.int64), lengths)
        return Values(len(groups), new_groups, self.values.take(pa.array(positions)), self.counts[positions])

    def withdrawn(self) -> Longs:
        """For each group how many values are unmatched."""
        unmatched = np.minimum(self.counts, 0)
        if not unmatched.any():
            return np.zeros(self.size, dtype=np.int64)
        return np.bincount(self.groups, weights=-unmatched, minlength=self.size).astype(np.int64)

    def extreme(self, *, greatest: bool) -> tuple[pa.Array, Mask]:
        """The least or greatest value that a group holds, and which groups hold any."""
        present = np.nonzero(self.counts > 0)[0]
        groups = self.groups[present]
        begins = np.searchsorted(groups, np.arange(self.size), side="left")
        ends = np.searchsorted(groups, np.arange(self.size), side="right")
        there = begins < ends
        if not len(present):
            return pa.nulls(self.size, self.values.type), there
        at = present[np.minimum(ends - 1 if greatest else begins, len(present) - 1)]
        return self.values.take(pa.array(np.where(there, at, 0), mask=~there)), there

    def bounds(self) -> tuple[Longs, Longs]:
        """Where the values of each group begin and end."""
        every = np.arange(self.size)
        return np.searchsorted(self.groups, every, side="left"), np.searchsorted(self.groups, every, side="right")


@dataclass(frozen=True, slots=True)
class Multiset:
    """How an input's values are kept, for `least`, `greatest`, both or neither.

    Floats are kept as integers in their order.
    """

    name: str
    input: int
    type: pa.DataType
    least: bool
    greatest: bool

    @property
    def stored_type(self) -> pa.DataType:
        """Type of the values as kept."""
        if types.is_nested(self.type):
            return pa.binary()
        return pa.int64() if types.is_floating(self.type) else self.type

    @property
    def ends(self) -> list[bool]:
        """Those that are asked for: False is the least, True the greatest."""
        return [end for end, asked in ((False, self.least), (True, self.greatest)) if asked]

    def of_rows(self, rows: WeightedRows) -> Values:
        """Those of weighted rows."""
        array = rows.values[self.input]
        groups, weights = rows.groups, rows.weights
        if array.null_count:
            valid = _valid(array)
            array, groups, weights = array.filter(pa.array(valid)), groups[valid], weights[valid]
        return Values(rows.group_count, *merge_values(groups, self.stored(array), weights))

    def stored(self, array: pa.Array) -> pa.Array:
        """Values as kept: one zero, one NaN; the bytes of what is nested."""
        if types.is_nested(self.type):
            return row_bytes([array])
        if not types.is_floating(self.type):
            return array
        plain = pc.add(array.cast(pa.float64()), 0.0)
        return pa.array(ordered_bits(pc.if_else(pc.is_nan(plain), float("nan"), plain)))

    def shown(self, array: pa.Array) -> pa.Array:
        """The way back from `stored`."""
        if not types.is_floating(self.type):
            return array
        bits = _longs(pc.fill_null(array, 0) if array.null_count else array)
        return pa.array(floats_of_bits(bits), mask=~_valid(array)).cast(self.type)

    def zeros(self, count: int) -> Values:
        """None of so many groups."""
        nothing = np.zeros(0, dtype=np.int64)
        return Values(count, nothing, pa.array([], self.stored_type), nothing.copy())


def merge_values(groups: Longs, values: pa.Array, counts: Longs) -> tuple[Longs, pa.Array, Longs]:
    """Equal values of a group added up, zeros left out, in order."""
    if not has_integers_in_order(values.type):
        return _merged_by_arrow(groups, values, counts)
    numbers = integers_in_order(values)
    order = _value_order(groups, numbers)
    if order is not None:
        groups, numbers, values, counts = groups[order], numbers[order], values.take(pa.array(order)), counts[order]
    starts = run_starts(groups, numbers)
    if len(starts) < len(groups):
        groups, values, counts = groups[starts], values.take(pa.array(starts)), np.add.reduceat(counts, starts)
    kept = counts != 0
    if kept.all():
        return groups, values, counts
    return groups[kept], values.filter(pa.array(kept)), counts[kept]


def _order_by_group(size: int, runs: Sequence[tuple[Longs, Values]]) -> Longs:
    """The order by group of all values of some runs, one behind the other.

    Those of a group stay in the order of the runs.

    Each run has its groups together, and says to which of `size` groups each of them belongs, so nothing has to be sorted. Runs that come
    one after the other in time have their values in order then.
    """
    lengths = [np.bincount(each.groups, minlength=each.size) for _, each in runs]
    begins = np.zeros(size, dtype=np.int64)
    for (groups, _), own in zip(runs, lengths, strict=True):
        begins[groups] += own
    begins = np.cumsum(begins) - begins
    order = np.empty(sum(len(each.groups) for _, each in runs), dtype=np.int64)
    done = 0
    for (groups, each), own in zip(runs, lengths, strict=True):
        positions = np.arange(len(each.groups))
        places = np.repeat(begins[groups] - np.cumsum(own) + own, own) + positions
        order[places] = positions + done
        begins[groups] += own
        done += len(positions)
    return order


def _value_order(groups: Longs, numbers: Longs) -> Longs | None:
    """The order by group and number, None if it is there already.

    Rows that are appended mostly come in the order of their times.
    """
    return None if _is_ascending(groups, numbers) else order_by(groups, numbers)


def _is_ascending(groups: Longs, numbers: Longs) -> bool:
    after = (groups[1:] > groups[:-1]) | ((groups[1:] == groups[:-1]) & (numbers[1:] >= numbers[:-1]))
    return bool(after.all())


def _merged_by_arrow(groups: Longs, values: pa.Array, counts: Longs) -> tuple[Longs, pa.Array, Longs]:
    table = pa.table({"group": groups, "value": values, "count": counts})
    summed = table.group_by(["group", "value"], use_threads=False).aggregate([("count", "sum")])
    kept = summed.filter(pc.not_equal(summed.column("count_sum"), 0))
    ordered = kept.sort_by([("group", "ascending"), ("value", "ascending")]).combine_chunks()
    return (
        _longs(one_array(ordered.column("group"))),
        one_array(ordered.column("value")).cast(values.type),
        _longs(one_array(ordered.column("count_sum"))),
    )


def _sum_longs(values: Longs, starts: Longs) -> Longs:
    if len(starts) == 0:
        return np.zeros(0, dtype=np.int64)
    summed: Longs = np.add.reduceat(values.astype(np.int64), starts)
    return summed


def _largest(values: Longs) -> int:
    """The greatest magnitude."""
    return max(abs(int(values.min())), abs(int(values.max()))) if len(values) else 0


def _valid(array: pa.Array) -> Mask:
    mask: Mask = array.is_valid().to_numpy(zero_copy_only=False)
    return mask


def _longs(array: pa.Array) -> Longs:
    values: Longs = array.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return values
