"""One run of an aggregate: rows update their groups, changed groups come out.

Owns the way from versions of groups to records: the query's own expressions make rows of them, and each change of a row is reported.
Where groups are many, parts of their keys are taken one after the other. Invariant: the records depend neither on how steps were
cut into runs nor on the order of rows. Not here: what the versions of a group are (`group_versions`), the same by tasks of Spark
(`spark_tasks`). Source: docs/engine.md#late-data-and-finality; docs/engine.md#steps-and-slicing;
docs/engine.md#order-of-the-output; docs/engine.md#row-identity-and-pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from odfabric.formats.slices.canonical_rows import one_array
from odfabric_engine_spark.arrays.array_types import Longs
from odfabric_engine_spark.arrays.ordered_threads import in_turn
from odfabric_engine_spark.operators.aggregate.accumulators.count_and_sum import Multiset
from odfabric_engine_spark.operators.aggregate.group_rows import GROUP_ID, GroupRows
from odfabric_engine_spark.operators.aggregate.group_sums import Marks
from odfabric_engine_spark.operators.aggregate.group_versions import (
    Advanced,
    GroupShape,
    GroupStates,
    GroupVersions,
    Versions,
)
from odfabric_engine_spark.operators.aggregate.partitioned_sums import SumsByPart
from odfabric_engine_spark.rows.change_records import Records, changes
from odfabric_engine_spark.rows.output_shape import as_output
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.state.growing_run import GrowingRun
from odfabric_engine_spark.state.key_range import KeyPart
from odfabric_engine_spark.state.run import Run
from odfabric_engine_spark.state.stored_runs import StateToStore


class AggregateRun:
    """Runs of one query; `states` are what they have left so far."""

    def __init__(
        self,
        shape: GroupShape,
        group_rows: GroupRows,
        states: GroupStates,
        *,
        output_schema: pa.Schema,
        event_time: str | None,
        call: EngineCall,
    ) -> None:
        """Records are sorted by `event_time`, if there is one, then by their keys."""
        self.shape = shape
        self.states = states
        self.group_rows = group_rows
        self.output_schema = output_schema
        self.event_time = event_time
        self._call = call
        self._groups_max = shape.in_hand(call.settings.groups_max)

    def named_states(self, name: str) -> dict[str, StateToStore]:
        """All that is kept, the groups under `name`."""
        values = {values_name(name, each.statistic): each.rows for each in self.states.values.values()}
        return {name: self.states.groups, **values}

    def apply(self, sums: SumsByPart, marks: Marks) -> Records:
        """Adds sums to the groups, and moves the watermark.

        Raises InvalidData, LimitExceeded for more than may be in hand, and what Spark raises on an expression.
        """
        # Parts have no key in common, so what one of them keeps is nothing to the next.
        versions = GroupVersions(self.shape, self.states, marks)
        values = self.grow_values()

        def advanced(part: KeyPart) -> list[Advanced]:
            found = []
            for piece, own in versions.pieces(part, sums.of_part(part), self._groups_max // sums.at_once):
                sums.check()
                found.append(versions.advanced(piece, own))
            return found

        shown: list[Versions] = []
        waiting: list[Versions] = []

        def show() -> None:
            """What waits becomes rows of the output."""
            size = sum(each.rows.nbytes for each in shown)
            shown.append(self._shown(_taken_together(waiting), lambda more: sums.check(size + more)))

        in_hand = 0
        for found in in_turn(advanced, sums.parts(), at_once=sums.at_once):
            for each in found:
                in_hand += each.versions.rows.nbytes + each.versions.keys.nbytes
                sums.check(in_hand)
                self.add_groups(each.groups)
                for at, run in each.values.items():
                    values[at].add(run)
                waiting.append(each.versions)
            if sum(each.rows.num_rows for each in waiting) >= self._groups_max:
                show()
        self.add_values(values)
        if waiting:
            show()
        return self._records(_taken_together(shown))

    def add_groups(self, groups: Run) -> None:
        """Keeps what groups are from now on."""
        self.states = GroupStates(self.states.groups.with_run(groups), self.states.values)

    def grow_values(self) -> dict[int, GrowingRun]:
        """Takes what is added to the values of statistics, part of the keys by part.

        `add_values` adds it.
        """
        return {at: each.rows.grow() for at, each in self.states.values.items()}

    def add_values(self, values: Mapping[int, GrowingRun]) -> None:
        """Adds to the values of statistics."""
        for at, grown in values.items():
            self.states.values[at].rows.add_grown(grown)

    def expire_closed(self, to_us: int) -> None:
        """Remove groups that closed at an instant or before.

        Rows for them are dropped from now on.
        """
        if self.shape.end_column is not None:
            kept = self.states.groups.without(self.shape.end_column, to_us=to_us)
            self.states = GroupStates(kept, self.states.values)
            for each in self.states.values.values():
                each.rows.expire_closed(to_us)

    def _shown(self, versions: Versions, check: Callable[[int], None]) -> Versions:
        """The same with rows of the output.

        Where the query's expressions drop a version there is none. `check` raises for too many bytes.
        """
        row_of = np.full(versions.rows.num_rows, -1, dtype=np.int64)
        rows = self.output_schema.empty_table()
        if versions.rows.num_rows:
            numbered = versions.rows.append_column(GROUP_ID, pa.array(np.arange(len(row_of))))
            found = self.group_rows.output(numbered, self._call, check)
            row_of[one_array(found.column(GROUP_ID)).to_numpy()] = np.arange(found.num_rows)
            rows = as_output(found, self.output_schema)
        was, now = (_places(row_of, numbers) for numbers in (versions.was, versions.now))
        return replace(versions, rows=rows, was=was, now=now)

    def _records(self, shown: Versions) -> Records:
        event_times = None if self.event_time is None else one_array(shown.rows.column(self.event_time))

        def order(identities: Longs, leads: Longs) -> pa.Table:
            columns = {"key": shown.keys.take(pa.array(identities))}
            if event_times is not None:
                columns = {"event_time": event_times.take(pa.array(leads)), **columns}
            if shown.ends is None:
                return pa.table(columns)
            return pa.table({"step": shown.steps[identities], "end": shown.ends[identities], **columns})

        return changes(shown.rows, shown.was, shown.now, shown.steps, order)


def _taken_together(parts: list[Versions]) -> Versions:
    """The parts as one; they are let go of, for each may be as large as memory allows."""
    together = Versions.joined(parts)
    parts.clear()
    return together


def values_name(groups: str, statistic: Multiset) -> str:
    """The name of the state of values beside that of its groups."""
    return f"{groups}.{statistic.name}"


def _places(row_of: Longs, numbers: Longs) -> Longs:
    """The row of each version that there is."""
    found = np.full(len(numbers), -1, dtype=np.int64)
    there = numbers >= 0
    found[there] = row_of[numbers[there]]
    return found
