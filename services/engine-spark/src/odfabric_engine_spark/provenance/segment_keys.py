"""Keys of the rows of a segment: which rows have one of some keys.

Owns both forms: sorted ones with the place of each, which are kept in a file and searched, and those of rows that were just read. Invariant: both
find the same places. Not here: how keys become hashes (`state.key_hash`), where files are kept (`arrays.kept_files`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from odfabric_engine_spark.arrays.array_types import Hashes, Longs

_SAMPLE_ROWS = 4096


class SegmentKeys(Protocol):
    """Keys by the place of their row in the segment.

    `distinct` is about how many different keys there are.
    """

    @property
    def rows(self) -> int:
        """How many rows."""

    @property
    def distinct(self) -> int:
        """About how many keys."""

    def places(self, wanted: Hashes) -> Longs:
        """Places of rows with one of the keys, ascending; `wanted` ascends too, each once."""

    def count(self, wanted: Hashes) -> int:
        """How many rows have one of the keys."""


@dataclass(frozen=True, slots=True)
class ReadKeys:
    """Keys in the order of their rows."""

    hashes: Hashes

    @property
    def rows(self) -> int:
        """See `SegmentKeys`."""
        return len(self.hashes)

    @property
    def distinct(self) -> int:
        """See `SegmentKeys`; by a sample."""
        sample = self.hashes[:: max(1, self.rows // _SAMPLE_ROWS)]
        return 0 if not len(sample) else max(1, len(np.unique(sample)) * self.rows // len(sample))

    def places(self, wanted: Hashes) -> Longs:
        """See `SegmentKeys`."""
        return np.flatnonzero(np.isin(self.hashes, wanted)).astype(np.int64)

    def count(self, wanted: Hashes) -> int:
        """See `SegmentKeys`."""
        return int(np.count_nonzero(np.isin(self.hashes, wanted)))


@dataclass(frozen=True, slots=True)
class SortedKeys:
    """Keys in order, each with the place of its row; equal keys by place."""

    hashes: Hashes
    places_of: np.ndarray[tuple[int], np.dtype[np.uint32]]
    distinct: int

    @classmethod
    def of(cls, keys: ReadKeys) -> SortedKeys:
        """The same in order."""
        order = np.argsort(keys.hashes, kind="stable")
        return cls(keys.hashes[order], order.astype(np.uint32), keys.distinct)

    @classmethod
    def read(cls, content: memoryview, rows: int) -> SortedKeys | None:
        """What `parts` wrote; None if it was about another number of rows."""
        if content.nbytes != 8 + rows * (8 + 4):
            return None
        distinct = int(np.frombuffer(content, "<u8", 1)[0])
        hashes = np.frombuffer(content, "<u8", rows, 8)
        return cls(hashes, np.frombuffer(content, "<u4", rows, 8 + 8 * rows), distinct)

    def parts(self) -> list[memoryview]:
        """As bytes: eight, and twelve for each row."""
        arrays = (np.array([self.distinct], "<u8"), self.hashes.astype("<u8"), self.places_of.astype("<u4"))
        return [each.data.cast("B") for each in arrays]

    @property
    def rows(self) -> int:
        """See `SegmentKeys`."""
        return len(self.hashes)

    def places(self, wanted: Hashes) -> Longs:
        """See `SegmentKeys`."""
        begins, counts = self._runs(wanted)
        total = int(counts.sum())
        shifts = np.repeat(begins - (np.cumsum(counts) - counts), counts)
        return np.sort(self.places_of[shifts + np.arange(total)].astype(np.int64))

    def count(self, wanted: Hashes) -> int:
        """See `SegmentKeys`."""
        return int(self._runs(wanted)[1].sum())

    def _runs(self, wanted: Hashes) -> tuple[Longs, Longs]:
        begins = np.searchsorted(self.hashes, wanted, side="left")
        return begins, np.searchsorted(self.hashes, wanted, side="right") - begins
