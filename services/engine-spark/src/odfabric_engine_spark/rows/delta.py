"""Deltas: rows with weights, the changes of a relation.

Owns adding up equal rows. Invariant: rows are equal as in the logical hash: -0.0 is not 0.0, NaN equals itself, nulls are equal.
Not here: rows of a state (`state`), records of the output (`output_records`). Source: docs/engine.md#relations-and-weights.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyarrow import types

from odfabric.formats.slices.canonical_rows import one_array, ordered_bits, row_bytes
from odfabric_engine_spark.arrays.array_types import Longs
from odfabric_engine_spark.arrays.parallel_columns import joined, taken
from odfabric_engine_spark.arrays.stable_order import stable_order
from odfabric_engine_spark.spark.calls.memory_limit import TransactionSize

_POSITION = "position"


@dataclass(frozen=True, slots=True)
class Delta:
    """Rows, each as often as its weight says; columns are known by position."""

    rows: pa.Table
    weights: Longs

    def __len__(self) -> int:
        return len(self.weights)

    @classmethod
    def none(cls, schema: pa.Schema) -> Delta:
        """No change."""
        return cls(schema.empty_table(), np.zeros(0, dtype=np.int64))

    @classmethod
    def of(cls, columns: Sequence[pa.Array | pa.ChunkedArray], weights: Longs) -> Delta:
        """From columns, under names by position.

        That a column has no nulls is nowhere promised.
        """
        return cls(pa.Table.from_arrays(list(columns), names=[f"c{at}" for at in range(len(columns))]), weights)

    @classmethod
    def joined(cls, parts: Sequence[Delta]) -> Delta:
        """Changes one after the other."""
        parts = [part for part in parts if len(part)] or list(parts[:1])
        if len(parts) == 1:
            return parts[0]
        return cls(joined([part.rows for part in parts]), np.concatenate([part.weights for part in parts]))

    @classmethod
    def joined_within(cls, parts: Iterable[Delta], size: TransactionSize) -> Delta:
        """Changes one after the other, as they come.

        Raises LimitExceeded as soon as they are more than may be in hand.
        """
        found: list[Delta] = []
        in_hand = 0
        for part in parts:
            found.append(part)
            in_hand += part.rows.nbytes
            size.check(in_hand)
        return cls.joined(found)

    def slice(self, begin: int, count: int) -> Delta:
        """Consecutive rows."""
        return Delta(self.rows.slice(begin, count), self.weights[begin : begin + count])

    def take(self, positions: Longs) -> Delta:
        """Some of the rows."""
        if len(positions) == len(self):
            return self
        return Delta(taken(self.rows, positions), self.weights[positions])


def added_up(delta: Delta) -> Delta:
    """The net rows: none with weight zero, none both added and withdrawn.

    Where nothing is withdrawn they stay as they are.
    """
    if (delta.weights > 0).all():
        return delta
    positions, (weights,) = net_weights(delta.rows, [delta.weights])
    kept = weights != 0
    return Delta(taken(delta.rows, positions[kept]), weights[kept])


def net_weights(rows: pa.Table, weights: Sequence[Longs]) -> tuple[Longs, list[Longs]]:
    """First positions of different rows, and sums of each weight list over equals."""
    if not rows.num_rows:
        return np.zeros(0, dtype=np.int64), [np.zeros(0, dtype=np.int64) for _ in weights]
    names = [f"key{index}" for index in range(rows.num_columns)]
    keys = [_comparable(one_array(column)) for column in rows.columns]
    if not keys:
        return np.zeros(1, dtype=np.int64), [np.array([given.sum()]) for given in weights]
    numbered = {_POSITION: np.arange(rows.num_rows, dtype=np.int64)}
    numbered |= {f"weight{index}": given for index, given in enumerate(weights)}
    table = pa.table([*keys, *(pa.array(each) for each in numbered.values())], names=[*names, *numbered])
    sums = [(name, "min" if name == _POSITION else "sum") for name in numbered]
    grouped = table.group_by(names, use_threads=False).aggregate(sums)
    found = [one_array(grouped.column(f"{name}_{function}")).to_numpy() for name, function in sums]
    order = stable_order(found[0])
    return found[0][order], [each[order] for each in found[1:]]


def _comparable(column: pa.Array) -> pa.Array:
    """The column in a type that Arrow can group by our equality."""
    if types.is_nested(column.type):
        return row_bytes([column])
    if types.is_floating(column.type):
        return pa.array(ordered_bits(column.fill_null(0.0)), mask=column.is_null().to_numpy(zero_copy_only=False))
    return column
