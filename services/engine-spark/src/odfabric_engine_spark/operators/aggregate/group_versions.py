"""Apply partial aggregates to groups: retractions and new versions.

Owns the order of things for the groups of a part of the keys: known ones are looked up, each passes through its versions step by
step, and a change of a version that is final is reported. A group without window is final at once; a timed one when the watermark has
passed its end, so what comes before is one version, and what comes later are corrections. Invariant: what is reported and what is kept are
functions of the state and of the sums. Nothing here needs the JVM: tasks of Spark do it too (`spark_tasks`). Not here: the rows of
the output that versions make (`aggregate_run`). Source: docs/engine.md#late-data-and-finality; docs/engine.md#steps-and-slicing.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from threading import Lock

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from odfabric_engine_spark.arrays.array_types import ALWAYS, Longs
from odfabric_engine_spark.arrays.equal_runs import run_starts
from odfabric_engine_spark.arrays.shown_values import shown_value
from odfabric_engine_spark.arrays.stable_order import order_by, stable_order
from odfabric_engine_spark.operators.aggregate.accumulators.aggregate_functions import (
    Accumulators,
    GroupOverflows,
    GroupValues,
)
from odfabric_engine_spark.operators.aggregate.accumulators.count_and_sum import Values, merge_values
from odfabric_engine_spark.operators.aggregate.accumulators.count_distinct import Distinct
from odfabric_engine_spark.operators.aggregate.accumulators.min_and_max import Extremes
from odfabric_engine_spark.operators.aggregate.accumulators.multisets import multiset_of
from odfabric_engine_spark.operators.aggregate.accumulators.percentile import Ranked
from odfabric_engine_spark.operators.aggregate.group_state import GroupState
from odfabric_engine_spark.operators.aggregate.group_sums import Marks, PartialSums, closing_steps, times
from odfabric_engine_spark.operators.aggregate.percentile_values import look_up
from odfabric_engine_spark.operators.aggregate.value_state import ValueState
from odfabric_engine_spark.plan.group_keys import KeyColumn, key_fields
from odfabric_engine_spark.state.key_range import KeyPart
from odfabric_engine_spark.state.run import Run

_log = logging.getLogger(__name__)
_STATISTICS_OF_FEW = 8
"""Values of a group up to which it is as large as others."""


@dataclass(frozen=True, slots=True)
class GroupShape:
    """Shape of groups: key columns, contents, and `end_column` if they close.

    `names` are those of a version's columns: keys, then results. `always`: there is one group, also over nothing.
    """

    columns: tuple[KeyColumn, ...]
    accumulators: Accumulators
    end_column: str | None
    names: tuple[str, ...]
    always: bool = False

    @property
    def key_names(self) -> list[str]:
        """The physical columns of keys."""
        return [field.name for field in key_fields(self.columns)]

    @property
    def state_schema(self) -> pa.Schema:
        """Columns of the state."""
        return GroupState.schema(key_fields(self.columns), self.accumulators)

    def in_hand(self, groups_max: int) -> int:
        """How many groups take the memory of `groups_max` groups with few functions.

        Each function has values of its own.
        """
        statistics = max(len(self.accumulators.statistics), _STATISTICS_OF_FEW)
        return max(groups_max * _STATISTICS_OF_FEW // statistics, 1)

    def no_sums(self) -> PartialSums:
        """Those of no rows."""
        nothing, no_hashes = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.uint64)
        columns = {field.name: pa.array([], field.type) for each in self.columns for field in each.fields}
        return PartialSums(pa.array([], pa.binary()), no_hashes, columns, nothing, nothing, self.accumulators.zeros(0))


@dataclass(frozen=True, slots=True)
class GroupStates:
    """All that is kept of groups; `values` are kept beside them, by statistic."""

    groups: GroupState
    values: Mapping[int, ValueState]


@dataclass(frozen=True, slots=True)
class Versions:
    """Emitted versions of groups as rows, and each group's old and new (-1: none)."""

    rows: pa.Table
    was: Longs
    now: Longs
    steps: Longs
    keys: pa.Array
    ends: Longs | None

    @classmethod
    def joined(cls, parts: Sequence[Versions]) -> Versions:
        """Those of several parts of the keys, of which there is at least one."""
        if len(parts) == 1:
            return parts[0]
        begins = np.cumsum([0, *(part.rows.num_rows for part in parts[:-1])])
        was = [np.where(part.was < 0, -1, part.was + begin) for begin, part in zip(begins, parts, strict=True)]
        now = [np.where(part.now < 0, -1, part.now + begin) for begin, part in zip(begins, parts, strict=True)]
        ends = [part.ends for part in parts if part.ends is not None]
        rows = [part.rows for part in parts if part.rows.num_rows] or [parts[0].rows]
        return cls(
            pa.concat_tables(rows).combine_chunks(),
            np.concatenate(was),
            np.concatenate(now),
            np.concatenate([part.steps for part in parts]),
            pa.concat_arrays([part.keys for part in parts]),
            np.concatenate(ends) if ends else None,
        )


@dataclass(frozen=True, slots=True)
class Advanced:
    """What sums do to a part of the groups: what to announce and what to keep.

    What is kept is of groups and of the values of statistics.
    """

    versions: Versions
    groups: Run
    values: Mapping[int, Run]


@dataclass(frozen=True, slots=True)
class _Work:
    """Groups in hand.

    `state` are their positions in the state (-1: new), `ends` when they close (timed only).
    """

    keys: pa.Array
    key_columns: dict[str, pa.Array]
    state: Longs
    values: GroupValues
    ends: Longs | None


@dataclass(slots=True)
class _Recorded:
    """Versions as they arise: groups, results, and whether they have rows."""

    owners: list[Longs]
    results: list[list[pa.Array]]
    present: list[npt.NDArray[np.bool_]]

    def add(self, shape: GroupShape, of: Longs, values: GroupValues) -> Longs:
        """Those of some groups. Gives their numbers."""
        known = sum(map(len, self.owners))
        self.owners.append(of)
        self.results.append(shape.accumulators.result_columns(values))
        self.present.append((values.rows > 0) | shape.always)
        return np.arange(known, known + len(of))


class GroupVersions:
    """Advances the groups of a state between the watermarks of a run."""

    def __init__(self, shape: GroupShape, states: GroupStates, marks: Marks) -> None:
        self._shape = shape
        self._accumulators = shape.accumulators
        self._states = states
        self._marks = marks

        self._looking_up = Lock()

    def pieces(self, part: KeyPart, sums: PartialSums, groups_max: int) -> Iterator[tuple[KeyPart, PartialSums]]:
        """A part, or parts of it where it has many groups with those that close."""
        last = self._marks.last
        closing = 0
        if self._shape.end_column is not None and last is not None:
            with self._looking_up:
                closing = self._states.groups.closing(above_us=self._marks.before_us, to_us=last) // part.count
        for piece in part.divided(1 + (len(sums.keys) + closing) // max(groups_max, 1)):
            yield piece, sums if piece is part else sums.of_part(piece)

    def advanced(self, part: KeyPart, sums: PartialSums) -> Advanced:
        """What the sums of a part of the keys do; threads may take different parts.

        Raises InvalidData where a result overflows.
        """
        # Files are not made to be read by several threads at the same time.
        with self._looking_up:
            work = self._work(part, sums)
        events = self._events(work, sums)
        versions, before, after = self._play(work, sums, events)
        groups, values = self._kept(work, sums)
        unmatched = int((work.values.rows[: len(sums.keys)] < 0).sum())
        if unmatched and not self._shape.always:
            _log.warning(
                "%d groups have more rows withdrawn than added: they are not given until these come", unmatched
            )
        told = np.nonzero(after >= 0)[0]
        rows, row_of = self._rows(work, versions)
        owners = events[told, 0]
        return Advanced(
            Versions(
                rows,
                np.where(before[told] >= 0, row_of[np.maximum(before[told], 0)], -1),
                row_of[after[told]],
                events[told, 1],
                work.keys.take(pa.array(owners)),
                None if work.ends is None else work.ends[owners],
            ),
            groups,
            values,
        )

    def _closing_in(self, part: KeyPart) -> Longs:
        """Positions of the groups of a part that the watermark closes."""
        last = self._marks.last
        if self._shape.end_column is None or last is None:
            return np.zeros(0, dtype=np.int64)
        above_us = self._marks.before_us
        return self._states.groups.between(self._shape.end_column, above_us=above_us, to_us=last, part=part)

    def _work(self, part: KeyPart, sums: PartialSums) -> _Work:
        state = self._states.groups
        found = state.find(sums.keys)
        closing = np.setdiff1d(self._closing_in(part), found)
        closing_keys, closing_columns = state.keys(closing)
        keys = pa.concat_arrays([sums.keys, closing_keys])
        columns = {name: pa.concat_arrays([sums.key_columns[name], closing_columns[name]]) for name in sums.key_columns}
        positions = np.concatenate([found, closing])
        values = self._accumulators.zeros(len(keys))
        known = np.nonzero(positions >= 0)[0]
        values.add_at(known, state.values(positions[known], self._accumulators))
        for at, own in self._states.values.items():
            change, statistic = _values(sums, at), values.statistics[at]
            if isinstance(statistic, Extremes):
                own.look_up(statistic, keys, sums.groups, change)
            elif isinstance(statistic, Distinct):
                asked = merge_values(sums.groups[change.groups], change.values, np.ones_like(change.counts))
                statistic.look_at(own.counted(keys, Values(len(keys), *asked)))
            elif isinstance(statistic, Ranked):
                look_up(own, statistic, keys, sums.groups, change)
        ends = None if self._shape.end_column is None else times(columns[self._shape.end_column])
        return _Work(keys, columns, positions, values, ends)

    def _events(self, work: _Work, sums: PartialSums) -> npt.NDArray[np.int64]:
        """Sums, and closes that no row comes with, sorted.

        Each is (group, step, position in the sums or -1).
        """
        rows = np.stack([sums.groups, sums.steps, np.arange(len(sums.groups))], axis=1)
        if work.ends is None:
            return rows
        closing = closing_steps(work.ends, self._marks)
        candidates = np.nonzero((work.state >= 0) & (closing >= 0) & (closing < len(self._marks.after_us)))[0]
        steps = len(self._marks.after_us) + 1
        told = sums.groups * steps + sums.steps
        bare = candidates[~np.isin(candidates * steps + closing[candidates], told)]
        if not len(bare):
            return rows
        events = np.concatenate([rows, np.stack([bare, closing[bare], np.full(len(bare), -1)], axis=1)])
        return events[order_by(events[:, 0], events[:, 1])]

    def _play(self, work: _Work, sums: PartialSums, events: npt.NDArray[np.int64]) -> tuple[_Recorded, Longs, Longs]:
        """All versions, and for each event those before and after (-1: none or open)."""
        groups, steps, sources = events[:, 0], events[:, 1], events[:, 2]
        final = steps < max(len(self._marks.after_us), 1)
        versions = _Recorded([], [], [])
        version_after = np.full(len(events), -1, dtype=np.int64)
        latest = np.full(len(work.keys), -1, dtype=np.int64)
        version_before = np.full(len(events), -1, dtype=np.int64)

        def record(of: Longs) -> Longs:
            try:
                latest[of] = versions.add(self._shape, of, work.values.take(of))
            except GroupOverflows as error:
                raise error.told(self._group(work, int(of[error.at]))) from error
            return latest[of]

        record(self.final_before(work, groups[run_starts(groups)]))
        for chosen in _rounds(groups):
            added = chosen[sources[chosen] >= 0]
            work.values.add_at(groups[added], sums.values.take(sources[added]))
            shown = chosen[final[chosen]]
            version_before[shown] = latest[groups[shown]]
            version_after[shown] = record(groups[shown])
        return versions, version_before, version_after

    def _group(self, work: _Work, at: int) -> str:
        """Which group it is, for a message; nothing for the only one."""
        keys = {name: column.slice(at, 1) for name, column in work.key_columns.items()}
        named = [f"{each.label} = {shown_value(each.shown(keys)[0])}" for each in self._shape.columns if each.label]
        return f" in the group ({', '.join(named)})" if named else ""

    def final_before(self, work: _Work, touched: Longs) -> Longs:
        """Touched groups whose row has been shown before this run."""
        known = touched[work.state[touched] >= 0]
        if work.ends is None:
            return known
        return known[work.ends[known] <= (ALWAYS if self._marks.before_us is None else self._marks.before_us)]

    def _rows(self, work: _Work, versions: _Recorded) -> tuple[pa.Table, Longs]:
        """Keys and results of versions, and each one's row, if it has input rows."""
        owners, present = np.concatenate(versions.owners), np.concatenate(versions.present)
        there = np.nonzero(present)[0]
        row_of = np.full(len(owners), -1, dtype=np.int64)
        row_of[there] = np.arange(len(there))
        results = [
            pa.concat_arrays([part[index] for part in versions.results]).take(pa.array(there))
            for index in range(len(self._accumulators.results))
        ]
        at = pa.array(owners[there])
        keys = {name: column.take(at) for name, column in work.key_columns.items()}
        arrays = [*(column.shown(keys) for column in self._shape.columns), *results]
        return pa.Table.from_arrays(arrays, names=list(self._shape.names)), row_of

    def _kept(self, work: _Work, sums: PartialSums) -> tuple[Run, dict[int, Run]]:
        touched = len(sums.keys)
        at = np.arange(touched, dtype=np.int64)
        keys = work.keys.slice(0, touched)
        columns = {name: column.slice(0, touched) for name, column in work.key_columns.items()}
        known, always = work.state[:touched] >= 0, self._shape.always
        groups = self._states.groups.as_run(keys, columns, work.values.take(at), known=known, always=always)
        ends = None if work.ends is None else work.ends[:touched]
        values: dict[int, Run] = {}
        for place, own in self._states.values.items():
            change = _values(sums, place)
            if len(sums.groups) > touched:
                # A group has values of several steps.
                change = Values(touched, *merge_values(sums.groups[change.groups], change.values, change.counts))
            values[place] = own.as_run(keys, ends, change)
        return groups, values


def _values(sums: PartialSums, statistic: int) -> Values:
    found = multiset_of(sums.values.statistics[statistic])
    assert found is not None
    return found


def _rounds(groups: Longs) -> Iterator[Longs]:
    """Positions of the first entry of every group, then of the second, and so on.

    Groups are sorted.
    """
    starts = run_starts(groups)
    lengths = np.diff(np.append(starts, len(groups)))
    ranks = np.arange(len(groups)) - np.repeat(starts, lengths)
    order = stable_order(ranks)
    bounds = np.searchsorted(ranks[order], np.arange(int(lengths.max(initial=0)) + 1))
    for begin, end in pairwise(bounds):
        yield order[begin:end]
