"""The stored values around the ranks of percentiles.

Owns how many of a group's values are taken in hand. Invariant: whatever part of a change comes first, what percentiles are made of is in hand;
and no value in a gap is withdrawn that is not there. Not here: what is made of them (`percentile`), where they lie (`value_state`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from odfabric.formats.slices.canonical_rows import one_array
from odfabric_engine_spark.arrays.array_types import Longs, Mask
from odfabric_engine_spark.arrays.percentile_ranks import Rank
from odfabric_engine_spark.operators.aggregate.accumulators.count_and_sum import Values, merge_values
from odfabric_engine_spark.operators.aggregate.accumulators.percentile import GREATEST, LEAST, Gaps, Ranked, merged
from odfabric_engine_spark.operators.aggregate.value_state import VALUE, ValueState
from odfabric_engine_spark.state.key_ranks import KeyRanks, Window
from odfabric_engine_spark.state.run import WEIGHT

WHOLE_ROWS_MAX = 4096
"""Rows of a group up to which all its values are taken in hand: to find places in it takes longer."""


@dataclass(frozen=True, slots=True)
class _Change:
    """For each group how many values come and go at most."""

    added: Longs
    gone: Longs

    @classmethod
    def of(cls, size: int, groups: Longs, change: Values) -> _Change:
        """The n-th group of `change` is `groups[n]`.

        A group may have several, of different steps.
        """
        added, gone = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
        np.add.at(added, groups[change.groups], np.maximum(change.counts, 0))
        np.add.at(gone, groups[change.groups], np.maximum(-change.counts, 0))
        return cls(added, gone)


def look_up(own: ValueState, ranked: Ranked, keys: pa.Array, groups: Longs, change: Values) -> None:
    """Load values that determine the percentiles of `keys` around a change.

    Its n-th group is `groups[n]` of them.
    """
    counts = ranked.counts()
    known = np.nonzero((counts > 0) | ranked.owing)[0]
    if not len(known):
        return
    totals = _Change.of(len(keys), groups, change)
    small = own.sizes(keys.take(pa.array(known))) <= WHOLE_ROWS_MAX
    whole = ranked.owing[known] | small
    whole |= _owes(own, keys, groups, change, among=known[~whole])[known]
    large = known[~whole]
    values: list[tuple[Longs, pa.Array, Longs]] = []
    gaps: list[Gaps] = []
    doubtful: list[int] = []
    for at, ranks in own.ranks(keys.take(pa.array(large))):
        group = int(large[at])
        if ranks is None:
            doubtful.append(group)
            continue
        wanted = _places(ranked.statistic.ranks, int(counts[group]), int(totals.added[group]), int(totals.gone[group]))
        windows = list(_windows(ranks, wanted))
        values += [(np.full(len(each.rows), at), *_columns(each.rows)) for each in windows]
        gaps.append(_gaps(at, ranks.count, windows))
    if gaps:
        ranked.look_at(large, merged(len(large), values, ranked.statistic.multiset.stored_type), Gaps.joined(gaps))
    every = np.sort(np.concatenate([known[whole], np.array(doubtful, dtype=np.int64)]))
    if len(every):
        ranked.look_at(every, own.everything(keys.take(pa.array(every))), Gaps.none())


def _owes(own: ValueState, keys: pa.Array, groups: Longs, change: Values, *, among: Longs) -> Mask:
    """Which of some groups may get an unmatched retraction, whatever comes later."""
    found: npt.NDArray[np.bool_] = np.zeros(len(keys), dtype=bool)
    owners = groups[change.groups]
    gone = np.nonzero((change.counts < 0) & np.isin(owners, among))[0]
    if len(gone):
        asked = merge_values(owners[gone], change.values.take(pa.array(gone)), change.counts[gone])
        there = own.counted(keys, Values(len(keys), *asked))
        left = merged(len(keys), [asked, (there.groups, there.values, there.counts)], own.statistic.stored_type)
        found[left.groups[left.counts < 0]] = True
    return found


def _places(ranks: Sequence[Rank], count: int, added: int, gone: int) -> list[tuple[int, int]]:
    """Ascending disjoint ranges of ranks before a change, covering all asked later.

    What comes may be asked for itself: it lies between a place and the next one, before the first place (-1) or behind the last.
    """
    least, most = np.array([max(count - gone, 1)]), np.array([count + added])
    found: list[tuple[int, int]] = []
    for first, last in sorted(tuple(int(each[0]) for each in rank.reach(least, most)) for rank in ranks):
        begin, end = min(max(first - added - 1, -1), count), max(min(last + gone + 1, count), -1)
        if found and begin <= found[-1][1] + 1:
            begin, end = found[-1][0], max(found.pop()[1], end)
        found.append((begin, end))
    return found


def _windows(ranks: KeyRanks, wanted: Sequence[tuple[int, int]]) -> Iterator[Window]:
    """Their values, no value twice."""
    waiting: tuple[int, Window] | None = None
    for begin, end in wanted:
        found = _window(ranks, begin, end)
        if waiting is not None and found.first <= waiting[1].last:
            begin = waiting[0]
            found = _window(ranks, begin, end)
        elif waiting is not None:
            yield waiting[1]
        waiting = begin, found
    if waiting is not None:
        yield waiting[1]


def _window(ranks: KeyRanks, begin: int, end: int) -> Window:
    """One that goes to the end of all values where there is no further place."""
    found = ranks.window(max(min(begin, ranks.count - 1), 0), max(min(end, ranks.count - 1), 0))
    found = replace(found, first=LEAST) if begin < 0 else found
    return replace(found, last=GREATEST) if end >= ranks.count else found


def _gaps(group: int, count: int, windows: Sequence[Window]) -> Gaps:
    """What lies before, between and behind the windows of a group."""
    found: list[tuple[int, int, int]] = []
    begin, done = LEAST, 0
    for each in windows:
        if begin < each.first:
            found.append((begin, each.first - 1, each.before - done))
        begin, done = each.last + 1, each.before + int(_columns(each.rows)[1].sum())
    if begin <= GREATEST:
        found.append((begin, GREATEST, count - done))
    first, last, counts = np.array(found, dtype=np.int64).reshape(-1, 3).T
    return Gaps(np.full(len(found), group, dtype=np.int64), first, last, counts)


def _columns(rows: pa.Table) -> tuple[pa.Array, Longs]:
    return one_array(rows.column(VALUE)), one_array(rows.column(WEIGHT)).to_numpy()
