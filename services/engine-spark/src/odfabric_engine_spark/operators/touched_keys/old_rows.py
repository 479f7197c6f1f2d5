"""Which stored rows of an input are read for the touched keys.

Owns what may be left out of a key that has many. Invariant: what is left out is there before and after a transaction, and the plan makes
the same of it both times, for each of its rows is mapped alone: no row of another scan changes that it could meet, nor does it close.
So a new row of a long table costs what it meets, whatever its key has already. Not here: which keys are touched (`recompute_run`), which
scans have such rows (`key_inference`), the search (`state.row_search`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from odfabric_engine_spark.arrays.array_types import Hashes, Longs
from odfabric_engine_spark.arrays.parallel_columns import joined
from odfabric_engine_spark.operators.touched_keys import partial_read
from odfabric_engine_spark.operators.touched_keys.extraction import BoundRows, old_and_new_rows
from odfabric_engine_spark.operators.touched_keys.new_rows import NO_KEYS, Incoming
from odfabric_engine_spark.operators.touched_keys.semi_join_pruning import is_among
from odfabric_engine_spark.plan.partitioning.partition_keys import StageScan
from odfabric_engine_spark.rows.delta import net_weights
from odfabric_engine_spark.rows.row_expressions import RowExpressions, micros_of
from odfabric_engine_spark.state.key_range import KeyPart
from odfabric_engine_spark.state.row_state import RowState
from odfabric_engine_spark.state.run import CLOSES, HASH, WEIGHT, distinct

LEFT_OUT_EACH = 16
"""So many rows have to be left out at least for each new one, beside `LEFT_OUT_MIN`."""
NEVER = np.iinfo(np.int64).max
"""No row closes as late."""
_ALWAYS = np.iinfo(np.int64).min

Times = Mapping[StageScan, RowExpressions]
"""The time of a row of some scans that others look up."""


@dataclass(frozen=True, slots=True)
class AskedRows:
    """Old rows to look up in a scan, at most `count`.

    Of the keys `whole` all, of the keys `narrow` those that close at `since_us` or later, and those that are equal to
    new ones. Both ascend."""

    whole: Hashes
    narrow: Hashes
    since_us: Longs
    count: int

    @classmethod
    def of_keys(cls, hashes: Hashes, count: int) -> AskedRows:
        """All rows of some keys."""
        return cls(hashes, NO_KEYS, np.zeros(0, dtype=np.int64), count)

    def chosen(self, part: KeyPart) -> AskedRows:
        """Those of a part of the keys."""
        span = part.span(self.narrow)
        return AskedRows(self.whole[part.span(self.whole)], self.narrow[span], self.since_us[span], self.count)

    def of_these(self, hashes: Hashes) -> AskedRows:
        """Those of some keys, which ascend; of a key that is not known all."""
        known = is_among(self.narrow, hashes)
        narrow = self.narrow[known]
        return AskedRows(hashes[~is_among(hashes, narrow)], narrow, self.since_us[known], self.count)

    def counts(self, state: RowState, hashes: Hashes) -> Longs:
        """Upper bounds of old rows per key, without those equal to new ones."""
        counts = state.counts(hashes)
        counts[np.searchsorted(hashes, self.narrow)] = self.late_counts(state)
        return counts

    def late_counts(self, state: RowState) -> Longs:
        """At most how many rows of each narrow key close late."""
        if not self._has_late:
            return np.zeros(len(self.narrow), dtype=np.int64)
        return state.counts_since(self.narrow, self.since_us)

    @property
    def _has_late(self) -> bool:
        """Whether rows are looked up by closing time: only some states know it."""
        return bool((self.since_us < NEVER).any())

    def bound(self, state: RowState, new: Incoming, *, alone: bool) -> BoundRows:
        """Old and new rows. `alone`: rows that stay are left out."""
        old = state.of_keys(pa.array(self.whole))
        if not len(self.narrow):
            return old_and_new_rows(old, new.delta, alone=alone)
        found = [old, self._same(state, new)]
        if self._has_late:
            found.append(state.closing_since(self.narrow, self.since_us))
        return old_and_new_rows(joined(found), new.delta, alone=alone)

    def _same(self, state: RowState, new: Incoming) -> pa.Table:
        """Old rows that are equal to new ones, but for those that close late."""
        chosen = is_among(new.hashes, self.narrow)
        rows = new.delta.rows
        if state.timed:
            assert new.closes is not None
            rows = rows.add_column(0, CLOSES, new.closes)
            closes = new.closes.fill_null(_ALWAYS).to_numpy()
            since = self.since_us[np.minimum(np.searchsorted(self.narrow, new.hashes), len(self.narrow) - 1)]
            chosen &= closes < since
        at = np.nonzero(chosen)[0]
        rows, hashes = rows.take(pa.array(at)), new.hashes[at]
        # Rows that are added several times lie there as often.
        different, _ = net_weights(rows, [])
        if len(different) < len(at):
            rows, hashes = rows.take(pa.array(different)), hashes[different]
        weights = state.weights_of_rows(hashes, rows)
        found = rows.append_column(HASH, pa.array(hashes)).append_column(WEIGHT, pa.array(weights))
        return found.filter(pa.array(weights != 0)).select(state.schema.names).cast(state.schema)


@dataclass(frozen=True, slots=True)
class SubplanChange:
    """What happens to scans that share keys: new rows, and keys that close.

    Such keys have rows that close after `before_us`.
    """

    incoming: Mapping[StageScan, Incoming]
    closing: Mapping[StageScan, Hashes]
    before_us: int | None

    def asked(
        self, scan: StageScan, state: RowState, hashes: Hashes, times: Times, *, has_many_versions: bool = False
    ) -> AskedRows:
        """Of some touched keys.

        `times` says when rows are that the scan looks up; of many versions it matters when the earliest row is.
        """
        counts = state.counts(hashes)
        everything = AskedRows.of_keys(hashes, int(counts.sum()))
        is_small = everything.count < partial_read.LEFT_OUT_MIN and not has_many_versions
        if not scan.linear or scan.whole or len(scan.closes) > 1 or is_small:
            return everything
        narrow = ~is_among(hashes, self._changing_all(scan))
        since_us = self._since(scan, hashes[narrow], times)
        new = int(is_among(self.incoming[scan].hashes, hashes[narrow]).sum())
        found = AskedRows(hashes[~narrow], hashes[narrow], since_us, 0)
        count = int(counts[~narrow].sum() + found.late_counts(state).sum()) + new
        left_out_min = max(partial_read.LEFT_OUT_MIN, LEFT_OUT_EACH * new)
        if everything.count - count < left_out_min and not has_many_versions:
            return everything
        return replace(found, count=count)

    def _changing_all(self, scan: StageScan) -> Hashes:
        """Keys of which any row of a scan may meet something that changes."""
        others = [other for other in self.incoming if other is not scan]
        found = [self.incoming[other].hashes for other in others if other not in scan.joins_versions]
        return distinct(*found, *(self.closing[other] for other in others))

    def _since(self, scan: StageScan, hashes: Hashes, times: Times) -> Longs:
        """From when on rows of keys may meet something that changes, or close."""
        since_us = np.full(len(hashes), NEVER)
        closing = is_among(hashes, self.closing[scan])
        since_us[closing] = _ALWAYS if self.before_us is None else self.before_us + 1
        for version in scan.joins_versions:
            new = self.incoming[version]
            (values,) = times[version].evaluate(new.delta.rows)
            known = is_among(new.hashes, hashes) & values.is_valid().to_numpy(zero_copy_only=False)
            instants = micros_of(values).fill_null(0).to_numpy()[known]
            np.minimum.at(since_us, np.searchsorted(hashes, new.hashes[known]), instants)
        return since_us
