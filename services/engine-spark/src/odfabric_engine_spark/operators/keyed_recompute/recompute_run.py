"""Keyed recompute: the query over the touched keys, before and after.

Owns which keys a transaction touches and which rows are bound. Invariant: rows of all keys that are not touched are the same
before and after, so their part of the result cancels and need not be computed; all rows of a touched key are bound.
Source: docs/engine.md#keys-and-stages; docs/engine.md#the-law-of-transforms; docs/engine.md#window-close;
docs/engine.md#before-and-after.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from odfabric.errors import OdfError
from odfabric_engine_spark.arrays.array_types import Hashes
from odfabric_engine_spark.operators.expiry.expired_rows import Bounds, ExpiredRows
from odfabric_engine_spark.operators.expiry.state_expiry import StageExpiry
from odfabric_engine_spark.operators.keyed_recompute.parallel_parts import PartWork, computed, count_of
from odfabric_engine_spark.operators.keyed_recompute.recompute_plan import RowsPlan
from odfabric_engine_spark.operators.keyed_recompute.spark_tasks import StageTasks, TouchedScan, key_too_large
from odfabric_engine_spark.operators.temporal_join.as_of_state import AskedVersions, asked_versions
from odfabric_engine_spark.operators.touched_keys import partial_read
from odfabric_engine_spark.operators.touched_keys.before_and_after import Side, counted_rows, tagged
from odfabric_engine_spark.operators.touched_keys.extraction import (
    AFTER,
    BEFORE,
    BoundRows,
    first_rows,
    new_rows,
    old_and_new_rows,
)
from odfabric_engine_spark.operators.touched_keys.hash_joins import Size
from odfabric_engine_spark.operators.touched_keys.new_rows import NO_KEYS, Incoming
from odfabric_engine_spark.operators.touched_keys.old_rows import AskedRows, SubplanChange
from odfabric_engine_spark.operators.touched_keys.partial_read import PartialRead
from odfabric_engine_spark.operators.touched_keys.semi_join_pruning import KeysPresent, is_among
from odfabric_engine_spark.plan.partitioning.partition_keys import StageScan, Subplan
from odfabric_engine_spark.rows.delta import Delta, added_up
from odfabric_engine_spark.rows.failing_rows import FailedRows, FewestRows, found_again, is_of_data
from odfabric_engine_spark.rows.row_batches import result_too_large
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.calls.memory_limit import TransactionSize
from odfabric_engine_spark.spark.frames.result_rows import ResultTooLarge, collected
from odfabric_engine_spark.state.key_range import KeyPart
from odfabric_engine_spark.state.row_state import RowState
from odfabric_engine_spark.state.run import CLOSES, HASH, WEIGHT, Run, distinct, hashes_of


@dataclass(frozen=True, slots=True)
class Watermarks:
    """The least watermark of all inputs before and after a step, in microseconds."""

    before_us: int | None
    after_us: int | None


@dataclass(frozen=True)
class _Touched:
    """Keys of a subplan that have to be computed, some more than once.

    Each of `parts` ascends. `closing` are those that the watermark closes.
    """

    parts: tuple[Hashes, ...]
    closing: Mapping[StageScan, Hashes]
    everything: bool

    @property
    def moved(self) -> bool:
        """Whether the watermark closes some."""
        return any(map(len, self.closing.values()))

    @cached_property
    def hashes(self) -> Hashes:
        """They ascending, each once."""
        return distinct(*self.parts)

    def has_several(self, part: KeyPart) -> bool:
        """Whether a part has several of them, so that it can be halved."""
        within = [hashes[part.span(hashes)] for hashes in self.parts]
        ends = [end for hashes in within if len(hashes) for end in (hashes[0], hashes[-1])]
        return bool(ends) and min(ends) < max(ends)


@dataclass(frozen=True, slots=True)
class _Work:
    """A transaction's work on a stage: `rows` and `bytes` that are bound.

    Old rows that touched keys bring along included, about.

    Of new rows, which are `incoming`, those are `bound` that something can come of; `asked` are the old rows of each scan that are looked
    up. `alone` is the only scan with new rows if that helps. `whole`: no partial read of a key will do.
    """

    incoming: dict[StageScan, Incoming]
    touched: list[_Touched]
    bound: dict[StageScan, Incoming]
    asked: dict[StageScan, AskedRows | AskedVersions]
    rows: int
    bytes: int
    alone: StageScan | None
    sides: list[Side]
    whole: bool = False

    def has_several(self, part: KeyPart) -> bool:
        """Whether several keys of some subplan are in a part."""
        return any(each.has_several(part) for each in self.touched)


@dataclass(frozen=True, slots=True)
class _PartChange:
    """What a part of the keys changes, and rows that it withdraws without a match."""

    delta: Delta
    unmatched: list[tuple[StageScan, pa.Table]]


_EVERY_KEY = np.zeros(1, dtype=np.uint64)
"""The key of rows that meet all others."""


class RowsRun:
    """Runs of one stage.

    `states` are the rows of its scans, None for a scan that needs none.
    """

    def __init__(
        self,
        plan: RowsPlan,
        states: Sequence[RowState | None],
        call: EngineCall,
        size: TransactionSize,
        alone: AbstractContextManager[Any],
    ) -> None:
        """Large work is computed within `alone`, shared by a transaction's stages."""
        self._plan = plan
        self._large = alone
        self._stage = plan.stage
        self._states = dict(zip(plan.stage.scans, states, strict=True))
        self._known: dict[StageScan, RowState] = {}
        self._call = call
        self._size = size
        self._storing: Future[Any] | None = None
        self.unmatched: list[tuple[StageScan, pa.Table]] = []
        """Rows that the last change withdraws though they are not there, as far as the engine's own process has looked them up."""

    def apply(self, deltas: Sequence[Delta], marks: Watermarks, *, first: bool) -> Delta:
        """What the result changes by; equal rows may come more than once.

        Until `stored` the states lag behind.

        `first`: there was no transaction before, so nothing has been given yet.
        Raises LimitExceeded; what Spark raises on an expression passes through.
        """
        self.unmatched = []
        if first and self._withdraws(deltas):
            # Rows that no state owes are reported as they come. Before them there is what a query has over nothing.
            nothing = [delta.take(np.zeros(0, dtype=np.int64)) for delta in deltas]
            begun = self._applied(nothing, Watermarks(None, None), first=True)
            return added_up(Delta.joined([begun, self._applied(deltas, marks, first=False)]))
        return self._applied(deltas, marks, first=first)

    def _withdraws(self, deltas: Sequence[Delta]) -> bool:
        """Whether a scan without a state has fewer of some row."""
        stateless = [delta for scan, delta in zip(self._stage.scans, deltas, strict=True) if self._states[scan] is None]
        return any(bool((delta.weights < 0).any()) for delta in map(added_up, stateless))

    def _applied(self, deltas: Sequence[Delta], marks: Watermarks, *, first: bool) -> Delta:
        self.stored()
        incoming = {scan: self._incoming(scan, delta) for scan, delta in zip(self._stage.scans, deltas, strict=True)}
        self._known = {scan: state for scan, state in self._states.items() if state is not None and state.rows}
        touched = [self._touched(subplan, incoming, marks) for subplan in self._stage.subplans]
        bound, keys = self._needed(incoming, touched)
        rows = sum(len(each.delta) for each in bound.values())
        size = sum(each.delta.rows.nbytes for each in bound.values())
        asked = self._asked(keys, incoming, touched, marks)
        old_rows, old_bytes = self._old(asked)
        work = _Work(
            incoming,
            touched,
            bound,
            asked,
            rows + old_rows,
            size + old_bytes,
            self._alone(incoming, touched, first=first),
            self._sides(marks, first=first),
        )
        rows += sum(len(each.hashes) for each in touched) if self._known else 0
        settings = self._call.settings
        is_large = work.rows > settings.stage_rows_each or work.bytes > settings.stage_bytes_max // settings.cores
        with self._large if is_large else nullcontext():
            return self._within_memory(work, rows)

    def _within_memory(self, work: _Work, rows: int) -> Delta:
        """What the plan gives: of more than so many rows by tasks."""
        settings = self._call.settings
        if rows > settings.stage_rows_max and (settings.stages_by_spark or settings.spark_master):
            with found_again(lambda: self._computed(work)):
                return self._by_tasks(work)
        return self._beside_storing(work)

    def _needed(
        self, incoming: dict[StageScan, Incoming], touched: Sequence[_Touched]
    ) -> tuple[dict[StageScan, Incoming], dict[StageScan, Hashes]]:
        """New rows that can have a result, and the keys by which old rows are looked up.

        The keys are by scan, and those of withdrawn rows are among them.
        """
        present = KeysPresent({scan: each.hashes for scan, each in incoming.items()}, self._known)
        bound, asked = dict(incoming), {}
        for subplan, keys in zip(self._stage.subplans, touched, strict=True):
            for scan in subplan.scans:
                new, semi_joins = incoming[scan], self._plan.semi_joins.get(scan)
                # Of keys that bring no old rows along it does not matter which they are.
                asked[scan] = keys.hashes if self._known else NO_KEYS
                if semi_joins is not None:
                    own = keys.hashes if self._known else distinct(new.hashes)
                    needed = present.with_all(semi_joins, own) | is_among(own, distinct(new.withdrawn))
                    asked[scan] = own[needed] if self._known else NO_KEYS
                    bound[scan] = new.of_keys(own[needed])
                if self._plan.partial_read is not None and new.run is not None:
                    bound[scan] = new.taken(self._plan.partial_read.of_new(new.hashes, new.run.slice(0, len(new.run))))
        return bound, asked

    def _asked(
        self,
        keys: Mapping[StageScan, Hashes],
        incoming: Mapping[StageScan, Incoming],
        touched: Sequence[_Touched],
        marks: Watermarks,
    ) -> dict[StageScan, AskedRows | AskedVersions]:
        """Which old rows of each scan are looked up for some keys."""
        asked: dict[StageScan, AskedRows | AskedVersions] = {}
        for subplan, own in zip(self._stage.subplans, touched, strict=True):
            of_subplan = {scan: incoming[scan] for scan in subplan.scans}
            change = SubplanChange(of_subplan, own.closing, marks.before_us)
            for scan in subplan.scans:
                state, hashes = self._known.get(scan), keys[scan]
                if state is None:
                    asked[scan] = AskedRows.of_keys(hashes, 0)
                elif self._plan.partial_read is not None:
                    counts = self._plan.partial_read.counts(state, hashes, incoming[scan].hashes, incoming[scan].delta)
                    asked[scan] = AskedRows.of_keys(hashes, int(counts.sum()))
                elif own.everything:
                    asked[scan] = AskedRows.of_keys(hashes, int(state.counts(hashes).sum()))
                elif scan not in self._plan.versions:
                    many = any(self._count(each, hashes) >= partial_read.LEFT_OUT_MIN for each in scan.joins_versions)
                    asked[scan] = change.asked(scan, state, hashes, self._plan.times, has_many_versions=many)
            for scan in subplan.scans:
                if scan not in asked:
                    asked[scan] = self._asked_versions(scan, keys[scan], incoming, asked)
        return asked

    def _asked_versions(
        self,
        scan: StageScan,
        hashes: Hashes,
        incoming: Mapping[StageScan, Incoming],
        asked: Mapping[StageScan, AskedRows | AskedVersions],
    ) -> AskedRows | AskedVersions:
        assert scan.version_side is not None
        rows: list[tuple[Incoming, AskedRows]] = []
        for each in scan.version_side.by:
            state, old = self._known.get(each), asked[each]
            assert isinstance(old, AskedRows)
            there = np.zeros(len(old.whole), dtype=bool) if state is None else state.counts(old.whole) > 0
            rows.append((incoming[each], replace(old, whole=old.whole[there])))
        return asked_versions(self._plan.versions[scan], self._known[scan], hashes, incoming[scan], rows)

    def _count(self, scan: StageScan, hashes: Hashes) -> int:
        """How many old rows some keys have, if they can be distinguished by their times."""
        state = self._known.get(scan)
        return 0 if state is None or scan not in self._plan.versions else int(state.counts(hashes).sum())

    def _old(self, asked: Mapping[StageScan, AskedRows | AskedVersions]) -> tuple[int, int]:
        """At most how many rows of states are looked up, and about how many bytes."""
        rows, size = 0, 0.0
        for scan, each in asked.items():
            state = self._known.get(scan)
            if state is not None:
                rows, size = rows + each.count, size + each.count * state.bytes / state.rows
        return rows, int(size)

    def _beside_storing(self, work: _Work) -> Delta:
        """What the plan gives, computed while what is to be stored is made ready."""
        beside = ThreadPoolExecutor(1)
        try:
            runs = beside.submit(self._as_runs, work.incoming)
            if not self._known:
                # Nothing is looked up, so rows are stored while Spark computes: of a long history both take as long.
                self._storing = beside.submit(self._add, runs, prepare=True)
                return self._computed(work)
            # States must not have new rows before all old ones have been looked up.
            self._storing = runs
            found = self._computed(work)
            self._storing = beside.submit(self._add, runs, prepare=False)
            return found
        finally:
            beside.shutdown(wait=False)

    def stored(self) -> None:
        """Waits until states have what was applied. Raises what storing it raised."""
        storing, self._storing = self._storing, None
        if storing is not None:
            storing.result()

    def close(self) -> None:
        """Nothing of it runs any more."""
        if self._storing is not None:
            wait([self._storing])

    def _computed(self, work: _Work) -> Delta:
        settings = self._call.settings
        at_once = max(min(settings.cores, work.rows // max(settings.stage_rows_each, 1)), 1)
        # Where there is a row over nothing, each part would have one.
        in_one = self._plan.always
        count = 1 if in_one else count_of(self._call, rows=work.rows, size=work.bytes, at_once=at_once)
        parts = [KeyPart(number, count) for number in range(count)]
        found = computed(
            self._call,
            parts,
            PartWork(
                bind=lambda part: self._bound_rows(part, work),
                compute=lambda part, bound: self._changes(part, bound, work),
                is_divisible=lambda part: self._is_divisible(part, work),
            ),
            at_once=1 if in_one else at_once,
        )
        # However this ends, nothing of it runs afterwards.
        with closing(found):
            return Delta.joined_within((self._noted(each) for each in found), self._size)

    def _noted(self, change: _PartChange) -> Delta:
        self.unmatched += change.unmatched
        return change.delta

    def _by_tasks(self, work: _Work) -> Delta:
        """All keys at once: tasks look up old rows, Spark runs the plan, tasks compare."""
        tasks = StageTasks(self._plan.catalyst, self._call)
        added: dict[StageScan, Run] = {}
        try:
            touched = self._touched_scans(work, tasks, added)
            extracted = tasks.extracted(list(touched.values()))
            known = dict(zip(touched, extracted.sources, strict=True))
            sources = [
                known[scan]
                if scan in known
                else tagged(self._plan.catalyst, new_rows(work.incoming[scan].delta).as_table())
                for scan in self._stage.scans
            ]
            changes = self._plan.bound.changes(sources, work.sides, in_one_task=False)
            found = tasks.changes(changes, rows=max(extracted.rows, work.rows), both_sides=len(work.sides) > 1)
        finally:
            tasks.close()
        for scan, run in added.items():
            state = self._states[scan]
            assert state is not None
            state.add_run(run)
        return found

    def _touched_scans(
        self, work: _Work, tasks: StageTasks, added: dict[StageScan, Run]
    ) -> dict[StageScan, TouchedScan]:
        """What tasks get; what is to be added to states lies in files from then on."""
        touched: dict[StageScan, TouchedScan] = {}
        for subplan, keys in zip(self._stage.subplans, work.touched, strict=True):
            own = tasks.written_keys(keys.hashes)
            for scan in [*subplan.scans, *subplan.wholes]:
                state = self._states[scan]
                if state is None:
                    continue
                self._call.check()
                run = state.in_file(self._as_run(scan, work.incoming[scan], state))
                assert run.file is not None
                added[scan] = run
                touched[scan] = TouchedScan(
                    schema=scan.schema,
                    kept_schema=self._plan.kept_schema(scan),
                    timed=state.timed,
                    dropped_to_us=state.dropped_to_us,
                    old=state.files() if scan in self._known else (),
                    new=run.file,
                    keys=tasks.written_keys(_EVERY_KEY) if scan in subplan.wholes else own,
                    narrow=tasks.written_narrow(_of_rows(work.asked.get(scan))),
                    alone=scan is work.alone,
                )
        return touched

    def _as_runs(self, incoming: dict[StageScan, Incoming]) -> list[tuple[RowState, Run]]:
        """What is to be added to each state."""
        known = [(scan, self._states[scan], each) for scan, each in incoming.items() if len(each.delta)]
        return [(state, self._as_run(scan, each, state)) for scan, state, each in known if state is not None]

    def _as_run(self, scan: StageScan, incoming: Incoming, state: RowState) -> Run:
        """Rows as a state takes them."""
        if incoming.run is not None:
            return incoming.run
        columns = {HASH: pa.array(incoming.hashes), WEIGHT: pa.array(incoming.delta.weights)}
        if state.timed:
            columns[CLOSES] = incoming.closes
        rows = incoming.delta.rows
        own = dict(zip(rows.column_names, rows.columns, strict=True))
        order = self._plan.order_of(scan)
        columns |= own if order is None else order.stored(rows)
        return state.as_run(pa.table(columns))

    def _add(self, runs: Future[list[tuple[RowState, Run]]], *, prepare: bool) -> None:
        for state, run in runs.result():
            state.add_run(run)
        if prepare:
            for each in filter(None, self._states.values()):
                each.prepare()

    def expire(self, rules: StageExpiry, bounds: Bounds) -> None:
        """Remove what nothing can need again.

        Rows that could change it are dropped from now on.
        """
        self.stored()
        ExpiredRows(self._states, self._call.settings.stage_rows_max, self._call.check).expire(rules, bounds)

    def _incoming(self, scan: StageScan, delta: Delta) -> Incoming:
        net = added_up(delta)
        state = self._states[scan]
        if state is None:
            return Incoming(net, NO_KEYS, None)
        # The same types as those of the state, down to what of a struct may be null.
        net = Delta(net.rows.cast(scan.schema), net.weights)
        try:
            hashes, closes = self._plan.keys[scan].evaluate(net.rows)
        except ResultTooLarge:
            raise result_too_large(self._call) from None
        if self._plan.partial_read is not None:
            return Incoming.of_run(self._as_run(scan, Incoming(net, hashes, closes), state), scan.schema.names)
        return Incoming.sorted(net, hashes, closes)

    def _touched(self, subplan: Subplan, incoming: dict[StageScan, Incoming], marks: Watermarks) -> _Touched:
        if any(len(incoming[scan].delta) for scan in subplan.wholes):
            known = [self.all_hashes(scan) for scan in subplan.scans]
            new = [incoming[scan].hashes for scan in subplan.scans]
            return _Touched((*known, *new), {}, everything=True)
        parts = [incoming[scan].hashes for scan in subplan.scans]
        closing = {scan: self.closing_hashes(scan, marks) for scan in subplan.scans}
        if subplan.always:
            parts.append(np.zeros(1, dtype=np.uint64))
        return _Touched((*parts, *closing.values()), closing, everything=False)

    def closing_hashes(self, scan: StageScan, marks: Watermarks) -> Hashes:
        state = self._known.get(scan)
        if not scan.closes or state is None or marks.after_us is None or marks.after_us == marks.before_us:
            return NO_KEYS
        return hashes_of(state.closing(marks.before_us, marks.after_us))

    def all_hashes(self, scan: StageScan) -> Hashes:
        state = self._known.get(scan)
        pieces = () if state is None else state.everything(self._call.settings.stage_rows_max)
        return distinct(*(hashes_of(piece.column(HASH)) for piece in pieces))

    def _alone(
        self, incoming: dict[StageScan, Incoming], touched: Sequence[_Touched], *, first: bool
    ) -> StageScan | None:
        """The only scan with new rows, if each of them is mapped alone.

        Its old rows need not be bound then.
        """
        if first or any(each.moved or each.everything for each in touched):
            return None
        changed = [scan for scan, each in incoming.items() if len(each.delta)]
        return changed[0] if len(changed) == 1 and changed[0].linear and not changed[0].whole else None

    def _sides(self, marks: Watermarks, *, first: bool) -> list[Side]:
        """The plan's rows after the transaction, less those from before."""
        after = Side(BEFORE, 1, marks.after_us)
        return [after] if first else [after, Side(AFTER, -1, marks.before_us)]

    def _bound_rows(self, part: KeyPart, work: _Work) -> list[BoundRows]:
        """Rows of the scans, in their order, for the keys of a part."""
        choice = self._choice(work)
        if choice is not None:
            return [self._partial_read(choice, part, work)]
        bound: dict[StageScan, BoundRows] = {}
        for subplan in self._stage.subplans:
            for scan in subplan.scans:
                new, asked = work.bound[scan].chosen(part), work.asked[scan].chosen(part)
                bound[scan] = self._bound(scan, new, asked, alone=scan is work.alone)
            for scan in subplan.wholes:
                bound[scan] = self._bound(scan, work.incoming[scan], AskedRows.of_keys(_EVERY_KEY, 0), alone=False)
        return [bound[scan] for scan in self._stage.scans]

    def _choice(self, work: _Work) -> PartialRead | None:
        """Which rows of keys are bound, None for all."""
        return self._plan.partial_read if self._known and not work.whole else None

    def _partial_read(self, choice: PartialRead, part: KeyPart, work: _Work) -> BoundRows:
        """Rows of the only scan that are looked at of the keys of a part."""
        ((scan, new),) = work.bound.items()
        state = self._known[scan]
        own = new.chosen(part)
        found = choice.chosen(state, own.hashes, own.delta)
        if not len(found.doubtful):
            return old_and_new_rows(found.old, found.new, alone=False)
        whole = work.incoming[scan]
        all_new = whole.taken(np.nonzero(is_among(whole.hashes, found.doubtful))[0])
        of_whole = Delta(choice.whole(all_new.delta.rows), all_new.delta.weights)
        old = pa.concat_tables([found.old, choice.whole(state.of_keys(pa.array(found.doubtful)))])
        return old_and_new_rows(old, Delta.joined([found.new, of_whole]), alone=False)

    def _is_divisible(self, part: KeyPart, work: _Work) -> bool:
        return not self._plan.always and part.divisible and work.has_several(part)

    def _changes(self, part: KeyPart, bound: Sequence[BoundRows], work: _Work) -> _PartChange:
        """What a part of the keys changes, in one task. Raises LimitExceeded, FailedRows."""
        settings = self._call.settings
        rows, size = sum(map(len, bound)), sum(each.rows.nbytes for each in bound)
        if size > settings.bound_bytes_max:
            raise key_too_large(rows, settings.bound_bytes_max)
        found = Delta.none(self._plan.output_schema)
        if rows or self._plan.always:
            try:
                found = counted_rows(self._results([each.as_table() for each in bound], work))
            except (PySparkException, Py4JError) as error:
                if not is_of_data(error):
                    raise
                choice = self._choice(work)
                if choice is not None and choice.has_edges:
                    # At the edge of a partial read an expression may meet what it never meets in the whole key.
                    whole = replace(work, whole=True)
                    return self._changes(part, self._bound_rows(part, whole), whole)
                raise FailedRows(error, partial(self._failed, error, part, work)) from error
        unmatched = [
            (scan, each.unmatched)
            for scan, each in zip(self._stage.scans, bound, strict=True)
            if each.unmatched is not None
        ]
        return _PartChange(found if len(work.sides) == 1 else added_up(found), unmatched)

    def _results(self, scans: Sequence[pa.Table], work: _Work) -> pa.Table:
        """What the plan gives over rows of the scans.

        Raises ResultTooLarge, and what Spark raises.
        """
        plan = self._plan.bound if self._choice(work) is None else self._plan.bound_partial_read
        few = sum(map(len, scans)) <= self._call.settings.stage_rows_each
        sources = [tagged(self._plan.catalyst, each) for each in scans]
        sizes = [Size(len(each), each.nbytes) for each in scans]
        in_one_task = not self._plan.always or few
        return collected(plan.changes(sources, work.sides, in_one_task=in_one_task, sizes=sizes))

    def _failed(self, error: BaseException, part: KeyPart, work: _Work, check: Callable[[], None]) -> BaseException:
        """A part's failure with the rows to blame; keys are left out first.

        A key fails by itself, whatever the others are.
        """
        scans = [each.as_table() for each in self._bound_rows(part, work)]
        with suppress(OdfError):
            while self._is_divisible(part, work):
                for half in part.divided(2):
                    check()
                    own = [each.as_table() for each in self._bound_rows(half, work)]
                    try:
                        self._results(own, work)
                    except (PySparkException, Py4JError) as again:
                        error, part, scans = again, half, own
                        break
                else:
                    break
        compute = partial(self._results, work=work)
        return FewestRows(error, compute, scans, lambda: self._plan.described, row_wise=False).told(check)

    def _bound(self, scan: StageScan, new: Incoming, asked: AskedRows | AskedVersions, *, alone: bool) -> BoundRows:
        """Old and new rows of a scan.

        Old rows that stay are left out of a scan that is alone.
        """
        if self._states[scan] is None:
            return new_rows(new.delta)
        state = self._known.get(scan)
        if state is None:
            return first_rows(new.delta)
        return asked.bound(state, new, alone=alone)


def _of_rows(asked: AskedRows | AskedVersions | None) -> AskedRows | None:
    """What tasks get of the old rows of a scan: of versions they read whole keys."""
    return asked if isinstance(asked, AskedRows) else None
