"""State of the values of groups, for MIN, MAX, percentiles and DISTINCT.

Owns the multiset of values that each group has, beside the state of groups: a group may have as many values as it has rows, and
a change should read and write few of them. Invariant: of a group that is looked up as many values are given as there can be withdrawn, and
one more, so that what is left after a change has the same extreme as all of them. Not here: results (`aggregate_functions`), which groups
have to be looked up (`min_and_max`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from odfabric.formats.slices.canonical_rows import one_array, row_bytes
from odfabric_engine_spark.arrays.array_types import Longs
from odfabric_engine_spark.arrays.byte_hash import byte_hashes
from odfabric_engine_spark.arrays.stable_order import stable_order
from odfabric_engine_spark.operators.aggregate.accumulators.count_and_sum import Multiset, Values
from odfabric_engine_spark.operators.aggregate.accumulators.min_and_max import Extremes
from odfabric_engine_spark.state.key_ranks import KeyRanks
from odfabric_engine_spark.state.latest_rows import KEY
from odfabric_engine_spark.state.row_state import RowState
from odfabric_engine_spark.state.run import CLOSES, HASH, WEIGHT, Run, distinct, spans

VALUE = "value"
"""The column of values."""

OpenRows = Callable[[str, pa.Schema], RowState]
"""A state of rows by what it is for and its columns."""


class ValueState:
    """Values of one statistic by the bytes of a group's key."""

    def __init__(self, statistic: Multiset, rows: RowState) -> None:
        self.statistic = statistic
        self.rows = rows

    @staticmethod
    def schema(statistic: Multiset) -> pa.Schema:
        """Columns of the rows."""
        return pa.schema([pa.field(KEY, pa.binary()), pa.field(VALUE, statistic.stored_type)])

    def look_up(self, extremes: Extremes, keys: pa.Array, groups: Longs, change: Values) -> None:
        """Load values where known extremes of `keys` do not decide a change.

        Its n-th group is `groups[n]` of them.
        """
        unknown = np.nonzero(extremes.unknown_after(groups, change))[0]
        if len(unknown):
            counts = np.ones(len(keys), dtype=np.int64)
            np.add.at(counts, groups, change.withdrawn())
            extremes.look_at(unknown, self.extremes(keys.take(pa.array(unknown)), counts[unknown]))

    def extremes(self, keys: pa.Array, counts: Longs) -> Values:
        """At least `counts` values of each key from each asked end, or all.

        No key occurs twice.
        """
        hashes = byte_hashes(keys)
        wanted = distinct(hashes)
        most = np.zeros(len(wanted), dtype=np.int64)
        np.maximum.at(most, np.searchsorted(wanted, hashes), counts)
        found = pa.concat_tables([self.rows.at_ends(wanted, most, greatest=end) for end in self.statistic.ends])
        groups = self._groups(found, keys)
        shared = distinct(_hashes_of(found)[groups < 0], _shared(hashes))
        if len(shared):
            # Another key has the same hash, so the ends may be those of its values.
            found = pa.concat_tables([found, self.rows.of_keys(pa.array(shared))])
            groups = self._groups(found, keys)
        return self._values(found.filter(pa.array(groups >= 0)), groups[groups >= 0], len(keys))

    def counted(self, keys: pa.Array, asked: Values) -> Values:
        """How often the values of `asked` are there; its own counts do not matter.

        Values of each key ascend.
        """
        hashes = byte_hashes(keys)[asked.groups]
        order = stable_order(hashes)
        groups, values = asked.groups[order], asked.values.take(pa.array(order))
        owners = keys.take(pa.array(groups))
        weights, shared = self.rows.weights_of(hashes[order], (KEY, owners), (VALUE, values))
        doubtful = np.isin(hashes[order], distinct(shared, _shared(byte_hashes(keys))))
        if doubtful.any():
            weights[doubtful] = self._counted_one_by_one(
                hashes[order][doubtful], owners.filter(doubtful), values.filter(doubtful)
            )
        found = np.zeros(len(order), dtype=np.int64)
        found[order] = weights
        there = found != 0
        return Values(asked.size, asked.groups[there], asked.values.filter(pa.array(there)), found[there])

    def sizes(self, keys: pa.Array) -> Longs:
        """How many rows the values of each key have at most."""
        hashes = byte_hashes(keys)
        wanted = distinct(hashes)
        found: Longs = self.rows.counts(wanted)[np.searchsorted(wanted, hashes)]
        return found

    def everything(self, keys: pa.Array) -> Values:
        """All values of each key."""
        rows = self.rows.of_keys(pa.array(distinct(byte_hashes(keys))))
        groups = self._groups(rows, keys)
        return self._values(rows.filter(pa.array(groups >= 0)), groups[groups >= 0], len(keys))

    def ranks(self, keys: pa.Array) -> Iterator[tuple[int, KeyRanks | None]]:
        """The values of each key by their places, after its position.

        None where `everything` has to be looked at.
        """
        hashes = byte_hashes(keys)
        order = stable_order(hashes)
        shared = _shared(hashes)
        alone = order[~np.isin(hashes[order], shared)]
        yield from ((int(at), None) for at in order[np.isin(hashes[order], shared)])
        owners = (KEY, keys.take(pa.array(alone)))
        yield from zip(alone.tolist(), self.rows.ranks_of(hashes[alone], owners, VALUE), strict=True)

    def _counted_one_by_one(self, hashes: np.ndarray, owners: pa.Array, values: pa.Array) -> Longs:
        """Of keys that share a hash with another."""
        rows = self.rows.of_keys(pa.array(distinct(hashes)))
        known = row_bytes([one_array(rows.column(name)) for name in (KEY, VALUE)])
        at = pc.index_in(row_bytes([owners, values]), value_set=known)
        weights = one_array(rows.column(WEIGHT)).take(at)
        found: Longs = pc.fill_null(weights, 0).to_numpy()
        return found

    def as_run(self, keys: pa.Array, ends: Longs | None, change: Values) -> Run:
        """What adds to the values of each key, of which none occurs twice.

        `ends` says when its group closes.
        """
        hashes = byte_hashes(keys)
        # Values of a group lie side by side, so it is groups that are sorted, of which there are fewer.
        order = stable_order(hashes)
        owners, values, counts = change.groups, change.values, change.counts
        if (order[1:] < order[:-1]).any():
            begins, ends_of = change.bounds()
            positions, owners = spans(begins[order], ends_of[order]), np.repeat(order, (ends_of - begins)[order])
            values, counts = values.take(pa.array(positions)), counts[positions]
        columns: dict[str, object] = {WEIGHT: pa.array(counts), KEY: keys.take(pa.array(owners)), VALUE: values}
        if ends is not None:
            columns[CLOSES] = pa.array(ends[owners])
        rows = pa.table(columns).select(self.rows.stored_schema.names).cast(self.rows.stored_schema)
        if len(_shared(hashes)):
            # Two keys with one hash: what is in the order of each is not in that of the bytes of both.
            return self.rows.as_run(rows.add_column(0, self.rows.schema.field(0), pa.array(hashes[owners])))
        return Run.of(hashes[owners], rows.combine_chunks())

    def _groups(self, rows: pa.Table, keys: pa.Array) -> Longs:
        """The position of each row's key, -1 for a key that was not asked for."""
        places = pc.index_in(one_array(rows.column(KEY)), value_set=keys)
        found: Longs = pc.fill_null(places, -1).to_numpy().astype(np.int64)
        return found

    def _values(self, rows: pa.Table, groups: Longs, size: int) -> Values:
        """A row that both ends have counts once."""
        named = pa.table({"group": groups, VALUE: rows.column(VALUE), "count": rows.column(WEIGHT)})
        once = named.group_by(["group", VALUE], use_threads=False).aggregate([("count", "max")])
        ordered = once.sort_by([("group", "ascending"), (VALUE, "ascending")]).combine_chunks()
        return Values(
            size,
            one_array(ordered.column("group")).to_numpy().astype(np.int64),
            one_array(ordered.column(VALUE)),
            one_array(ordered.column("count_max")).to_numpy().astype(np.int64),
        )


def _hashes_of(rows: pa.Table) -> np.ndarray:
    found: np.ndarray = one_array(rows.column(HASH)).to_numpy()
    return found


def _shared(hashes: np.ndarray) -> np.ndarray:
    """Hashes that several keys have."""
    ordered = np.sort(hashes)
    found: np.ndarray = ordered[1:][ordered[1:] == ordered[:-1]]
    return found
