"""From old and new rows to appends, retractions and correction pairs.

Owns the operation types of records and their order. Invariant (laws L3, L4): nothing is said of a row that did not change, a
changed row of the same identity is one `-C` directly followed by its `+C`, anything else `-R` and `+A`. Not here: which rows
belong together (`aggregate_run`, `record_mapping`). Source: docs/engine.md#the-law-of-transforms;
docs/engine.md#order-of-the-output; docs/engine.md#row-identity-and-pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from odfabric.formats.slices.canonical_rows import table_bytes
from odfabric.model.operation import OperationType
from odfabric_engine_spark.arrays.array_types import Longs
from odfabric_engine_spark.arrays.parallel_columns import joined, taken
from odfabric_engine_spark.arrays.stable_order import order_by

Operations = npt.NDArray[np.int32]


_TAKEN_ROWS = 1 << 18
"""Rows that are put in order at once: those before are written meanwhile, and not all are in memory twice."""


@dataclass(frozen=True, slots=True)
class Records:
    """Output rows with operation types: those of `source`, reordered by `places`."""

    operations: Operations
    source: pa.Table
    places: Longs | None = None

    @classmethod
    def ordered(cls, operations: Operations, source: pa.Table, places: Longs) -> Records:
        """Of rows that are still to be put in order."""
        return cls(operations, source.combine_chunks(), places)

    @property
    def rows(self) -> pa.Table:
        """The rows in their order."""
        return self.source if self.places is None else taken(self.source, self.places)

    def batches(self, operation_name: str) -> Iterator[pa.RecordBatch]:
        """As batches, the operation first."""
        for begin in range(0, len(self.operations), _TAKEN_ROWS):
            part = slice(begin, begin + _TAKEN_ROWS)
            if self.places is None:
                rows = self.source.slice(begin, _TAKEN_ROWS)
            else:
                rows = taken(self.source, self.places[part])
            arrays = [pa.array(self.operations[part]), *rows.columns]
            yield from pa.Table.from_arrays(arrays, names=[operation_name, *rows.column_names]).to_batches()

    @classmethod
    def joined(cls, parts: Sequence[Records], schema: pa.Schema) -> Records:
        """Records one after the other; `schema` is that of the rows if there are none."""
        rows = joined([part.rows for part in parts] or [schema.empty_table()])
        operations = [np.zeros(0, dtype=np.int32), *(part.operations for part in parts)]
        return cls(np.concatenate(operations), rows)


def changes(
    rows: pa.Table, before: Longs, after: Longs, steps: Longs, order: Callable[[Longs, Longs], pa.Table]
) -> Records:
    """Records of identities from position `before` to `after` of `rows` (-1: none).

    A row that one identity loses and another one gets in the same of `steps` did not change. `order` gives the columns to sort by,
    nulls first, for identities and the rows that they stand for: the new row of a pair.
    """
    told = changed(rows, before, after)
    old, new = before[told], after[told]
    places = _sorted(order(told, _leads(old, new)))
    told, old, new = told[places], old[places], new[places]
    if is_returned(rows, old, new, steps[told]):
        left = np.nonzero((old >= 0) | (new >= 0))[0]
        left = left[_sorted(order(told[left], _leads(old[left], new[left])))]
        old, new = old[left], new[left]
    operations = np.where(
        new < 0, OperationType.RETRACT, np.where(old < 0, OperationType.APPEND, OperationType.CORRECT_TO)
    )
    return interleaved(rows, _leads(old, new), np.where(new >= 0, old, -1), operations)


def changed(rows: pa.Table, before: Longs, after: Longs) -> Longs:
    """Identities whose row is another one than before, or is there where it was not."""
    both = (before >= 0) & (after >= 0)
    both[both] = rows_differ(rows, before[both], after[both])
    found: Longs = np.nonzero(both | ((before >= 0) != (after >= 0)))[0]
    return found


def _leads(old: Longs, new: Longs) -> Longs:
    """The rows that identities stand for."""
    return np.where(new >= 0, new, old)


def is_returned(rows: pa.Table, old: Longs, new: Longs, steps: Longs) -> bool:
    """Strikes rows that go and come again within a step from `old` and `new`.

    Whether there was one.

    Identities have a total order here, and those without a partner are struck first, so that the outcome is one of the rows alone.
    """
    gone, come = np.nonzero(old >= 0)[0], np.nonzero(new >= 0)[0]
    if not len(gone) or not len(come):
        return False
    known = table_bytes(rows.take(pa.array(np.concatenate([old[gone], new[come]])))).dictionary_encode()
    codes = known.indices.to_numpy().astype(np.int64) * (int(steps.max()) + 1) + steps[np.concatenate([gone, come])]
    _, codes = np.unique(codes, return_inverse=True)
    of_gone, of_come = codes[: len(gone)], codes[len(gone) :]
    kinds = int(codes.max()) + 1
    often = np.minimum(np.bincount(of_gone, minlength=kinds), np.bincount(of_come, minlength=kinds))
    if not often.any():
        return False
    paired = (old >= 0) & (new >= 0)
    old[gone[_first(of_gone, paired[gone], often)]] = -1
    new[come[_first(of_come, paired[come], often)]] = -1
    return True


def _first(codes: Longs, later: npt.NDArray[np.bool_], often: Longs) -> Longs:
    """Places of the first `often` of each code, what is `later` after all else."""
    by_code = order_by(codes, later)
    ordered = codes[by_code]
    starts = np.searchsorted(ordered, ordered, side="left")
    return by_code[np.arange(len(ordered)) - starts < often[ordered]]


def interleaved(rows: pa.Table, leads: Longs, partners: Longs, operations: Longs) -> Records:
    """A pair becomes two records, its old row first."""
    paired = partners >= 0
    places = np.arange(len(leads)) + np.cumsum(paired)
    total = len(leads) + int(paired.sum())
    positions = np.empty(total, dtype=np.int64)
    kinds = np.empty(total, dtype=np.int32)
    positions[places], kinds[places] = leads, operations
    positions[places[paired] - 1], kinds[places[paired] - 1] = partners[paired], OperationType.CORRECT_FROM
    return Records.ordered(kinds, rows, positions)


def rows_differ(rows: pa.Table, one: Longs, other: Longs) -> npt.NDArray[np.bool_]:
    if not len(one):
        return np.zeros(0, dtype=bool)
    left, right = table_bytes(rows.take(pa.array(one))), table_bytes(rows.take(pa.array(other)))
    differ: npt.NDArray[np.bool_] = pc.not_equal(left, right).to_numpy(zero_copy_only=False)
    return differ


def _sorted(table: pa.Table) -> Longs:
    keys = [(name, "ascending", "at_start") for name in table.column_names]
    places: Longs = pc.sort_indices(table, sort_keys=keys).to_numpy().astype(np.int64)
    return places
