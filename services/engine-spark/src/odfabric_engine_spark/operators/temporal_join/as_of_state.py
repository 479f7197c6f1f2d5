"""As-of join state: which stored versions changed rows can meet.

Owns reading of a key with many versions the few that rows can take: the last one before each new row, and from the last one before the
earliest change on all of them. Invariant: each row that is bound takes the version that it takes of all. Versions lie in their state in the order
of their times, those of one key side by side. Not here: which rows are bound (`old_rows`), what a temporal join is (`version_lookup`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from pyarrow import types

from odfabric.formats.slices.canonical_rows import one_array
from odfabric_engine_spark.arrays.array_types import Hashes, Longs
from odfabric_engine_spark.arrays.equal_runs import run_starts
from odfabric_engine_spark.arrays.parallel_columns import joined, taken
from odfabric_engine_spark.arrays.stable_order import order_by, stable_order
from odfabric_engine_spark.operators.touched_keys import partial_read
from odfabric_engine_spark.operators.touched_keys.extraction import BoundRows, old_and_new_rows
from odfabric_engine_spark.operators.touched_keys.new_rows import Incoming
from odfabric_engine_spark.operators.touched_keys.old_rows import NEVER, AskedRows
from odfabric_engine_spark.operators.touched_keys.ordered_scan import places_of
from odfabric_engine_spark.operators.touched_keys.partial_read import (
    OrderColumn,
    StoredOrder,
    column_name,
    each_once,
    starts_of,
)
from odfabric_engine_spark.operators.touched_keys.semi_join_pruning import is_among
from odfabric_engine_spark.plan.partitioning.partition_keys import StageScan, Subplan
from odfabric_engine_spark.spark.catalyst.plan_nodes import conjuncts, expr_id, is_attribute, simple_name
from odfabric_engine_spark.state.key_range import KeyPart
from odfabric_engine_spark.state.row_search import Places, numbers_of
from odfabric_engine_spark.state.row_state import RowState
from odfabric_engine_spark.state.run import HASH, WEIGHT, distinct, hashes_of


@dataclass(frozen=True, slots=True)
class VersionOrder(StoredOrder):
    """How versions lie in their state: by key, then by the column at `time`.

    The key is that of their subplan.
    """

    time: int

    @classmethod
    def of(cls, scan: StageScan, subplan: Subplan) -> VersionOrder | None:
        """The order of a scan's versions, None if they have no such order.

        None if the scan has no versions, or rows of its keys are not the versions of one key in the order of their
        times.
        """
        found = scan.version_side
        if found is None or scan.ends or subplan.wholes or subplan.always or subplan.components is None:
            return None
        places = places_of(scan.columns)
        parts = [component[scan] for component in subplan.components]
        if not all(is_attribute(each) for each in (*found.keys, *parts, found.time)):
            return None
        keys = {places[expr_id(each)] for each in found.keys}
        time = places[expr_id(found.time)]
        known = {*keys, time}
        # What else a version has to be, the last one before a row may not be.
        passes = all(
            simple_name(each) == "IsNotNull"
            and is_attribute(each.child())
            and places.get(expr_id(each.child())) in known
            for condition in found.conditions
            for each in conjuncts(condition)
        )
        if (
            not passes
            or keys != {places[expr_id(each)] for each in parts}
            or not types.is_timestamp(scan.schema[time].type)
        ):
            return None
        order = [OrderColumn(position, False, False) for position in (*sorted(keys), time)]
        return cls(tuple(sorted(keys)), tuple(order), time)

    def times(self, rows: pa.Table) -> Longs:
        """When versions are; those that never are come first of all."""
        return numbers_of(rows.column(column_name(self.time)))

    def places(self, state: RowState, hashes: Hashes, times: Longs) -> Places:
        """Where versions of some times lie. All versions of a hash have one key."""
        return state.places(hashes, {column_name(self.time): times})

    def with_several_keys(self, state: RowState, hashes: Hashes, new: Incoming) -> Hashes:
        """Hashes that versions of several keys have."""
        names = list(self.columns(new.delta.rows.slice(0, 0)))[: len(self.order) - 1]
        if not names:
            return hashes[:0]
        owners, ends = state.both_ends(hashes, names)
        own = self.columns(new.delta.rows)
        both = np.concatenate([owners, new.hashes])
        together = joined([ends, pa.table({name: own[name] for name in names}).cast(ends.schema)])
        order = stable_order(both)
        several = both[order][starts_of(both[order], taken(together, order).columns)]
        return distinct(several[1:][several[1:] == several[:-1]])


@dataclass(frozen=True, slots=True)
class AskedVersions:
    """Old versions of a scan, about `count`: of the keys `whole` all.

    Of the keys `narrow` those at `since_us` or later with the last one before, and at each of the `instants` of a key,
    which are `of_keys`, those there and the last one before. All keys ascend."""

    order: VersionOrder
    whole: Hashes
    narrow: Hashes
    since_us: Longs
    of_keys: Hashes
    instants: Longs
    count: int

    def chosen(self, part: KeyPart) -> AskedVersions:
        """Those of a part of the keys."""
        narrow, own = part.span(self.narrow), part.span(self.of_keys)
        return replace(
            self,
            whole=self.whole[part.span(self.whole)],
            narrow=self.narrow[narrow],
            since_us=self.since_us[narrow],
            of_keys=self.of_keys[own],
            instants=self.instants[own],
        )

    def bound(self, state: RowState, new: Incoming, *, alone: bool) -> BoundRows:
        """Old and new versions.

        What rows take of them changes, so none of those that stay is left out.
        """
        assert not alone
        several = self.order.with_several_keys(state, self.narrow, new)
        few = self._few(state)
        owners, unmatched = hashes_of(few.column(HASH)), one_array(few.column(WEIGHT)).to_numpy() < 0
        doubtful = distinct(several, owners[unmatched])
        few = few.filter(pa.array(~is_among(owners, doubtful)))
        old = joined([state.of_keys(pa.array(distinct(self.whole, doubtful))), few])
        return old_and_new_rows(old, new.delta, alone=False)

    def late_counts(self, state: RowState) -> Longs:
        """How many versions of each narrow key are at its instant or later."""
        late = self.order.places(state, self.narrow, self.since_us)
        counts = np.zeros(len(self.narrow), dtype=np.int64)
        for each in late.in_runs:
            counts += each.ends - each.lower
        return counts

    def _few(self, state: RowState) -> pa.Table:
        """Old versions of narrow keys, as if all of a hash had one key."""
        late = self.since_us < NEVER
        since, hashes = self.since_us[late], self.narrow[late]
        of_keys, instants = np.concatenate([hashes, self.of_keys]), np.concatenate([since, self.instants])
        order = order_by(of_keys, instants)
        different = order[run_starts(of_keys[order], instants[order])]
        places = self.order.places(state, of_keys[different], instants[different]).different()
        first = self.order.places(state, hashes, since)
        last = self.order.places(state, hashes, np.full(len(hashes), NEVER))
        return each_once(
            [
                state.between(places, places),
                state.between(first, last),
                self.order.beside(state, places, 1, after=False),
            ]
        )


def asked_versions(
    order: VersionOrder,
    state: RowState,
    hashes: Hashes,
    new: Incoming,
    rows: Sequence[tuple[Incoming, AskedRows]],
) -> AskedRows | AskedVersions:
    """Old versions of some touched keys.

    `new` are versions that come, `rows` those that look them up, new ones and which old ones there are.
    """
    counts = state.counts(hashes)
    everything = AskedRows.of_keys(hashes, int(counts.sum()))
    if everything.count < partial_read.LEFT_OUT_MIN:
        return everything
    old = [asked for _, asked in rows]
    is_whole = is_among(hashes, distinct(*(asked.whole for asked in old)))
    narrow, since_us = hashes[~is_whole], np.full(len(hashes) - int(is_whole.sum()), NEVER)
    for own, instants in [
        (new.hashes, order.times(new.delta.rows)),
        *((asked.narrow, asked.since_us) for asked in old),
    ]:
        known = is_among(own, narrow)
        np.minimum.at(since_us, np.searchsorted(narrow, own[known]), instants[known])
    of_keys, instants = _instants([incoming for incoming, _ in rows], narrow, since_us)
    found = AskedVersions(order, hashes[is_whole], narrow, since_us, of_keys, instants, 0)
    count = int(counts[is_whole].sum() + found.late_counts(state).sum()) + len(instants)
    return everything if everything.count - count < partial_read.LEFT_OUT_MIN else replace(found, count=count)


def _instants(rows: Sequence[Incoming], narrow: Hashes, since_us: Longs) -> tuple[Hashes, Longs]:
    """When new rows of narrow keys look up versions, if before the usual look-up.

    As far as they are earlier than what is looked up anyway.
    """
    hashes, instants = [narrow[:0]], [since_us[:0]]
    for each in rows:
        assert each.closes is not None
        known = each.closes.is_valid().to_numpy(zero_copy_only=False) & is_among(each.hashes, narrow)
        own, when = each.hashes[known], each.closes.fill_null(0).to_numpy()[known]
        early = when < since_us[np.searchsorted(narrow, own)]
        hashes.append(own[early])
        instants.append(when[early])
    found, when = np.concatenate(hashes), np.concatenate(instants)
    order = stable_order(found)
    return found[order], when[order]
