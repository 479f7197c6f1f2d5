"""Stored statistic of MIN and MAX.

Owns what a group keeps of its values itself: its extremes, so that most changes need none of the others. Invariant: while a group owes no
value beyond its extremes, only what is withdrawn of these themselves asks for other values; all other changes are reported without. As all statistics it is a function of the group's net rows. Not here: where all values are kept (`value_state`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from odfabric.formats.slices.canonical_rows import one_array
from odfabric_engine_spark.arrays.array_types import Longs, Mask
from odfabric_engine_spark.arrays.weighted_rows import WeightedRows
from odfabric_engine_spark.operators.aggregate.accumulators.count_and_sum import (
    Multiset,
    StatisticValue,
    Values,
    merge_values,
)


@dataclass(slots=True)
class Extremes:
    """Each group's loaded values with net numbers.

    Of a loaded group its extremes, as if there were one of each.

    `owing`: groups that owe values beyond their extremes, so that these have to be looked up before anything is added.
    """

    multiset: Multiset
    values: Values
    owing: Mask

    def __len__(self) -> int:
        return self.values.size

    def unknown_after(self, groups: Longs, change: Values) -> Mask:
        """Groups that need more values once `change` is added.

        The n-th group of `change` goes to group `groups[n]`.
        """
        found = self.owing.copy()
        gone = np.nonzero(change.counts < 0)[0]
        if not len(gone):
            return found
        owners, values = groups[change.groups[gone]], change.values.take(pa.array(gone))
        for greatest in self.multiset.ends:
            own = self.values.extreme(greatest=greatest)[0].take(pa.array(owners))
            found[owners[pc.fill_null(pc.equal(values, own), False).to_numpy(zero_copy_only=False)]] = True
        return found

    def look_at(self, groups: Longs, known: Values) -> None:
        """Load the extreme values of some groups, in place of those before."""
        self.owing[groups] = False
        kept = np.ones(len(self), dtype=bool)
        kept[groups] = False
        kept = kept[self.values.groups]
        self.values = Values(
            len(self),
            *merge_values(
                np.concatenate([self.values.groups[kept], groups[known.groups]]),
                pa.concat_arrays([self.values.values.filter(pa.array(kept)), known.values]),
                np.concatenate([self.values.counts[kept], known.counts]),
            ),
        )

    def add_at(self, groups: Longs, other: StatisticValue) -> None:
        """As SlotValue."""
        assert isinstance(other, Extremes)
        self.owing[groups] |= other.owing
        self.values.add_at(groups, other.values)

    def add_all(self, parts: Sequence[tuple[Longs, Extremes]]) -> None:
        """As `add_at` for each part."""
        for groups, other in parts:
            self.owing[groups] |= other.owing
        self.values.add_all([(groups, other.values) for groups, other in parts])

    def take(self, groups: Longs) -> Extremes:
        """As SlotValue."""
        return Extremes(self.multiset, self.values.take(groups), self.owing[groups])

    def is_zero(self) -> Mask:
        """As SlotValue; a group with unmatched retractions is kept.

        So that one which is not there has none.
        """
        zero: Mask = np.bincount(self.values.groups, minlength=len(self)) == 0
        return zero & ~self.owing

    def arrays(self) -> list[pa.Array]:
        """As SlotValue."""
        found, owing = [], self.owing.copy()
        unmatched = np.nonzero(self.values.counts < 0)[0]
        groups, values = self.values.groups[unmatched], self.values.values.take(pa.array(unmatched))
        for greatest in self.multiset.ends:
            extremes, _ = self.values.extreme(greatest=greatest)
            found.append(extremes)
            if len(unmatched):
                own = extremes.take(pa.array(groups))
                beyond = pc.greater(values, own) if greatest else pc.less(values, own)
                owing[groups[pc.fill_null(beyond, True).to_numpy(zero_copy_only=False)]] = True
        return [*found, pa.array(owing)]


@dataclass(frozen=True, slots=True)
class ExtremeStatistic:
    """The least, the greatest value or both; all values are as those of `multiset`."""

    multiset: Multiset

    @property
    def fields(self) -> list[pa.Field]:
        """As Statistic."""
        name, kind = self.multiset.name, self.multiset.stored_type
        ends = [pa.field(f"{name}_{'greatest' if end else 'least'}", kind) for end in self.multiset.ends]
        return [*ends, pa.field(f"{name}_owing", pa.bool_(), nullable=False)]

    def of_rows(self, rows: WeightedRows) -> Extremes:
        """As Statistic."""
        return self.in_hand(self.multiset.of_rows(rows))

    def zeros(self, count: int) -> Extremes:
        """As Statistic."""
        return self.in_hand(self.multiset.zeros(count))

    def load(self, arrays: Sequence[pa.Array], count: int) -> Extremes:
        """As Statistic."""
        *ends, owing = arrays
        valid = [end.is_valid().to_numpy(zero_copy_only=False) for end in ends]
        groups = np.concatenate([np.nonzero(there)[0] for there in valid])
        values = one_array(pa.chunked_array([end.drop_null() for end in ends], self.multiset.stored_type))
        known = Values(count, *merge_values(groups, values, np.ones(len(groups), dtype=np.int64)))
        return Extremes(self.multiset, known, owing.to_numpy(zero_copy_only=False).copy())

    def in_hand(self, values: Values) -> Extremes:
        """Groups that have nothing but some values."""
        return Extremes(self.multiset, values, np.zeros(values.size, dtype=bool))
