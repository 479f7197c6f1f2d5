"""A transaction of a staged query: each step runs through all stages.

Owns cutting a transaction into steps, and what goes from stage to stage. Invariant: without time the whole transaction is one step,
for only its net result is written. A timed query with one input runs block by block, so that the sequence of its records does not
depend on where transactions begin, and so does a single GROUP BY over several inputs (`streamed_aggregate`); of other queries with
several inputs only the net result is promised. Source: docs/engine.md#steps-and-slicing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from threading import Lock

import numpy as np
import pyarrow as pa

from odfabric.formats.slices.canonical_rows import one_array
from odfabric.model.engine import TransformRequestInput
from odfabric.model.instant import Instant
from odfabric_engine_spark.arrays.array_types import Longs
from odfabric_engine_spark.compile.staged_query import StagedQuery
from odfabric_engine_spark.execute.output_records import records
from odfabric_engine_spark.execute.output_watermark import open_group_from
from odfabric_engine_spark.execute.parallel_stages import StageWork, computed_stages
from odfabric_engine_spark.operators.aggregate.accumulators.aggregate_functions import Accumulators
from odfabric_engine_spark.operators.aggregate.aggregate_run import values_name
from odfabric_engine_spark.operators.aggregate.aggregate_stage import GroupRun
from odfabric_engine_spark.operators.aggregate.group_state import GroupState, stored_groups
from odfabric_engine_spark.operators.aggregate.group_versions import GroupShape, GroupStates
from odfabric_engine_spark.operators.aggregate.streamed_aggregate import StreamedAggregate
from odfabric_engine_spark.operators.aggregate.value_state import ValueState
from odfabric_engine_spark.operators.expiry.earliest_open_time import OpenTimes
from odfabric_engine_spark.operators.expiry.expired_rows import Bounds
from odfabric_engine_spark.operators.expiry.open_windows import open_windows_from, session_gaps_us
from odfabric_engine_spark.operators.keyed_recompute.recompute_run import RowsRun, Watermarks
from odfabric_engine_spark.operators.row_wise.weighted_mapping import run_linear
from odfabric_engine_spark.operators.session.open_sessions import open_sessions_from
from odfabric_engine_spark.operators.touched_keys.before_and_after import constant_rows
from odfabric_engine_spark.plan.column_lineage import Scan
from odfabric_engine_spark.plan.input_tables import InputTable
from odfabric_engine_spark.plan.partitioning.partition_keys import StageScan
from odfabric_engine_spark.plan.partitioning.stages import GroupStage, LinearStage, RowsStage, Stage
from odfabric_engine_spark.rows.block_steps import Step, Timeline, micros
from odfabric_engine_spark.rows.change_records import Records
from odfabric_engine_spark.rows.delta import Delta
from odfabric_engine_spark.rows.input_scan import ScanRows, weights_of
from odfabric_engine_spark.rows.output_shape import OutputShape, as_output
from odfabric_engine_spark.rows.retractions_before_inserts import WithdrawnRows, log_unmatched_retractions
from odfabric_engine_spark.rows.row_mapping import RowMapping
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.calls.memory_limit import TransactionSize
from odfabric_engine_spark.spark.catalyst.plan_nodes import expr_id
from odfabric_engine_spark.state.checkpoint import StoredCheckpoint
from odfabric_engine_spark.state.row_state import RowState
from odfabric_engine_spark.state.stored_runs import StateToStore, StateWork

_NANOS_PER_MICRO = 1_000


class StageStates:
    """Where stages find what earlier transactions have left.

    `opened` are all that were asked for.
    """

    def __init__(self, checkpoint: StoredCheckpoint | None, work: StateWork) -> None:
        self._checkpoint = checkpoint
        self._work = work
        self.opened: dict[str, RowState] = {}

    def rows(self, name: str, schema: pa.Schema, *, timed: bool) -> RowState:
        """The rows of a scan."""
        self.opened[name] = self._rows(name, schema, timed=timed)
        return self.opened[name]

    def _rows(self, name: str, schema: pa.Schema, *, timed: bool) -> RowState:
        if self._checkpoint is None:
            return RowState(schema, timed=timed, work=self._work)
        return self._checkpoint.rows(name, schema, timed=timed, work=self._work)

    def of_groups(self, name: str, shape: GroupShape) -> GroupStates:
        """Groups, and the values that are kept beside them."""
        timed = shape.end_column is not None
        values = {
            at: ValueState(
                statistic, self._rows(values_name(name, statistic), ValueState.schema(statistic), timed=timed)
            )
            for at, statistic in shape.accumulators.values_statistics.items()
        }
        return GroupStates(self._groups(name, shape), values)

    def _groups(self, name: str, shape: GroupShape) -> GroupState:
        schema, names, end_column = shape.state_schema, shape.key_names, shape.end_column
        if self._checkpoint is None:
            return GroupState(schema, names, end_column=end_column, work=self._work)
        return stored_groups(self._checkpoint, name, schema, names, end_column=end_column, work=self._work)


@dataclass(frozen=True, slots=True)
class _Run:
    """Steps that are taken together, and the watermarks around them."""

    steps: tuple[Step, ...]
    marks: Watermarks


@dataclass(slots=True)
class _InHand:
    """What a run has in hand so far."""

    size: TransactionSize
    bytes: int = 0

    def add(self, rows: pa.Table) -> None:
        """More rows. Raises LimitExceeded if they are too many."""
        self.bytes += rows.nbytes
        self.size.check(self.bytes)


class StagedTransaction:
    """One transaction over the states of the previous one."""

    def __init__(
        self,
        query: StagedQuery,
        shape: OutputShape,
        states: StageStates,
        *,
        tables: Mapping[str, InputTable],
        inputs: Sequence[TransformRequestInput],
        size: TransactionSize,
        call: EngineCall,
        consolidated: bool,
        first: bool,
    ) -> None:
        self._query = query
        self._shape = shape
        self._tables = tables
        self._inputs = inputs
        self._size = size
        self._call = call
        self._first = first
        self._scans = _input_scans(query)
        self._rows = ScanRows(
            [Scan(position, str(scan.source), _names(scan)) for position, scan in enumerate(self._scans)],
            [frozenset(scan.column_names) for scan in self._scans],
            tables=tables,
            inputs=inputs,
            call=call,
            consolidated=consolidated,
        )
        self._dropped: dict[str, list[Longs]] = defaultdict(list)
        self._withdrawn: dict[StageScan, WithdrawnRows] = {}
        self._states = states
        self._alone = Lock()
        self._runs = [self._run_of(number, states) for number in range(len(query.stages))]
        self._streamed = self._streamed_aggregate()

    @property
    def states(self) -> dict[str, StateToStore]:
        """All states after the transaction."""
        found: dict[str, StateToStore] = dict(self._states.opened)
        for number, run in enumerate(self._runs):
            if isinstance(run, GroupRun):
                found |= run.states(groups_name(self._query, number))
        return found

    @property
    def late_rows_dropped(self) -> int:
        """How many rows of the inputs came too late for some place that reads them."""
        if self._streamed is not None:
            return self._streamed.late_rows_dropped
        return sum(len(np.unique(np.concatenate(offsets))) for offsets in self._dropped.values())

    def records(self, line: Timeline) -> Generator[Records]:
        """The records of all steps in order.

        Raises InvalidData, LimitExceeded, what Spark raises on an expression.
        """
        if self._streamed is not None:
            for found in self._streamed.records(line):
                yield self._named(found)
            return
        runs = list(self._cut(line))
        for done, run in enumerate(runs):
            self._call.progress("stages", done, len(runs))
            yield self._advance(run)
            self._first = False
            self._expire(run.marks)
        for running in self._rows_runs:
            running.stored()

    def close(self) -> None:
        """Nothing of it runs any more, whatever became of it."""
        for running in self._rows_runs:
            running.close()

    @property
    def _rows_runs(self) -> list[RowsRun]:
        return [running for running in self._runs if isinstance(running, RowsRun)]

    def _expire(self, marks: Watermarks) -> None:
        """What no row can need that is taken from now on."""
        lateness = self._query.lateness
        if lateness is None or marks.after_us is None:
            return
        before_us = None if marks.before_us is None else lateness.bound_us(marks.before_us)
        bounds = Bounds(before_us, lateness.bound_us(marks.after_us))
        for number, rules in lateness.expires.items():
            running = self._runs[number]
            if not isinstance(running, RowMapping):
                running.expire(rules, bounds)

    def open_from(self, watermark: Instant | None) -> Instant | None:
        """The least event time of a row that still waits for the watermark."""
        at_us = micros(watermark)
        if at_us is None or watermark is None or not self._query.timed:
            return watermark
        streamed = self._query.streamed
        if streamed is not None:
            return open_group_from(streamed, self._shape.vocabulary.event_time, watermark)
        catalyst, plan = self._query.catalyst, self._query.plan
        starts = [open_windows_from(catalyst, plan, at_us), at_us - self._query.longest_wait_us]
        for gap_us in session_gaps_us(catalyst, plan):
            first_us = self._open_sessions(gap_us, at_us)
            starts += [] if first_us is None else [first_us]
        event_time = self._query.columns[self._event_time_at()]
        if expr_id(event_time) in self._query.followed:
            of_plan = OpenTimes(catalyst, self._query.times, at_us, self._open_sessions)
            least_us = of_plan.least_us(event_time, plan)
            starts += [] if least_us is None else [least_us]
        return min(watermark, Instant(min(starts) * _NANOS_PER_MICRO))

    def _open_sessions(self, gap_us: int, at_us: int) -> int | None:
        states = [state for state in self._states.opened.values() if state.timed]
        starts = [open_sessions_from(state, gap_us, at_us) for state in states]
        return min((each for each in starts if each is not None), default=None)

    def _cut(self, line: Timeline) -> Iterator[_Run]:
        """Steps that run by themselves, or the whole transaction."""
        if not self._query.timed or len(self._inputs) > 1 or not line.steps:
            after_us = line.steps[-1].after_us if line.steps else line.before_us
            yield _Run(line.steps, Watermarks(line.before_us, after_us))
            return
        before_us = line.before_us
        for step in line.steps:
            yield _Run((step,), Watermarks(before_us, step.after_us))
            before_us = step.after_us

    def _advance(self, run: _Run) -> Records:
        in_hand = _InHand(self._size)
        last = len(self._runs) - 1
        output = self._runs[last]

        def deltas_of(number: int, done: Sequence[Delta | None]) -> list[Delta]:
            return [self._delta(scan, run, done, in_hand) for scan in self._query.stages[number].scans]

        def begin(number: int, done: Sequence[Delta | None]) -> StageWork:
            deltas = deltas_of(number, done)
            return StageWork(sum(map(len, deltas)), partial(self._changes, number, deltas, run.marks))

        # The records of groups at the end are reported in an order of their own.
        stages = self._query.stages[:last] if isinstance(output, GroupRun) else self._query.stages
        done = computed_stages(
            self._call, [_needs(stage) for stage in stages], begin, lambda found: in_hand.add(found.rows)
        )
        for running in self._rows_runs:
            for scan, rows in running.unmatched:
                log_unmatched_retractions(str(scan.source), rows, self._withdrawn.get(scan))
        if isinstance(output, GroupRun):
            return self._named(output.records(deltas_of(last, done), run.marks, first=self._first))
        result = done[-1]
        identity = one_array(result.rows.column(len(self._query.columns))) if self._query.has_identity else None
        return records(self._as_output(result.rows), result.weights, identity, self._shape.vocabulary.event_time)

    def _changes(self, number: int, deltas: list[Delta], marks: Watermarks) -> Delta:
        """What the result of a stage changes by."""
        running = self._runs[number]
        if isinstance(running, GroupRun):
            return running.changes(deltas, marks, first=self._first)
        if isinstance(running, RowsRun):
            return running.apply(deltas, marks, first=self._first)
        return run_linear(running, deltas, self._call, self._size)

    def _named(self, found: Records) -> Records:
        """Records of groups under the names of the output."""
        return Records(found.operations, self._as_output(found.source), found.places)

    def _as_output(self, rows: pa.Table) -> pa.Table:
        """Columns under their names; a column of identities is left behind."""
        names = self._query.column_names
        return as_output(pa.Table.from_arrays(rows.columns[: len(names)], names=names), self._shape.rows)

    def _delta(self, scan: StageScan, run: _Run, done: Sequence[Delta | None], in_hand: _InHand) -> Delta:
        if scan.kind == "stage":
            found = done[int(scan.source)]
            assert found is not None
            return found
        if scan.kind == "input":
            return self._new_rows_without_late(scan, run, in_hand)
        if not self._first:
            return Delta.none(scan.schema)
        rows = constant_rows(self._query.catalyst, scan)
        return Delta.of(rows.columns, np.ones(rows.num_rows, dtype=np.int64))

    def _new_rows_without_late(self, scan: StageScan, run: _Run, in_hand: _InHand) -> Delta:
        """Rows of an input in a run that are not late, by the columns of the scan."""
        position = self._scans.index(scan)
        steps = self._own_steps(scan, run)
        if not steps:
            return Delta.none(scan.schema)
        parts = [list(self._step_rows(position, step, in_hand)) for step in steps]
        system, own = self._tables[str(scan.source)].vocabulary, scan.column_names
        needed = list(dict.fromkeys([*own, system.operation_type, system.offset]))
        table = self._rows.together(position, [piece for pieces in parts for piece in pieces], needed)
        weights = weights_of(one_array(table.column(system.operation_type)).to_numpy()).astype(np.int64)
        delta = Delta.of([one_array(table.column(name)) for name in own], weights)
        offsets = one_array(table.column(system.offset)).to_numpy()
        self._withdrawn[scan] = WithdrawnRows.of(delta, offsets)
        if self._query.lateness is None:
            return delta
        bounds = np.array([self._query.lateness.bound_us(step.own_before_us) for step in steps], dtype=np.int64)
        late = self._query.lateness.late(
            scan, delta.rows, np.repeat(bounds, [sum(piece.num_rows for piece in pieces) for pieces in parts])
        )
        if late.any():
            self._dropped[str(scan.source)].append(offsets[late])
        return delta.take(np.nonzero(~late)[0])

    def _step_rows(self, position: int, step: Step, in_hand: _InHand) -> Iterator[pa.Table]:
        """What a step brings to a scan, in pieces."""
        bytes_max = self._call.settings.transform_piece_bytes
        for piece in self._rows.pieces(position, rows_max=len(step.offsets), bytes_max=bytes_max, offsets=step.offsets):
            in_hand.add(piece)
            yield piece

    def _own_steps(self, scan: StageScan, run: _Run) -> list[Step]:
        """Those of a scan's input that have rows."""
        own = next(position for position, one in enumerate(self._inputs) if one.query_alias == scan.source)
        return [step for step in run.steps if step.input == own and len(step.offsets)]

    def _run_of(self, number: int, states: StageStates) -> RowMapping | RowsRun | GroupRun:
        stage = self._query.stages[number]
        if isinstance(stage, GroupStage):
            plan = self._query.groups[number]
            groups = states.of_groups(groups_name(self._query, number), plan.shape)
            is_last = number == len(self._query.stages) - 1
            order_by = self._event_time_column() if is_last else None
            output = self._output_by_position() if is_last else None
            return GroupRun(plan, groups, self._call, size=self._size, order_by=order_by, output=output)
        if isinstance(stage, LinearStage):
            return self._query.linear[number]
        rows = self._query.rows[number]
        found = [
            states.rows(rows_name(number, at), rows.kept_schema(scan), timed=bool(scan.ends))
            if scan in rows.kept
            else None
            for at, scan in enumerate(stage.scans)
        ]
        return RowsRun(rows, found, self._call, self._size, self._alone)

    def _streamed_aggregate(self) -> StreamedAggregate | None:
        """How the only stage is fed, if its inputs are read piece by piece."""
        plan, run = self._query.streamed, self._runs[-1]
        if plan is None or not isinstance(run, GroupRun):
            return None
        lateness = self._query.lateness
        return StreamedAggregate(
            plan,
            run.aggregate,
            self._rows,
            lateness_us=None if lateness is None else lateness.limit_us,
            tables=self._tables,
            inputs=self._inputs,
            size=self._size,
            call=self._call,
        )

    def _output_by_position(self) -> pa.Schema:
        """The columns of the output in its types, as relations between stages know them."""
        rows = self._shape.rows
        names = enumerate(self._query.column_names)
        return pa.schema([rows.field(name).with_name(f"c{index}") for index, name in names])

    def _event_time_column(self) -> str:
        return f"c{self._event_time_at()}"

    def _event_time_at(self) -> int:
        return self._query.column_names.index(self._shape.vocabulary.event_time)


def rows_name(stage: int, scan: int) -> str:
    """The name of a state of rows."""
    return f"stage{stage}.leaf{scan}"


def groups_name(query: StagedQuery, stage: int) -> str:
    """The name of a state of groups; a streamed aggregate has no other state."""
    return "groups" if query.streamed is not None else f"stage{stage}.groups"


def state_columns(query: StagedQuery) -> list[str]:
    """Columns of a query's states, to recognise another query's checkpoint."""
    found: list[str] = []
    for number, stage in enumerate(query.stages):
        if isinstance(stage, GroupStage):
            name, shape = groups_name(query, number), query.groups[number].shape
            listed = [f"{name}: {shape.state_schema}"] if query.streamed is None else list(map(str, shape.state_schema))
            found += [*listed, *value_columns(name, shape.accumulators)]
        elif isinstance(stage, RowsStage):
            for at, scan in enumerate(stage.scans):
                ends = (" closes" if scan.closes else " final first") if scan.ends else ""
                schema = query.rows[number].kept_schema(scan)
                matched = query.rows[number].keys[scan].matched
                nulls = f" {matched} matched" if matched else ""
                found.append(f"{rows_name(number, at)}: {scan.kind} {scan.source} {schema}{ends}{nulls}")
    return found


def value_columns(groups: str, accumulators: Accumulators) -> list[str]:
    """What the states of values beside groups look like."""
    statistics = accumulators.values_statistics.values()
    return [f"{values_name(groups, statistic)}: {ValueState.schema(statistic)}" for statistic in statistics]


def _input_scans(query: StagedQuery) -> list[StageScan]:
    return [scan for stage in query.stages for scan in stage.scans if scan.kind == "input"]


def _needs(stage: Stage) -> frozenset[int]:
    """The stages that a stage reads."""
    return frozenset(int(scan.source) for scan in stage.scans if scan.kind == "stage")


def _names(scan: StageScan) -> dict[int, str]:
    return dict(zip(map(expr_id, scan.columns), scan.column_names, strict=True))
