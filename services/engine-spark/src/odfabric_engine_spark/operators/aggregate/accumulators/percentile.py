"""Stored statistic of percentiles and medians.

Owns what is known of a group's values when few of them are in hand: those around the places that are asked for, and how many lie in the
gaps between. Invariant: a value that changes is in hand with all that there is of it, or lies in a gap of which no row is unmatched. As all statistics
it is a function of the group's net rows. Not here: which values are taken in hand (`percentile_values`), percentiles (`percentile_ranks`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from pyarrow import types

from odfabric.formats.slices.canonical_rows import floats_of_bits, integers_in_order
from odfabric_engine_spark.arrays.array_types import Longs, Mask
from odfabric_engine_spark.arrays.percentile_ranks import Floats, Rank
from odfabric_engine_spark.arrays.weighted_rows import WeightedRows
from odfabric_engine_spark.operators.aggregate.accumulators.count_and_sum import (
    Multiset,
    StatisticValue,
    Values,
    merge_values,
)

LEAST = int(np.iinfo(np.int64).min)
GREATEST = int(np.iinfo(np.int64).max)


@dataclass(frozen=True, slots=True)
class Gaps:
    """Unloaded values of groups: how many from `first` to `last`, as ordered integers.

    They are sorted by group and place, and do not overlap.
    """

    groups: Longs
    first: Longs
    last: Longs
    counts: Longs

    @classmethod
    def none(cls) -> Gaps:
        """All values are in hand."""
        nothing = np.zeros(0, dtype=np.int64)
        return cls(nothing, nothing, nothing, nothing)

    @classmethod
    def joined(cls, parts: Sequence[Gaps]) -> Gaps:
        """All of them, of which no two have a group in common."""
        groups = np.concatenate([part.groups for part in parts])
        order = np.argsort(groups, kind="stable")
        return cls(
            groups[order],
            *(np.concatenate([getattr(part, name) for part in parts])[order] for name in ("first", "last", "counts")),
        )

    def __len__(self) -> int:
        return len(self.groups)

    def chosen(self, some: Mask) -> Gaps:
        """Some of them."""
        return Gaps(self.groups[some], self.first[some], self.last[some], self.counts[some])

    def of_groups(self, groups: Longs) -> Gaps:
        """The same, the n-th group as `groups[n]`."""
        return replace(self, groups=groups[self.groups])

    def take(self, groups: Longs) -> Gaps:
        """Those of some groups, which are numbered again."""
        begins, ends = (np.searchsorted(self.groups, groups, side=side) for side in ("left", "right"))
        lengths = ends - begins
        at = np.repeat(begins - np.cumsum(lengths) + lengths, lengths) + np.arange(lengths.sum())
        return replace(self.chosen(at), groups=np.repeat(np.arange(len(groups)), lengths))

    def of_values(self, groups: Longs, numbers: Longs) -> Longs:
        """The gap in which each of some values of groups lies, -1 for none."""
        size = len(self)
        if not size:
            return np.full(len(groups), -1, dtype=np.int64)
        order = np.lexsort(
            (
                np.arange(size + len(groups)) >= size,
                np.concatenate([self.first, numbers]),
                np.concatenate([self.groups, groups]),
            )
        )
        before = np.empty(len(order), dtype=np.int64)
        before[order] = np.maximum.accumulate(np.where(order < size, order, -1))
        at = before[size:]
        inside = (at >= 0) & (self.groups[at] == groups) & (numbers <= self.last[at])
        return np.where(inside, at, -1)

    def with_more(self, at: Longs, counts: Longs) -> Gaps:
        """With so many more in some of them."""
        own = self.counts.copy()
        np.add.at(own, at, counts)
        return replace(self, counts=own)


@dataclass(slots=True)
class Ranked:
    """For each group the values in hand with their net numbers, and the gaps between.

    `owing`: groups that owe values in a gap.
    """

    statistic: PercentileStatistic
    values: Values
    gaps: Gaps
    owing: Mask

    def __len__(self) -> int:
        return self.values.size

    def counts(self) -> Longs:
        """How many values are there."""
        found = np.zeros(len(self), dtype=np.int64)
        np.add.at(found, self.values.groups, np.maximum(self.values.counts, 0))
        np.add.at(found, self.gaps.groups, self.gaps.counts)
        return found

    def look_at(self, groups: Longs, known: Values, gaps: Gaps) -> None:
        """Takes some values of groups in hand, none of which has one in hand yet.

        The n-th group of both is `groups[n]`.
        """
        self.owing[groups] = False
        self.values.add_at(groups, known)
        self.gaps = Gaps.joined([self.gaps.chosen(~np.isin(self.gaps.groups, groups)), gaps.of_groups(groups)])

    def add_at(self, groups: Longs, other: StatisticValue) -> None:
        """As SlotValue. Only where nothing is known yet, others may have gaps."""
        assert isinstance(other, Ranked)
        self.owing[groups] |= other.owing
        numbers = integers_in_order(other.values.values)
        gap = self.gaps.of_values(groups[other.values.groups], numbers)
        hidden = gap >= 0
        shown = other.values
        if hidden.any():
            self.gaps = self.gaps.with_more(gap[hidden], shown.counts[hidden])
            values = shown.values.filter(pa.array(~hidden))
            shown = Values(shown.size, shown.groups[~hidden], values, shown.counts[~hidden])
        self.values.add_at(groups, shown)
        if len(other.gaps):
            self.gaps = Gaps.joined([self.gaps, other.gaps.of_groups(groups)])

    def add_all(self, parts: Sequence[tuple[Longs, Ranked]]) -> None:
        """As `add_at` for each part; all values are in hand."""
        self.values.add_all([(groups, other.values) for groups, other in parts])

    def take(self, groups: Longs) -> Ranked:
        """As SlotValue."""
        return Ranked(self.statistic, self.values.take(groups), self.gaps.take(groups), self.owing[groups])

    def is_zero(self) -> Mask:
        """As SlotValue: a group that owes values is kept."""
        zero: Mask = (np.bincount(self.values.groups, minlength=len(self)) == 0) & (self.counts() == 0) & ~self.owing
        return zero

    def arrays(self) -> list[pa.Array]:
        """As SlotValue."""
        owing = self.owing.copy()
        owing[self.values.groups[self.values.counts < 0]] = True
        return [pa.array(self.counts()), pa.array(owing)]

    def percentiles(self, rank: Rank) -> tuple[Floats, Mask]:
        """A percentile of each group, and which groups have one.

        What it is made of is in hand.
        """
        counts = self.counts()
        there = counts > 0
        found = np.zeros(len(self), dtype=np.float64)
        if there.any():
            groups = np.nonzero(there)[0]
            first, second = (self._at(groups, places) for places in rank.places(counts[there]))
            found[there] = rank.of(counts[there], first, second)
        return found, there

    def _at(self, groups: Longs, places: Longs) -> Floats:
        """The values at places in the order of some groups, which ascend."""
        present = np.nonzero(self.values.counts > 0)[0]
        numbers = integers_in_order(self.values.values)[present]
        size = len(present)
        owners = np.concatenate([self.values.groups[present], self.gaps.groups])
        order = np.lexsort((np.concatenate([numbers, self.gaps.first]), owners)) if len(self.gaps) else np.arange(size)
        counts = np.concatenate([self.values.counts[present], self.gaps.counts])[order]
        done = np.cumsum(counts)
        begins = np.searchsorted(owners[order], groups, side="left")
        before = done[begins] - counts[begins]
        at = order[np.searchsorted(done, before + places, side="right")]
        if (at >= size).any():
            raise RuntimeError("a value that is asked for is not in hand")
        return self.statistic.as_floats(numbers[at])


@dataclass(frozen=True, slots=True)
class PercentileStatistic:
    """Values by their places in order, which are those of `ranks`.

    The values are as those of `multiset`.
    """

    multiset: Multiset
    ranks: tuple[Rank, ...]

    @classmethod
    def of(cls, source: int, data_type: pa.DataType, ranks: tuple[Rank, ...]) -> PercentileStatistic:
        """Of an input."""
        return cls(Multiset(f"ranked{source}", source, data_type, least=False, greatest=False), ranks)

    @property
    def fields(self) -> list[pa.Field]:
        """As Statistic."""
        name = self.multiset.name
        return [pa.field(name, pa.int64(), nullable=False), pa.field(f"{name}_owing", pa.bool_(), nullable=False)]

    def as_floats(self, numbers: Longs) -> Floats:
        """Values that are known as integers in their order."""
        found: Floats = floats_of_bits(numbers) if types.is_floating(self.multiset.type) else numbers.astype(np.float64)
        return found

    def of_rows(self, rows: WeightedRows) -> Ranked:
        """As Statistic."""
        return self.in_hand(self.multiset.of_rows(rows))

    def zeros(self, count: int) -> Ranked:
        """As Statistic."""
        return self.in_hand(self.multiset.zeros(count))

    def in_hand(self, values: Values) -> Ranked:
        """Groups that have nothing but some values."""
        return Ranked(self, values, Gaps.none(), np.zeros(len(values), dtype=bool))

    def load(self, arrays: Sequence[pa.Array], count: int) -> Ranked:
        """As Statistic: no value is in hand."""
        counts: Longs = arrays[0].to_numpy().astype(np.int64)
        groups = np.nonzero(counts > 0)[0]
        gaps = Gaps(groups, np.full_like(groups, LEAST), np.full_like(groups, GREATEST), counts[groups])
        owing = arrays[1].to_numpy(zero_copy_only=False).copy()
        return Ranked(self, self.multiset.zeros(count), gaps, owing)


def merged(size: int, parts: Sequence[tuple[Longs, pa.Array, Longs]], data_type: pa.DataType) -> Values:
    """Values of so many groups: groups, values as kept, and how many of each."""
    nothing = np.zeros(0, dtype=np.int64)
    found = [(nothing, pa.array([], data_type), nothing), *parts]
    return Values(
        size,
        *merge_values(
            np.concatenate([groups for groups, _, _ in found]),
            pa.concat_arrays([values for _, values, _ in found]),
            np.concatenate([counts for _, _, counts in found]),
        ),
    )
