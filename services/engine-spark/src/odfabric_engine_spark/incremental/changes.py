"""Changes of an output: from what a row was and is to the records that say so.

Owns the operation types of records and their order. Invariant (laws L3, L4): nothing is said of a row that did not change, a
changed row of the same identity is one `-C` directly followed by its `+C`, anything else `-R` and `+A`. Not here: which rows
belong together (`aggregate_run`, `linear_run`). Source: semantics of transforms, section 2; rulings on pairs and order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from odfabric.model.operation import OperationType
from odfabric_engine_spark.incremental.canonical import table_bytes
from odfabric_engine_spark.incremental.exact import Longs

Operations = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Records:
    """Rows of the output with their operation types, in order."""

    operations: Operations
    rows: pa.Table

    def batches(self, operation_name: str) -> Iterator[pa.RecordBatch]:
        """As batches, the operation first."""
        arrays = [pa.array(self.operations), *self.rows.columns]
        names = [operation_name, *self.rows.column_names]
        yield from pa.Table.from_arrays(arrays, names=names).to_batches()


def changes(rows: pa.Table, before: Longs, after: Longs, order: Callable[[Longs, Longs], pa.Table]) -> Records:
    """Records of identities whose row was at position `before` of `rows` and is at `after` (-1: none).

    `order` gives the columns to sort by, nulls first, for identities and the rows that they stand for: the new row of a pair.
    """
    both = np.nonzero((before >= 0) & (after >= 0))[0]
    corrected = both[_differ(rows, before[both], after[both])]
    gone = np.nonzero((before >= 0) & (after < 0))[0]
    new = np.nonzero((before < 0) & (after >= 0))[0]
    identities = np.concatenate([gone, new, corrected])
    leads = np.concatenate([before[gone], after[new], after[corrected]])
    partners = np.concatenate([np.full(len(gone) + len(new), -1, dtype=np.int64), before[corrected]])
    operations = np.repeat(
        [OperationType.RETRACT, OperationType.APPEND, OperationType.CORRECT_TO], [len(gone), len(new), len(corrected)]
    )
    places = _sorted(order(identities, leads))
    return interleaved(rows, leads[places], partners[places], operations[places])


def interleaved(rows: pa.Table, leads: Longs, partners: Longs, operations: Longs) -> Records:
    """A pair becomes two records, its old row first."""
    paired = partners >= 0
    places = np.arange(len(leads)) + np.cumsum(paired)
    total = len(leads) + int(paired.sum())
    positions = np.empty(total, dtype=np.int64)
    kinds = np.empty(total, dtype=np.int32)
    positions[places], kinds[places] = leads, operations
    positions[places[paired] - 1], kinds[places[paired] - 1] = partners[paired], OperationType.CORRECT_FROM
    return Records(kinds, rows.take(pa.array(positions)))


def _differ(rows: pa.Table, one: Longs, other: Longs) -> npt.NDArray[np.bool_]:
    if not len(one):
        return np.zeros(0, dtype=bool)
    left, right = table_bytes(rows.take(pa.array(one))), table_bytes(rows.take(pa.array(other)))
    differ: npt.NDArray[np.bool_] = pc.not_equal(left, right).to_numpy(zero_copy_only=False)
    return differ


def _sorted(table: pa.Table) -> Longs:
    keys = [(name, "ascending", "at_start") for name in table.column_names]
    places: Longs = pc.sort_indices(table, sort_keys=keys).to_numpy().astype(np.int64)
    return places
