"""A GROUP BY over inputs read piece by piece, in runs that fit into memory.

Owns how a query that is one such stage is fed: cutting steps into runs, reading their rows, dropping late ones, and choosing where
the work is done: rows of a run are summed in memory, those of a run that is too large in pieces or by tasks of Spark. Invariant: how
steps are cut changes neither records nor state. Not here: what a run does (`aggregate_run`).
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from odfabric.formats.slices.canonical_rows import one_array
from odfabric.model.engine import TransformRequestInput
from odfabric.model.operation import OperationType
from odfabric_engine_spark.arrays.array_types import ALWAYS, Mask
from odfabric_engine_spark.arrays.ordered_threads import ahead
from odfabric_engine_spark.operators.aggregate.aggregate_plan import GroupPlan
from odfabric_engine_spark.operators.aggregate.aggregate_run import AggregateRun
from odfabric_engine_spark.operators.aggregate.group_sums import STEP, WEIGHT, Marks, times
from odfabric_engine_spark.operators.aggregate.partitioned_sums import SumsByPart
from odfabric_engine_spark.operators.aggregate.spark_tasks import GroupTasks
from odfabric_engine_spark.plan.input_tables import InputTable
from odfabric_engine_spark.rows.block_steps import Step, Timeline
from odfabric_engine_spark.rows.change_records import Records
from odfabric_engine_spark.rows.failing_rows import Check, Described, FailedRows, FewestRows, found_again
from odfabric_engine_spark.rows.input_scan import ScanRows, weights_of
from odfabric_engine_spark.rows.row_batches import in_pieces
from odfabric_engine_spark.rows.slice_reader import read_slices
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.calls.memory_limit import TransactionSize
from odfabric_engine_spark.spark.catalyst.plan_nodes import OWN_PREFIX, Catalyst, analysed

HIDDEN = (pa.field(WEIGHT, pa.int32(), nullable=False), pa.field(STEP, pa.int32(), nullable=False))


@dataclass(frozen=True, slots=True)
class _Run:
    """Consecutive steps that are taken together, and the watermark before them."""

    steps: tuple[Step, ...]
    before_us: int | None

    @property
    def rows(self) -> int:
        """Rows of all inputs."""
        return sum(len(step.offsets) for step in self.steps)

    @property
    def marks(self) -> Marks:
        """As a run takes them."""
        return Marks(self.before_us, tuple(step.after_us for step in self.steps))


@dataclass(slots=True)
class _Piece:
    """Rows aggregated together: those of each scan, with the number of their step."""

    by_scan: list[list[tuple[int, pa.Table]]]
    rows: int = 0
    bytes: int = 0

    def add(self, scan: int, number: int, rows: pa.Table) -> None:
        """More rows of a scan."""
        self.by_scan[scan].append((number, rows))
        self.rows, self.bytes = self.rows + rows.num_rows, self.bytes + rows.nbytes


class StreamedAggregate:
    """The steps of one transaction over the state of the previous one."""

    def __init__(
        self,
        plan: GroupPlan,
        run: AggregateRun,
        rows: ScanRows,
        *,
        lateness_us: int | None,
        tables: Mapping[str, InputTable],
        inputs: Sequence[TransformRequestInput],
        size: TransactionSize,
        call: EngineCall,
    ) -> None:
        """`rows` has the stage's scans; rows may come `lateness_us` late, None: any time."""
        self.run = run
        self.late_rows_dropped = 0
        self._plan = plan
        self._aliases = [str(scan.source) for scan in plan.stage.scans]
        self._columns = [list(scan.column_names) for scan in plan.stage.scans]
        self._rows = rows
        self._lateness_us = lateness_us
        self._tables = tables
        self._inputs = inputs
        self._positions = {one.query_alias: position for position, one in enumerate(inputs)}
        self._size = size
        self._call = call

    def records(self, line: Timeline) -> Generator[Records]:
        """The records of all steps in order.

        Raises InvalidData, and what Spark raises on an expression.
        """
        runs = list(self._runs(line))
        done, total = 0, sum(run.rows for run in runs)
        for run in runs:
            self._call.progress("aggregate", done, total)
            yield from self._applied(run)
            done += run.rows
            last = run.steps[-1].after_us if run.steps else None
            if self._lateness_us is not None and last is not None:
                self.run.expire_closed(last - self._lateness_us)

    def _runs(self, line: Timeline) -> Iterator[_Run]:
        """Without a window steps do not matter, and the transaction is one run."""
        if self._plan.window is None:
            yield _Run(line.steps, line.before_us)
            return
        before_us = line.before_us
        for steps in _portions(line.steps, self._call.settings.transform_rows_in_memory_max):
            yield _Run(steps, before_us)
            before_us = steps[-1].after_us

    def _applied(self, run: _Run) -> Iterator[Records]:
        settings = self._call.settings
        large = run.rows > settings.transform_rows_in_memory_max
        by_tasks = settings.aggregate_by_spark or bool(settings.spark_master)
        # Tasks read slices by themselves, rows that are taken back included.
        if large and by_tasks and not self._rows.consolidated:
            with found_again(lambda: self._mapped(run)):
                yield from GroupTasks(self.run, self._call).applied(self._frame(run), run.marks, rows_max=run.rows)
            return
        sums = SumsByPart(self.run.shape, run.marks, rows=run.rows, size=self._size, call=self._call)
        try:
            pieces = self._pieces(run, sums.at_once)
            # Pieces are added up while the next one is read.
            with closing(pieces), closing(ahead(pieces) if sums.at_once > 1 else pieces) as read:
                sums.add(rows for piece in read for rows in self._rows_in_time(piece, run))
            yield self.run.apply(sums, run.marks)
        finally:
            sums.close()

    def _pieces(self, run: _Run, at_once: int) -> Generator[_Piece]:
        """The rows of a run in at least one piece; `at_once` pieces fit into memory.

        One that is mapped and one that is read.
        """
        settings = self._call.settings
        small = run.rows <= settings.transform_rows_in_memory_max
        rows_max = max(run.rows if small else settings.transform_rows_in_memory_max // (at_once + 2), 1)
        bytes_max = max(settings.transform_piece_bytes // (at_once + 2), 1)
        piece = _Piece([[] for _ in self._aliases])
        for scan, number, rows in self._step_rows(run, rows_max=rows_max, bytes_max=bytes_max):
            if piece.rows and (piece.rows + rows.num_rows > rows_max or piece.bytes + rows.nbytes > bytes_max):
                yield piece
                piece = _Piece([[] for _ in self._aliases])
            piece.add(scan, number, rows)
        yield piece

    def _step_rows(self, run: _Run, *, rows_max: int, bytes_max: int) -> Iterator[tuple[int, int, pa.Table]]:
        """All rows that the steps of a run bring, in portions.

        Each portion is a scan, the number of a step within the run, and some of the rows; they come one after the
        other.
        """
        for number, step in enumerate(run.steps):
            for scan, alias in enumerate(self._aliases):
                if self._positions[alias] == step.input:
                    self._call.check()
                    for rows in self._rows.pieces(scan, rows_max=rows_max, bytes_max=bytes_max, offsets=step.offsets):
                        yield scan, number, rows

    def _mapped(self, run: _Run) -> None:
        """The rows below the aggregate, for what they may raise."""
        for piece in self._pieces(run, 1):
            for _ in self._rows_in_time(piece, run):
                pass

    def _rows_in_time(self, piece: _Piece, run: _Run) -> Iterator[pa.Table]:
        """Rows below the aggregate, but for those that come too late."""
        scans = [self._rows_of(scan, taken) for scan, taken in enumerate(piece.by_scan)]
        try:
            for rows in in_pieces(scans, self._plan.rows.table, self._call, rows_max=piece.rows):
                yield rows if self._lateness_us is None else rows.filter(pa.array(~self._late(rows, run)))
        except FailedRows as failed:
            error = failed.error
            raise FailedRows(error, lambda check: self._failure(piece, error, check)) from error

    def _failure(self, piece: _Piece, error: BaseException, check: Check) -> BaseException:
        """What is reported: the fewest rows that fail.

        With their offsets, which nothing but a report reads.
        """
        scans, described = [], []
        for scan, taken in enumerate(piece.by_scan):
            alias, rows = self._aliases[scan], self._rows_of(scan, taken)
            offset = self._tables[alias].vocabulary.offset
            offsets = self._rows.together(scan, [each for _, each in taken], [offset]).column(0)
            scans.append(rows.add_column(0, f"{OWN_PREFIX}offset", offsets))
            described.append(Described(alias, (offset, *self._columns[scan])))

        def computed(given: Sequence[pa.Table]) -> pa.Table:
            return self._plan.rows.computed([rows.remove_column(0) for rows in given])

        return FewestRows(error, computed, scans, lambda: described, row_wise=True).told(check)

    def _rows_of(self, scan: int, taken: Sequence[tuple[int, pa.Table]]) -> pa.Table:
        """Rows of one scan with their weights and steps."""
        operation = self._tables[self._aliases[scan]].vocabulary.operation_type
        names = [*self._columns[scan], operation]
        table = self._rows.together(scan, [rows for _, rows in taken], names)
        numbers = np.array([number for number, _ in taken], dtype=np.int32)
        steps = np.repeat(numbers, [rows.num_rows for _, rows in taken])
        operations = one_array(table.column(len(names) - 1)).to_numpy()
        weighted = table.remove_column(len(names) - 1).append_column(HIDDEN[0], pa.array(weights_of(operations)))
        return weighted.append_column(HIDDEN[1], pa.array(steps))

    def _late(self, rows: pa.Table, run: _Run) -> Mask:
        """Late rows: their windows closed longer ago than the lateness.

        By what their own input had announced before.
        """
        lateness_us = self._lateness_us or 0
        bounds = [ALWAYS if step.own_before_us is None else step.own_before_us - lateness_us for step in run.steps]
        steps = one_array(rows.column(STEP)).to_numpy()
        late: Mask = times(one_array(rows.column(self.run.shape.end_column))) <= np.array(bounds, dtype=np.int64)[steps]
        self.late_rows_dropped += int(late.sum())
        return late

    def _frame(self, run: _Run) -> DataFrame:
        """Rows below the aggregate as Spark reads them, but for those that come too late."""
        rows = self._plan.rows.frame([self._slices_of(scan, run) for scan in range(len(self._aliases))])
        return rows if self._lateness_us is None else self._without_late(rows, run)

    def _slices_of(self, scan: int, run: _Run) -> DataFrame:
        """Rows of one scan as Spark reads them.

        A timed run of this size is a single step, so the step is 0.
        """
        alias = self._aliases[scan]
        table, one = self._tables[alias], self._inputs[self._positions[alias]]
        ranges = [step.offsets for step in run.steps if step.input == self._positions[alias] and len(step.offsets)]
        begin, end = min((r.begin for r in ranges), default=0), max((r.end for r in ranges), default=0)
        slices = [piece for piece in one.slices if piece.offsets.begin < end and piece.offsets.end > begin]
        offset, operation = F.col(_quoted(table.vocabulary.offset)), F.col(_quoted(table.vocabulary.operation_type))
        added = operation.isin(int(OperationType.APPEND), int(OperationType.CORRECT_TO))
        frame = read_slices(self._call, slices, table.arrow).filter((offset >= begin) & (offset < end))
        own = [F.col(_quoted(name)) for name in self._columns[scan]]
        weighted = frame.select(*own, F.when(added, 1).otherwise(-1).alias(WEIGHT), F.lit(0).alias(STEP))
        return Catalyst(self._plan.catalyst.session).data_frame(analysed(weighted))

    def _without_late(self, rows: DataFrame, run: _Run) -> DataFrame:
        (step,) = run.steps
        if step.own_before_us is None or self._lateness_us is None:
            return rows
        bound = F.timestamp_micros(F.lit(step.own_before_us - self._lateness_us))
        late = F.col(_quoted(self.run.shape.end_column or "")) <= bound
        self.late_rows_dropped += rows.filter(late).count()
        return rows.filter(~late)


def _portions(steps: Iterable[Step], rows_max: int) -> Iterator[tuple[Step, ...]]:
    """Consecutive steps of at most so many rows together, or a single one."""
    waiting: list[Step] = []
    rows = 0
    for step in steps:
        if waiting and rows + len(step.offsets) > rows_max:
            yield tuple(waiting)
            waiting, rows = [], 0
        waiting.append(step)
        rows += len(step.offsets)
    if waiting:
        yield tuple(waiting)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
