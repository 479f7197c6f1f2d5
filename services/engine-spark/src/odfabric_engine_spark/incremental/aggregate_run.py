"""One run of an aggregate: rows of some steps go into their groups, changed groups come out.

Owns the order of things: rows are summed per group and step, part by part of the keys where groups are many, groups pass through their versions step by step, and each change
of a version that is final becomes records. A group without window is final at once; a timed one when the watermark has
passed its end, so what comes before is one version, and what comes later are corrections. Invariant: the records depend
neither on how steps were cut into runs nor on the order of rows. Source: semantics of transforms, section 4; rulings on steps,
pairs and order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from odfabric_engine_spark.incremental.accumulators import Accumulators, GroupValues
from odfabric_engine_spark.incremental.canonical import one_array
from odfabric_engine_spark.incremental.changes import Records, changes
from odfabric_engine_spark.incremental.exact import Longs
from odfabric_engine_spark.incremental.group_keys import GroupColumn
from odfabric_engine_spark.incremental.group_rows import GROUP_ID, GroupRows
from odfabric_engine_spark.incremental.group_state import GroupState
from odfabric_engine_spark.incremental.group_sums import ALWAYS, Marks, PartialSums, closing_steps, times
from odfabric_engine_spark.incremental.number_runs import run_starts
from odfabric_engine_spark.incremental.output import as_output
from odfabric_engine_spark.incremental.slots import Values, ValuesSlot, merge_values
from odfabric_engine_spark.incremental.value_state import ValueState
from odfabric_engine_spark.state.key_part import KeyPart
from odfabric_engine_spark.state.sealing import SealedState


@dataclass(frozen=True, slots=True)
class _Work:
    """Groups in hand. `state` are their positions in the state (-1: new), `ends` when they close (timed only)."""

    keys: pa.Array
    key_columns: dict[str, pa.Array]
    state: Longs
    values: GroupValues
    ends: Longs | None


@dataclass(frozen=True, slots=True)
class _Shown:
    """Changes of groups that are final, one for each group and step: the rows that they had and have (-1: none)."""

    rows: pa.Table
    was: Longs
    now: Longs
    steps: Longs
    keys: pa.Array
    ends: Longs | None

    @classmethod
    def joined(cls, parts: Sequence[_Shown]) -> _Shown:
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
class _Versions:
    """Versions of groups that are final, and the rows that they make (-1: none)."""

    rows: pa.Table
    row_of: Longs


class AggregateRun:
    """Runs of one query; `state` is what they have left so far."""

    def __init__(
        self,
        columns: Sequence[GroupColumn],
        accumulators: Accumulators,
        group_rows: GroupRows,
        state: GroupState,
        values: Mapping[int, ValueState],
        *,
        window: GroupColumn | None,
        output_schema: pa.Schema,
        event_time: str | None,
        groups_max: int,
    ) -> None:
        """About `groups_max` groups are in hand at once, where parts of the keys are as small."""
        self.state = state
        self._groups_max = max(groups_max, 1)
        self._values = values
        self._columns = tuple(columns)
        self._accumulators = accumulators
        self._group_rows = group_rows
        self._window = window
        self._output_schema = output_schema
        self._event_time = event_time

    @property
    def end_column(self) -> str | None:
        """The column of the state that says when a group closes."""
        return end_column_of(self._window)

    def states(self, name: str) -> dict[str, SealedState]:
        """All that is kept, the groups under `name`."""
        return {name: self.state, **{values_name(name, each.slot): each.rows for each in self._values.values()}}

    def apply(self, parts: Iterable[tuple[KeyPart, PartialSums]], marks: Marks) -> Records:
        """Adds the sums of each part of the keys to the groups, and moves the watermark.

        Raises InvalidData, and what Spark raises on an expression.
        """
        shown = [self._advanced(part, sums, marks) for part, sums in self._of_few_groups(parts, marks)]
        return self._records(_Shown.joined(shown))

    def _of_few_groups(
        self, parts: Iterable[tuple[KeyPart, PartialSums]], marks: Marks
    ) -> Iterator[tuple[KeyPart, PartialSums]]:
        """Parts of parts, where many groups close."""
        last = marks.after_us[-1] if marks.after_us and self.end_column is not None else None
        closing = 0 if last is None else self.state.closing(above_us=marks.before_us, to_us=last)
        for part, sums in parts:
            for piece in part.divided(1 + closing // (part.count * self._groups_max)):
                yield piece, sums if piece is part else sums.of_part(piece)

    def _advanced(self, part: KeyPart, sums: PartialSums, marks: Marks) -> _Shown:
        work = self._work(part, sums, marks)
        events = self._events(work, sums, marks)
        versions, before, after = self._play(work, sums, events, marks)
        self._keep(work, sums)
        told = np.nonzero(after >= 0)[0]
        was = np.where(before[told] >= 0, versions.row_of[np.maximum(before[told], 0)], -1)
        groups = events[told, 0]
        return _Shown(
            versions.rows,
            was,
            versions.row_of[after[told]],
            events[told, 1],
            work.keys.take(pa.array(groups)),
            None if work.ends is None else work.ends[groups],
        )

    def drop_closed(self, to_us: int) -> None:
        """Forgets groups that closed at an instant or before: rows for them are dropped from now on."""
        if self.end_column is not None:
            self.state = self.state.without(self.end_column, to_us=to_us)
            for each in self._values.values():
                each.rows.drop_closed(to_us)

    def _closing(self, part: KeyPart, marks: Marks) -> Longs:
        """Positions of the groups of a part that the watermark closes."""
        last = marks.after_us[-1] if marks.after_us else None
        if self.end_column is None or last is None:
            return np.zeros(0, dtype=np.int64)
        return self.state.between(self.end_column, above_us=marks.before_us, to_us=last, part=part)

    def _work(self, part: KeyPart, sums: PartialSums, marks: Marks) -> _Work:
        found = self.state.find(sums.keys)
        closing = np.setdiff1d(self._closing(part, marks), found)
        closing_keys, closing_columns = self.state.keys(closing)
        keys = pa.concat_arrays([sums.keys, closing_keys])
        columns = {name: pa.concat_arrays([sums.key_columns[name], closing_columns[name]]) for name in sums.key_columns}
        positions = np.concatenate([found, closing])
        values = self._accumulators.zeros(len(keys))
        known = np.nonzero(positions >= 0)[0]
        values.add_at(known, self.state.values(positions[known], self._accumulators))
        every = np.arange(len(keys))
        for at, own in self._values.items():
            counts = np.ones(len(keys), dtype=np.int64)
            change = sums.values.slots[at]
            assert isinstance(change, Values)
            np.add.at(counts, sums.groups, change.withdrawn())
            values.slots[at].add_at(every, own.extremes(keys, counts))
        ends = None if self.end_column is None else times(columns[self.end_column])
        return _Work(keys, columns, positions, values, ends)

    def _events(self, work: _Work, sums: PartialSums, marks: Marks) -> npt.NDArray[np.int64]:
        """(group, step, position in the sums or -1), sorted: sums, and closings that no row comes with."""
        rows = np.stack([sums.groups, sums.steps, np.arange(len(sums.groups))], axis=1)
        if work.ends is None:
            return rows
        closing = closing_steps(work.ends, marks)
        candidates = np.nonzero((work.state >= 0) & (closing >= 0) & (closing < len(marks.after_us)))[0]
        covered = set(zip(sums.groups.tolist(), sums.steps.tolist(), strict=True))
        bare = [
            (group, step, -1)
            for group, step in zip(candidates.tolist(), closing[candidates].tolist(), strict=True)
            if (group, step) not in covered
        ]
        events = np.concatenate([rows, np.array(bare, dtype=np.int64).reshape(-1, 3)])
        return events[np.lexsort((events[:, 1], events[:, 0]))]

    def _play(
        self, work: _Work, sums: PartialSums, events: npt.NDArray[np.int64], marks: Marks
    ) -> tuple[_Versions, Longs, Longs]:
        """All versions, and for each event the version before and after it (-1: none, or not final)."""
        groups, steps, sources = events[:, 0], events[:, 1], events[:, 2]
        final = steps < max(len(marks.after_us), 1)
        results: list[list[pa.Array]] = []
        owners: list[Longs] = []
        present: list[npt.NDArray[np.bool_]] = []
        version_after = np.full(len(events), -1, dtype=np.int64)
        latest = np.full(len(work.keys), -1, dtype=np.int64)
        version_before = np.full(len(events), -1, dtype=np.int64)

        def record(of: Longs) -> Longs:
            values = work.values.take(of)
            known = sum(map(len, owners))
            results.append(self._accumulators.result_columns(values))
            owners.append(of)
            present.append(values.rows > 0)
            latest[of] = np.arange(known, known + len(of))
            return latest[of]

        record(self._final_before(work, np.unique(groups), marks))
        for chosen in _rounds(groups):
            added = chosen[sources[chosen] >= 0]
            work.values.add_at(groups[added], sums.values.take(sources[added]))
            shown = chosen[final[chosen]]
            version_before[shown] = latest[groups[shown]]
            version_after[shown] = record(groups[shown])
        versions = self._rows_of(work, results, np.concatenate(owners), np.concatenate(present))
        return versions, version_before, version_after

    def _final_before(self, work: _Work, touched: Longs, marks: Marks) -> Longs:
        """Touched groups whose row has been shown before this run."""
        known = touched[work.state[touched] >= 0]
        if work.ends is None:
            return known
        return known[work.ends[known] <= (ALWAYS if marks.before_us is None else marks.before_us)]

    def _rows_of(
        self, work: _Work, results: list[list[pa.Array]], owners: Longs, present: npt.NDArray[np.bool_]
    ) -> _Versions:
        """The output rows of versions; a group with no rows in it has none."""
        columns = [
            pa.concat_arrays([part[index] for part in results]) for index in range(len(self._accumulators.results))
        ]
        versions = np.nonzero(present)[0]
        row_of = np.full(len(owners), -1, dtype=np.int64)
        if not len(versions):
            return _Versions(self._output_schema.empty_table(), row_of)
        at = pa.array(versions)
        arrays = [*self._keys_as_columns(work, owners[versions]), *(column.take(at) for column in columns), at]
        names = [*self._group_rows.key_names, *self._group_rows.result_names, GROUP_ID]
        rows = self._group_rows.output(pa.Table.from_arrays(arrays, names=names))
        row_of[one_array(rows.column(GROUP_ID)).to_numpy()] = np.arange(rows.num_rows)
        return _Versions(as_output(rows, self._output_schema), row_of)

    def _keys_as_columns(self, work: _Work, owners: Longs) -> list[pa.Array]:
        """Keys as the query sees them: a window is a struct."""
        at = pa.array(owners)
        found: list[pa.Array] = []
        for column in self._columns:
            arrays = [work.key_columns[field.name].take(at) for field in column.fields]
            if column.is_window:
                found.append(pa.StructArray.from_arrays(arrays, fields=list(column.arrow)))
            else:
                found.append(arrays[0])
        return found

    def _records(self, shown: _Shown) -> Records:
        event_times = None if self._event_time is None else one_array(shown.rows.column(self._event_time))

        def order(identities: Longs, leads: Longs) -> pa.Table:
            columns = {"key": shown.keys.take(pa.array(identities))}
            if event_times is not None:
                columns = {"event_time": event_times.take(pa.array(leads)), **columns}
            if shown.ends is None:
                return pa.table(columns)
            return pa.table({"step": shown.steps[identities], "end": shown.ends[identities], **columns})

        return changes(shown.rows, shown.was, shown.now, shown.steps, order)

    def _keep(self, work: _Work, sums: PartialSums) -> None:
        touched = len(sums.keys)
        at = np.arange(touched, dtype=np.int64)
        keys = work.keys.slice(0, touched)
        columns = {name: column.slice(0, touched) for name, column in work.key_columns.items()}
        self.state = self.state.replaced(keys, columns, work.values.take(at), known=work.state[:touched] >= 0)
        ends = None if work.ends is None else work.ends[:touched]
        for place, own in self._values.items():
            change = sums.values.slots[place]
            assert isinstance(change, Values)
            # A group may have values of several steps.
            merged = merge_values(sums.groups[change.groups], change.values, change.counts)
            own.add(keys, ends, Values(touched, *merged))


def values_name(groups: str, slot: ValuesSlot) -> str:
    """The name of the state of values beside that of its groups."""
    return f"{groups}.{slot.name}"


def end_column_of(window: GroupColumn | None) -> str | None:
    """The physical column of a window's end."""
    return None if window is None else f"{window.name}_end"


def _rounds(groups: Longs) -> Iterator[Longs]:
    """Positions of the first entry of every group, then of the second, and so on; groups are sorted."""
    starts = run_starts(groups)
    lengths = np.diff(np.append(starts, len(groups)))
    ranks = np.arange(len(groups)) - np.repeat(starts, lengths)
    order = np.argsort(ranks, kind="stable")
    bounds = np.searchsorted(ranks[order], np.arange(int(lengths.max(initial=0)) + 1))
    for begin, end in pairwise(bounds):
        yield order[begin:end]
