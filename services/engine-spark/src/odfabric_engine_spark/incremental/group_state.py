"""State of an aggregate: one row per group, in the order of keys.

Owns finding, replacing and dropping groups in the table that a checkpoint keeps. Invariant: the table is sorted by key bytes,
has no two equal keys and no group that is as if it had never had a row, so equal states are equal tables. Not here: what is
added to a group (`slots`), when it closes (`aggregate_run`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from odfabric_engine_spark.incremental.accumulators import Accumulators, GroupValues
from odfabric_engine_spark.incremental.canonical import one_array
from odfabric_engine_spark.incremental.exact import Longs

KEY = "key"
_BISECT_SHARE = 100
"""New keys are placed one by one while the state has this many times more."""


@dataclass(frozen=True, slots=True)
class GroupState:
    """The groups of a query. Columns: the key's bytes, its columns, the slots."""

    table: pa.Table
    key_names: tuple[str, ...]

    @classmethod
    def schema(cls, key_fields: Sequence[pa.Field], accumulators: Accumulators) -> pa.Schema:
        """Columns of the state of a query."""
        return pa.schema([pa.field(KEY, pa.binary(), nullable=False), *key_fields, *accumulators.fields])

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def find(self, keys: pa.Array) -> Longs:
        """Positions of keys, -1 for one that is not there. No key occurs twice."""
        found = np.full(len(keys), -1, dtype=np.int64)
        if len(self) and len(keys):
            hits = pc.index_in(one_array(self.table.column(KEY)), value_set=keys)
            positions = np.nonzero(hits.is_valid().to_numpy(zero_copy_only=False))[0]
            found[hits.take(pa.array(positions)).to_numpy()] = positions
        return found

    def between(self, column: str, *, above_us: int | None, to_us: int) -> Longs:
        """Positions of groups whose time in `column` lies in (above, to]."""
        times = self._times(column)
        inside = times <= to_us
        if above_us is not None:
            inside &= times > above_us
        return np.nonzero(inside)[0]

    def keys(self, positions: Longs) -> tuple[pa.Array, dict[str, pa.Array]]:
        """Bytes and columns of some keys."""
        at = pa.array(positions)
        return (
            one_array(self.table.column(KEY)).take(at),
            {name: one_array(self.table.column(name)).take(at) for name in self.key_names},
        )

    def values(self, positions: Longs, accumulators: Accumulators) -> GroupValues:
        """Slots of some groups."""
        at = pa.array(positions)
        return accumulators.load([one_array(self.table.column(field.name)).take(at) for field in accumulators.fields])

    def replaced(self, keys: pa.Array, columns: dict[str, pa.Array], values: GroupValues) -> GroupState:
        """The state with these groups as given; those that are zero are gone."""
        old = self.find(keys)
        arrays = [keys, *(columns[name] for name in self.key_names), *values.arrays()]
        changed = pa.Table.from_arrays(arrays, schema=self.table.schema)
        zero = values.is_zero()
        joined = pa.concat_tables([self.table, changed]).combine_chunks()
        order = np.arange(len(self), dtype=np.int64)
        kept = np.nonzero((old >= 0) & ~zero)[0]
        order[old[kept]] = len(self) + kept
        gone = old[(old >= 0) & zero]
        new = np.nonzero((old < 0) & ~zero)[0]
        new = new[pc.sort_indices(keys.take(pa.array(new))).to_numpy()] if len(new) else new
        places = self._places(keys.take(pa.array(new)))
        order = np.insert(order, places, len(self) + new)
        if len(gone):
            order = order[~np.isin(order, gone)]
        return GroupState(joined.take(pa.array(order)), self.key_names)

    def without(self, column: str, *, to_us: int) -> GroupState:
        """The state without groups whose time in `column` is at most an instant."""
        gone = self._times(column) <= to_us
        if not gone.any():
            return self
        return GroupState(self.table.filter(pa.array(~gone)), self.key_names)

    def _places(self, keys: pa.Array) -> Longs:
        """Where sorted new keys belong."""
        if not len(keys) or not len(self):
            return np.zeros(len(keys), dtype=np.int64)
        own = one_array(self.table.column(KEY))
        if len(keys) * _BISECT_SHARE < len(own):
            lookup = _Keys(own)
            return np.array([bisect_left(lookup, key) for key in keys.to_pylist()], dtype=np.int64)
        ranks = np.empty(len(own) + len(keys), dtype=np.int64)
        order = pc.sort_indices(pa.concat_arrays([own, keys])).to_numpy()
        ranks[order] = np.arange(len(order))
        return ranks[len(own) :] - np.arange(len(keys))

    def _times(self, column: str) -> Longs:
        times: Longs = one_array(self.table.column(column)).view(pa.int64()).to_numpy()
        return times


class _Keys(Sequence[bytes]):
    """Keys of the state as a sequence to search in."""

    def __init__(self, keys: pa.Array) -> None:
        self._keys = keys

    def __len__(self) -> int:
        return len(self._keys)

    def __getitem__(self, index: int) -> bytes:  # type: ignore[override]
        key: bytes = self._keys[index].as_py()
        return key
