"""Percentiles: the ranks of the values they are computed from.

Owns Spark's arithmetic of `percentile`, `median`, `percentile_cont` and `percentile_disc`. Invariant: a percentile is a function of how many
values there are and of those at one or two places in their order. Not here: finding these (`percentile`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from odfabric_engine_spark.arrays.array_types import Longs

Floats: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Rank:
    """A percentile: the share of values before it; `falling` if in descending order.

    `discrete`: it is one of the values; others lie between two of them.
    """

    share: float
    discrete: bool
    falling: bool

    def places(self, counts: Longs) -> tuple[Longs, Longs]:
        """The places of both values among ascending ones, from zero.

        The same twice for one. There is at least one value.
        """
        if self.discrete:
            at = np.maximum(np.ceil(counts * self.share).astype(np.int64), 1) - 1
            first, second = at, at
        else:
            position = self._position(counts)
            first, second = np.floor(position).astype(np.int64), np.ceil(position).astype(np.int64)
        return (counts - 1 - first, counts - 1 - second) if self.falling else (first, second)

    def reach(self, least: Longs, most: Longs) -> tuple[Longs, Longs]:
        """First and last place it can have for counts from `least` to `most`, at least 1."""
        found = [*self.places(least), *self.places(most)]
        # In between, places grow with counts but for what rounding does.
        return np.maximum(np.minimum.reduce(found) - 1, 0), np.minimum(np.maximum.reduce(found) + 1, most - 1)

    def of(self, counts: Longs, first: Floats, second: Floats) -> Floats:
        """The percentile, of the values at both places."""
        if self.discrete:
            return first
        position = self._position(counts)
        lower = np.floor(position)
        with np.errstate(invalid="ignore", over="ignore"):
            between = first + (second - first) * (position - lower)
        return np.where((position == lower) | (first == second), first, between)

    def _position(self, counts: Longs) -> Floats:
        found: Floats = (counts - 1).astype(np.float64) * self.share
        return found
