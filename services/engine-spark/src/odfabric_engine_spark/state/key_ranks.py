"""Rows of one key by their places in order, over several runs.

Owns finding where so many rows of a key are left behind. Invariant: rows of a key lie in the order of a column in each run, so how many come
before a value is known from its place in each; what is read beside the places are weights. Nothing is owed. Not here: ends of keys (`key_ends`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from odfabric_engine_spark.state.row_search import numbers_of
from odfabric_engine_spark.state.run import WEIGHT, Longs, Run


@dataclass(frozen=True, slots=True)
class Window:
    """Values of a key from `first` to `last`, as integers in their order, and how many rows lie before the first."""

    before: int
    first: int
    last: int
    rows: pa.Table


class KeyRanks:
    """The rows of a key in some runs, by the values in a column, which has integers in order and no nulls."""

    def __init__(self, runs: Sequence[Run], bounds: Sequence[tuple[int, int]], name: str) -> None:
        """`bounds` says where each run has the key."""
        self._parts = [
            _Part.of(run.slice(*own, [WEIGHT, name]), name)
            for run, own in zip(runs, bounds, strict=True)
            if own[0] < own[1]
        ]
        self.count = sum(part.total for part in self._parts)

    def before(self, value: int) -> int:
        """How many rows have less."""
        return sum(part.before(value) for part in self._parts)

    def window(self, first: int, last: int) -> Window:
        """All rows of the values at two places and of those between."""
        least, most = self._at(first), self._at(last)
        rows = [part.between(least, most) for part in self._parts]
        return Window(self.before(least), least, most, pa.concat_tables(rows))

    def _at(self, place: int) -> int:
        """The value at a place."""
        least, most = min(part.least for part in self._parts), max(part.most for part in self._parts)
        while least < most:
            middle = (least + most) // 2
            if self.before(middle + 1) > place:
                most = middle
            else:
                least = middle + 1
        return least


@dataclass(frozen=True, slots=True)
class _Part:
    """The rows of the key in one run: its batches, their values, and how many rows come before each batch."""

    batches: tuple[pa.RecordBatch, ...]
    numbers: tuple[Longs, ...]
    weights: tuple[Longs, ...]
    sums: Longs

    @classmethod
    def of(cls, rows: pa.Table, name: str) -> _Part:
        batches = tuple(batch for batch in rows.to_batches() if batch.num_rows)
        weights = tuple(batch.column(WEIGHT).to_numpy() for batch in batches)
        numbers = tuple(numbers_of(batch.column(name)) for batch in batches)
        return cls(batches, numbers, weights, np.cumsum([0, *(int(own.sum()) for own in weights)]))

    @property
    def total(self) -> int:
        return int(self.sums[-1])

    @property
    def least(self) -> int:
        return int(self.numbers[0][0])

    @property
    def most(self) -> int:
        return int(self.numbers[-1][-1])

    def before(self, value: int) -> int:
        """How many rows have less than a value, which may be one more than the greatest integer."""
        if value > self.most:
            return self.total
        number = self._batch(value)
        at = int(np.searchsorted(self.numbers[number], value, side="left"))
        return int(self.sums[number] + self.weights[number][:at].sum())

    def between(self, first: int, last: int) -> pa.Table:
        """Rows with values from one to another."""
        found = [self.batches[0].slice(0, 0)]
        for batch, numbers in zip(self.batches, self.numbers, strict=True):
            if numbers[0] <= last and numbers[-1] >= first:
                begin = int(np.searchsorted(numbers, first, side="left"))
                found.append(batch.slice(begin, int(np.searchsorted(numbers, last, side="right")) - begin))
        return pa.Table.from_batches(found)

    def _batch(self, value: int) -> int:
        """The first batch that has something not less than a value."""
        lower, upper = 0, len(self.numbers) - 1
        while lower < upper:
            middle = (lower + upper) // 2
            if self.numbers[middle][-1] < value:
                lower = middle + 1
            else:
                upper = middle
        return lower
