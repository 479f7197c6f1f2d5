"""Top-N: read only the first N rows of each key.

Owns which rows of a ranked scan a plan gets to see, where it takes rows up to some rank: of old and of new rows those that can be among the
first before or after a transaction. Invariant: the plan gives the same as over all rows of the key. A row that is withdrawn lets at most
one move up, so as many more old rows are looked at; what ties with the last of them is looked at too. Rows lie in the order of the
ranking in their state, so what is read does not grow with the key. Not here: which scans are ranked (`top_n_scan`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from odfabric.formats.slices.canonical_rows import one_array, row_bytes
from odfabric_engine_spark.arrays.array_types import Hashes, Longs
from odfabric_engine_spark.arrays.equal_runs import run_starts
from odfabric_engine_spark.arrays.parallel_columns import taken
from odfabric_engine_spark.operators.touched_keys.partial_read import ChosenRows, Mask, StoredOrder, by_hash
from odfabric_engine_spark.rows.delta import Delta
from odfabric_engine_spark.state.row_state import RowState
from odfabric_engine_spark.state.run import HASH, WEIGHT, distinct, hashes_of


@dataclass(frozen=True, slots=True)
class TopN(StoredOrder):
    """A partial read: ranks rows of one key by `order`, takes those up to `count`.

    `greatest`: the first are those that are stored last. `dense`: rows that tie have one rank, and the next ones that after it.
    """

    count: int
    greatest: bool
    dense: bool

    @property
    def has_edges(self) -> bool:
        """As `PartialRead`: the first rows are those of the whole key."""
        return False

    def of_new(self, hashes: Hashes, rows: pa.Table) -> Longs:
        """Positions of a run's new rows: among the first, withdrawn, or of a shared hash."""
        weights = one_array(rows.column(WEIGHT)).to_numpy()
        chosen = weights < 0
        limits = self._limits(hashes, weights)
        chosen |= self.first(hashes, rows, weights > 0, limits, greatest=self.greatest, dense=self.dense)
        chosen |= self.shared(hashes, rows)
        positions: Longs = np.nonzero(chosen)[0]
        return positions

    def counts(self, state: RowState, hashes: Hashes, new_hashes: Hashes, new: Delta) -> Longs:
        """As `PartialRead`."""
        found: Longs = np.minimum(state.counts(hashes), self.count)
        return found

    def chosen(self, state: RowState, new_hashes: Hashes, new: Delta) -> ChosenRows:
        """As `PartialRead`."""
        hashes = distinct(new_hashes)
        old, is_cut = self._old(state, hashes, self._limits(new_hashes, new.weights))
        owners = hashes_of(old.column(HASH))
        doubtful = self.doubtful(owners, old, new_hashes, new)
        chosen = ~np.isin(new_hashes, doubtful)
        chosen &= ~self._beyond(old, is_cut, hashes, new_hashes, new)
        return ChosenRows(old.filter(pa.array(~np.isin(owners, doubtful))), new.take(np.nonzero(chosen)[0]), doubtful)

    def _limits(self, hashes: Hashes, weights: Longs) -> Longs:
        """How many rows of each key have to be looked at."""
        starts = run_starts(hashes)
        withdrawn = np.add.reduceat(np.maximum(-weights, 0), starts) if len(starts) else starts
        limits: Longs = self.count + withdrawn
        return limits

    def _old(self, state: RowState, hashes: Hashes, limits: Longs) -> tuple[pa.Table, Mask]:
        """Up to `limits` rows of keys, with ties, by hash; and which keys have others."""

        def read(some: Longs, counts: Longs) -> tuple[Longs, pa.Table]:
            rows = by_hash([state.at_ends(hashes[some], counts, greatest=self.greatest)])
            return np.searchsorted(hashes, hashes_of(rows.column(HASH))), rows

        _, rows, is_cut = self.outer(read, limits, greatest=self.greatest, dense=self.dense)
        return rows, is_cut

    def _beyond(self, old: pa.Table, is_cut: Mask, hashes: Hashes, new_hashes: Hashes, new: Delta) -> Mask:
        """Which new rows follow all looked-up old ones of their key, if it has others."""
        found: Mask = is_cut[np.searchsorted(hashes, new_hashes)]
        at = np.nonzero(found)[0]
        if len(at):
            owners = hashes_of(old.column(HASH))
            starts = run_starts(owners)
            last = starts if self.greatest else np.append(starts, len(owners))[1:] - 1
            last = last[np.searchsorted(owners[starts], new_hashes[at])]
            own = self.columns(taken(new.rows, at))
            new_bytes = row_bytes(list(own.values()))
            ends = row_bytes([one_array(old.column(name).take(pa.array(last))) for name in own])
            further = pc.less(new_bytes, ends) if self.greatest else pc.greater(new_bytes, ends)
            found[at] = further.to_numpy(zero_copy_only=False)
        return found
