"""Stored statistic of COUNT(DISTINCT ..).

Owns how many values of a group are there, though only few of them are in hand: those that change, with their counts before. Invariant: the
number of others does not change with them. As all statistics it is a function of the group's net rows. Not here: where the counts of values
are kept (`value_state`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from odfabric_engine_spark.arrays.array_types import Longs, Mask
from odfabric_engine_spark.arrays.weighted_rows import WeightedRows
from odfabric_engine_spark.operators.aggregate.accumulators.count_and_sum import Multiset, StatisticValue, Values


@dataclass(slots=True)
class Distinct:
    """Each group's loaded values with net numbers, and how many `others` exist."""

    others: Longs
    values: Values

    def __len__(self) -> int:
        return len(self.others)

    def counts(self) -> Longs:
        """How many different values are there."""
        return self.others + _there(self.values)

    def look_at(self, known: Values) -> None:
        """Takes values in hand that are among the others, none of which is in hand yet."""
        self.others = self.others - _there(known)
        self.values = known

    def add_at(self, groups: Longs, other: StatisticValue) -> None:
        """As SlotValue."""
        assert isinstance(other, Distinct)
        self.others[groups] += other.others
        self.values.add_at(groups, other.values)

    def add_all(self, parts: Sequence[tuple[Longs, Distinct]]) -> None:
        """As `add_at` for each part."""
        for groups, other in parts:
            self.others[groups] += other.others
        self.values.add_all([(groups, other.values) for groups, other in parts])

    def take(self, groups: Longs) -> Distinct:
        """As SlotValue."""
        return Distinct(self.others[groups], self.values.take(groups))

    def is_zero(self) -> Mask:
        """As SlotValue."""
        return np.equal(self.counts(), 0)

    def arrays(self) -> list[pa.Array]:
        """As SlotValue."""
        return [pa.array(self.counts())]


@dataclass(frozen=True, slots=True)
class DistinctStatistic:
    """How many different values there are.

    The values themselves are as those of `multiset`.
    """

    multiset: Multiset

    @classmethod
    def of(cls, source: int, data_type: pa.DataType) -> DistinctStatistic:
        """Of an input."""
        return cls(Multiset(f"distinct{source}", source, data_type, least=False, greatest=False))

    @property
    def fields(self) -> list[pa.Field]:
        """As Statistic."""
        return [pa.field(self.multiset.name, pa.int64(), nullable=False)]

    def of_rows(self, rows: WeightedRows) -> Distinct:
        """As Statistic."""
        return self.in_hand(self.multiset.of_rows(rows))

    def zeros(self, count: int) -> Distinct:
        """As Statistic."""
        return self.in_hand(self.multiset.zeros(count))

    def in_hand(self, values: Values) -> Distinct:
        """Groups that have nothing but some values."""
        return Distinct(np.zeros(len(values), dtype=np.int64), values)

    def load(self, arrays: Sequence[pa.Array], count: int) -> Distinct:
        """As Statistic: no value is in hand."""
        return replace(self.zeros(count), others=arrays[0].to_numpy().astype(np.int64))


def _there(values: Values) -> Longs:
    return np.bincount(values.groups[values.counts > 0], minlength=values.size)
