"""Extraction: which rows of an input a plan sees before and after a change.

Owns the tags that say whether a row is there before a transaction, after it, or both. Invariant: of a key that is asked for all rows
are given, those excepted that would cancel; an unmatched retraction is not there. Runs in the engine's process and in tasks of Spark alike
(`spark_tasks`). Not here: which keys are touched (`recompute_run`), what is made of the rows (`before_and_after`).
Source: docs/engine.md#before-and-after.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from odfabric.formats.slices.canonical_rows import one_array
from odfabric_engine_spark.arrays.array_types import Longs
from odfabric_engine_spark.arrays.parallel_columns import joined, taken
from odfabric_engine_spark.rows.delta import Delta, net_weights
from odfabric_engine_spark.state.run import WEIGHT

BEFORE, AFTER, BOTH = 0, 1, 2
TAG = "__odf_tag"

Tags = npt.NDArray[np.int8]


@dataclass(frozen=True, slots=True)
class BoundRows:
    """Rows of one scan; `tags` say if each is there before the transaction or after.

    A tag may also say both.

    `unmatched` are rows that the transaction withdraws though they are not there, None if there are none.
    """

    rows: pa.Table
    tags: Tags
    unmatched: pa.Table | None = None

    def __len__(self) -> int:
        return len(self.tags)

    def as_table(self) -> pa.Table:
        """The rows, and their tags as a last column."""
        return self.rows.append_column(TAG, pa.array(self.tags))


def new_rows(delta: Delta) -> BoundRows:
    """Rows of a scan of which none are known before: what is withdrawn was there."""
    return counted(delta.rows, np.maximum(-delta.weights, 0), np.maximum(delta.weights, 0))


def first_rows(delta: Delta) -> BoundRows:
    """Rows of a scan whose state is empty: what is withdrawn is unmatched."""
    bound = counted(delta.rows, np.zeros(len(delta), dtype=np.int64), delta.weights)
    return replace(bound, unmatched=_where(delta.rows, delta.weights < 0))


def old_and_new_rows(old: pa.Table, delta: Delta, *, alone: bool) -> BoundRows:
    """What a state has of some keys, and what is added to them.

    `alone`: rows that stay are left out.
    """
    weights = one_array(old.column(WEIGHT)).to_numpy()
    rows = joined([old.select(delta.rows.column_names), delta.rows])
    nothing = np.zeros(len(delta), dtype=np.int64)
    before, change = np.concatenate([weights, nothing]), np.concatenate([np.zeros_like(weights), delta.weights])
    if (weights < 0).any() or (delta.weights < 0).any():
        positions, (before, change) = net_weights(rows, [before, change])
        rows = taken(rows, positions)
    after = before + change
    unmatched = _where(rows, (after < 0) & (change < 0))
    before, after = np.maximum(before, 0), np.maximum(after, 0)
    if alone:
        before, after = np.maximum(before - after, 0), np.maximum(after - before, 0)
    return replace(counted(rows, before, after), unmatched=unmatched)


def _where(rows: pa.Table, mask: npt.NDArray[np.bool_]) -> pa.Table | None:
    return rows.filter(pa.array(mask)) if mask.any() else None


def counted(rows: pa.Table, before: Longs, after: Longs) -> BoundRows:
    """Rows as often as they are there; an unmatched retraction is not there."""
    before, after = np.maximum(before, 0), np.maximum(after, 0)
    if not before.any() and (after == 1).all():
        return BoundRows(rows, np.full(len(after), AFTER, dtype=np.int8))
    common = np.minimum(before, after)
    counts = np.concatenate([before - common, after - common, common])
    positions = np.repeat(np.tile(np.arange(len(before)), 3), counts)
    tags = np.repeat(np.repeat(np.array([BEFORE, AFTER, BOTH], dtype=np.int8), len(before)), counts)
    return BoundRows(taken(rows, positions), tags)
