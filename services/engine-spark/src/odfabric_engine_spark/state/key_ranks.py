"""Rows of one key by rank, over several runs.

Owns finding where so many rows of a key are left behind. Invariant: rows of a key lie in the order of a column in each run, so how many come
before a value is known from its place in each; what is read beside the places are weights. Nothing is unmatched. Not here: ends of keys (`key_ends`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from odfabric_engine_spark.arrays.array_types import Longs
from odfabric_engine_spark.state.row_search import numbers_of
from odfabric_engine_spark.state.run import WEIGHT, Run


@dataclass(frozen=True, slots=True)
class Window:
    """A key's values from `first` to `last` as ordered integers, and rows before."""

    before: int
    first: int
    last: int
    rows: pa.Table


class KeyRanks:
    """A key's rows in some runs, by the values in a column without nulls.

    The column has integers in order.
    """

    def __init__(self, runs: Sequence[Run], bounds: Sequence[tuple[int, int]], name: str) -> None:
        """`bounds` says where each run has the key."""
        self._parts = [
            _Part(run.slice(*own, [WEIGHT, name]), name)
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


class _Part:
    """The rows of the key in one run.

    Of its batches only those are looked into in which something is searched.
    """

    def __init__(self, rows: pa.Table, name: str) -> None:
        self._batches = [batch for batch in rows.to_batches() if batch.num_rows]
        self._name = name
        self._sums = np.cumsum([0, *(int(batch.column(WEIGHT).to_numpy().sum()) for batch in self._batches)])
        self._ends = np.array([self._number(batch, batch.num_rows - 1) for batch in self._batches])
        self._known: dict[int, Longs] = {}
        self.total = int(self._sums[-1])
        self.least = self._number(self._batches[0], 0)
        self.most = int(self._ends[-1])

    def before(self, value: int) -> int:
        """How many rows are below a value, which may exceed the greatest integer by one."""
        if value > self.most:
            return self.total
        at = int(np.searchsorted(self._ends, value, side="left"))
        inside = int(np.searchsorted(self._numbers(at), value, side="left"))
        return int(self._sums[at] + self._batches[at].column(WEIGHT).slice(0, inside).to_numpy().sum())

    def between(self, first: int, last: int) -> pa.Table:
        """Rows with values from one to another."""
        found = [self._batches[0].slice(0, 0)]
        for at in range(int(np.searchsorted(self._ends, first, side="left")), len(self._batches)):
            numbers = self._numbers(at)
            begin = int(np.searchsorted(numbers, first, side="left"))
            end = int(np.searchsorted(numbers, last, side="right"))
            if begin == end:
                break
            found.append(self._batches[at].slice(begin, end - begin))
        return pa.Table.from_batches(found)

    def _number(self, batch: pa.RecordBatch, at: int) -> int:
        return int(numbers_of(batch.column(self._name).slice(at, 1))[0])

    def _numbers(self, at: int) -> Longs:
        if at not in self._known:
            self._known[at] = numbers_of(self._batches[at].column(self._name))
        return self._known[at]
