"""Rows with integer weights: repeated rows and retractions.

Owns the input values of the rows of groups, with how often each row comes or goes. Invariant: rows stand group by group, and every group has
at least one. Not here: what is made of them (`count_and_sum`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from odfabric_engine_spark.arrays.array_types import Longs


@dataclass(frozen=True, slots=True)
class WeightedRows:
    """Input values of rows: `groups` (0 .. count - 1) and net `weights` of each row.

    Rows are sorted by group, and every group has at least one. A row of an input has the weight 1 or -1, one of a stage may have any:
    a value times a weight need not have its place in 64 bits.
    """

    values: Sequence[pa.Array]
    weights: Longs
    starts: Longs

    @property
    def group_count(self) -> int:
        """Number of groups."""
        return len(self.starts)

    @property
    def times(self) -> int:
        """How many rows there are if each is counted as often as it comes or goes."""
        return int(np.abs(self.weights).astype(np.float64).sum()) if len(self.weights) else 0

    @property
    def groups(self) -> Longs:
        """The group of each row."""
        lengths = np.diff(np.append(self.starts, len(self.weights)))
        return np.repeat(np.arange(len(self.starts), dtype=np.int64), lengths)
