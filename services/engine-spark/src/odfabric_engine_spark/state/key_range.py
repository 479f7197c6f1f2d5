"""Parts of all keys, by ranges of their hashes.

Owns which part a key belongs to. Invariant: the parts of one division have each key once, and halves make up the whole. Not here: what
is done part by part (`operators.keyed_recompute.recompute_run`, `operators.aggregate.aggregate_run`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from odfabric_engine_spark.arrays.array_types import Hashes, Longs

_PARTS_MAX = 1 << 24
"""Keys are divided into no more parts than this, by the upper half of their hashes."""


@dataclass(frozen=True, slots=True)
class KeyPart:
    """Part `number` of `count` parts of all keys."""

    number: int
    count: int

    @property
    def is_first(self) -> bool:
        """Rows without a key belong to the first part."""
        return self.number == 0

    @property
    def divisible(self) -> bool:
        """Whether there are smaller ones."""
        return 2 * self.count <= _PARTS_MAX

    def divided(self, into: int) -> list[KeyPart]:
        """The parts that it is made of, in order.

        Of a part that is divided finely already there are no smaller ones.
        """
        if into <= 1 or self.count * into > _PARTS_MAX:
            return [self]
        return [KeyPart(self.number * into + at, self.count * into) for at in range(into)]

    def positions(self, hashes: Hashes) -> Longs:
        """Which of some hashes lie in it."""
        if self.count == 1:
            return np.arange(len(hashes))
        return np.nonzero(parts_of(hashes, self.count) == self.number)[0]

    def span(self, hashes: Hashes) -> slice:
        """Where some hashes that ascend lie in it."""
        return slice(_first_in(self.number, self.count, hashes), _first_in(self.number + 1, self.count, hashes))


ALL_KEYS = KeyPart(0, 1)


def _first_in(number: int, count: int, hashes: Hashes) -> int:
    """The first position of ascending hashes that is in a part or behind it."""
    if number >= count:
        return len(hashes)
    least = -(-(number << 32) // count) << 32
    return int(np.searchsorted(hashes, np.uint64(least)))


def parts_of(hashes: Hashes, count: int) -> Longs:
    """For each hash which of so many parts it lies in."""
    found: Longs = ((hashes >> np.uint64(32)) * np.uint64(count) >> np.uint64(32)).astype(np.int64)
    return found
