"""New rows of an input in a transaction of a stage.

Owns their order, by the hashes of their keys, so that the rows of a part of the keys follow one another and need not be looked for nor
copied. Invariant: equal rows are added up. Not here: which of them are bound (`recompute_run`), old rows (`old_rows`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from odfabric.formats.slices.canonical_rows import one_array
from odfabric_engine_spark.arrays.array_types import Hashes, Longs
from odfabric_engine_spark.arrays.equal_runs import run_starts
from odfabric_engine_spark.arrays.parallel_columns import taken
from odfabric_engine_spark.arrays.stable_order import stable_order
from odfabric_engine_spark.operators.touched_keys.semi_join_pruning import is_among
from odfabric_engine_spark.rows.delta import Delta
from odfabric_engine_spark.state.key_range import KeyPart
from odfabric_engine_spark.state.run import WEIGHT, Run

NO_KEYS: Hashes = np.zeros(0, dtype=np.uint64)

_MOST = 0.9
"""Share of rows of which all may as well be bound: copying the others takes longer than it saves."""


@dataclass(frozen=True, slots=True)
class Incoming:
    """New rows of a scan in the order of the hashes of their keys.

    A scan without state has no keys.

    `closes` is when each of them closes, None for a scan whose rows have no such instant; `run` is how they are stored, if that is made
    already.
    """

    delta: Delta
    hashes: Hashes
    closes: pa.Array | None
    run: Run | None = None

    @classmethod
    def of_run(cls, run: Run, names: Sequence[str]) -> Incoming:
        """Rows as they are stored, of which these are the columns of the scan."""
        rows = run.slice(0, len(run))
        return cls(Delta(rows.select(names), one_array(rows.column(WEIGHT)).to_numpy()), run.hashes, None, run)

    @classmethod
    def sorted(cls, delta: Delta, hashes: Hashes, closes: pa.Array | None) -> Incoming:
        """Of rows in any order."""
        if (hashes[1:] >= hashes[:-1]).all():
            return cls(delta, hashes, closes)
        order = stable_order(hashes)
        rows = Delta(taken(delta.rows, order), delta.weights[order])
        return cls(rows, hashes[order], None if closes is None else closes.take(pa.array(order)))

    @property
    def withdrawn(self) -> Hashes:
        """Keys of rows that are withdrawn."""
        found: Hashes = self.hashes[self.delta.weights < 0]
        return found

    def of_keys(self, hashes: Hashes) -> Incoming:
        """The rows of some keys, which ascend, or all rows where these are most of them."""
        starts = run_starts(self.hashes)
        kept = np.repeat(is_among(self.hashes[starts], hashes), np.diff(np.append(starts, len(self.hashes))))
        if kept.sum() > _MOST * len(kept):
            return self
        return self.taken(np.nonzero(kept)[0])

    def taken(self, positions: Longs) -> Incoming:
        """Some of the rows, which ascend."""
        closes = None if self.closes is None else self.closes.take(pa.array(positions))
        return Incoming(self.delta.take(positions), self.hashes[positions], closes)

    def chosen(self, part: KeyPart) -> Incoming:
        """The rows of a part of the keys."""
        if not len(self.hashes):
            return self if part.is_first else Incoming(self.delta.slice(0, 0), self.hashes, self.closes)
        span = part.span(self.hashes)
        count = span.stop - span.start
        closes = None if self.closes is None else self.closes.slice(span.start, count)
        return Incoming(self.delta.slice(span.start, count), self.hashes[span], closes)
