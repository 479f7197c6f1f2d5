"""Trace records through datasets to their roots, breadth first.

Invariants: each record is visited once; one derivation explains all records of a level that share block and side; what made a block write a
record is asked of the records asked for, and of what made that, for each costs runs of the query; every branch that goes no further says why; a
caller learns of datasets that they may not read nothing but how many records there are. Not here: what one derivation
is (`usecases.provenance.derive_provenance`), the answer as JSON (`usecases.provenance.provenance_document`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from odfabric.domain.chain.walk import ChainLink
from odfabric.domain.provenance.place_in_source import PlaceInSource
from odfabric.domain.provenance.trace import EndReason, Frontier, Group, RecordRef, grouped
from odfabric.domain.sources.polled_content import PolledContent, polled_content
from odfabric.domain.transform.transform_plan import TransformPlan
from odfabric.errors import ChainsDiverged, Corrupt, InvalidQuery, LimitExceeded, NotFound, OdfError
from odfabric.formats.parquet.provenance_file import ProvenanceRow
from odfabric.model.engine import EngineIdentity, EngineProgress
from odfabric.model.identity import DatasetId
from odfabric.model.instant import NANOS_PER_MILLI
from odfabric.model.metadata import AddData, DataSlice, ExecuteTransform, ExecuteTransformInput, SourceState
from odfabric.model.multihash import Multihash
from odfabric.model.offsets import OffsetRange
from odfabric.model.operation import OperationType
from odfabric.model.provenance import (
    CellRole,
    InputWitnesses,
    ProvenanceEffort,
    ProvenanceKind,
    ProvenanceResult,
    RecordProvenance,
)
from odfabric.ports.datasets.exchange import Exchange
from odfabric.ports.engine import Engine, ProgressListener
from odfabric.ports.node.clock import Clock
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.history.rewritten_inputs import InputHistories, RewrittenInput
from odfabric.usecases.provenance.corrected_records import records_about
from odfabric.usecases.provenance.derive_provenance import (
    Derivation,
    DerivationLimits,
    Derived,
    derive_provenance,
    missing_inputs,
)
from odfabric.usecases.provenance.find_block import block_with
from odfabric.usecases.provenance.root_origins import RootOrigins
from odfabric.usecases.provenance.session_files import SessionFiles, StoredRecord

CELLS_MAX = 1000
"""Most cells that are said of one record; the others are counted."""
EVERYTHING = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class WhyAsked:
    """What is asked of records of one dataset.

    `depth` counts datasets; None: to the roots. `limit` rows are followed of each input of a record, of the records asked for after the
    first `skip`. No `columns`: all. `whole` lets a derivation read as many rows as it needs.
    """

    offsets: tuple[int, ...]
    columns: tuple[str, ...] = ()
    kinds: frozenset[ProvenanceKind] = frozenset(ProvenanceKind)
    effort: ProvenanceEffort = ProvenanceEffort.VERIFIED
    depth: int | None = None
    limit: int = 100
    skip: int = 0
    whole: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceLimits:
    """Limits of one trace; see the settings of these names."""

    rows_max: int
    evaluations_max: int
    records_max: int
    depth_max: int
    wall_s_max: float
    blocks_max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TracePorts:
    """What a trace works with: `seen` is the repository as the caller sees it."""

    repository: Repository
    seen: Repository
    histories: InputHistories
    engine: Engine
    exchange: Exchange
    clock: Clock
    limits: TraceLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """Why a branch goes no further, and what is known of what would follow."""

    reason: EndReason
    message: str
    inputs: tuple[ExecuteTransformInput, ...] = ()
    source: SourceState | None = None
    place: PlaceInSource | None = None
    polled: PolledContent | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsOfInput:
    """Records of one input behind a record: how many, and, if readable, which.

    `followed` are those that the trace goes on with, `left_out` counts those beyond the limit or the budget.
    """

    input: int
    dataset: DatasetId
    alias: str
    count: int
    ranges: tuple[OffsetRange, ...]
    more: bool
    readable: bool
    followed: tuple[int, ...] = ()
    left_out: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """An input cell behind a cell; without `output_column` behind the row."""

    input: int
    offset: int
    column: str
    output_column: str | None
    role: CellRole


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What one derivation says of a record."""

    provenance: RecordProvenance
    plan: TransformPlan
    made_by: EngineIdentity | None
    witnesses: tuple[RowsOfInput, ...]
    trigger: tuple[RowsOfInput, ...]
    cells: tuple[Cell, ...]
    cells_left_out: bool
    hides: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Visited:
    """A record of a trace.

    `corrects`: the record of this dataset that it corrects or withdraws. `before`: the row that a correction takes the place of.
    """

    ref: RecordRef
    depth: int
    link: ChainLink
    record: StoredRecord
    corrects: int | None = None
    before: StoredRecord | None = None
    explanation: Explanation | None = None
    end: End | None = None


@dataclass(slots=True)
class Trace:
    """Records in the order in which they were visited, and how much work that was.

    `columns` are those that lead to a record, `causes` the records whose trigger is asked for.
    """

    visited: list[Visited] = field(default_factory=list)
    columns: dict[RecordRef, set[str]] = field(default_factory=dict)
    causes: set[RecordRef] = field(default_factory=set)
    calls: int = 0
    rows_read: int = 0
    jobs: int = 0
    evaluations: int = 0
    left_out: int = 0

    def add_cost(self, result: ProvenanceResult) -> None:
        """One more derivation."""
        self.calls += 1
        self.rows_read += result.cost.rows_read
        self.jobs += result.cost.jobs
        self.evaluations += result.cost.evaluations


def trace_records(dataset: DatasetId, asked: WhyAsked, *, ports: TracePorts, progress: ProgressListener) -> Trace:
    """The records and all that is behind them, as far as asked for.

    Raises NotFound for an offset that is not there, LimitExceeded where the first derivation needs more than it may, InvalidQuery for a
    column that is not there, Determinate if the engine is away, Corrupt.
    """
    with ports.exchange.session() as folder:
        files = SessionFiles(folder, repository=ports.repository, exchange=ports.exchange)
        return _Tracing(dataset, asked, ports, files, progress).run()


class _Tracing:
    """One trace under way."""

    def __init__(
        self, dataset: DatasetId, asked: WhyAsked, ports: TracePorts, files: SessionFiles, progress: ProgressListener
    ) -> None:
        self._asked, self._ports, self._files, self._progress = asked, ports, files, progress
        self._trace = Trace()
        self._frontier = Frontier(ports.limits.records_max)
        self._depth_max = ports.limits.depth_max if asked.depth is None else min(asked.depth, ports.limits.depth_max)
        self._until_ns = ports.clock.now().epoch_ns + int(ports.limits.wall_s_max * 1000) * NANOS_PER_MILLI
        self._columns = self._trace.columns
        self._origins = RootOrigins(ports.repository, files)
        self._causes = self._trace.causes
        self._causes |= {RecordRef(dataset, offset) for offset in asked.offsets}
        self._frontier.add(RecordRef(dataset, offset) for offset in asked.offsets)

    def run(self) -> Trace:
        depth = 0
        while level := self._frontier.take():
            self._visit(level, depth)
            depth += 1
        return self._trace

    def _visit(self, level: Sequence[RecordRef], depth: int) -> None:
        self._store(level)
        found = {ref: Visited(ref=ref, depth=depth, link=self._links[ref], record=self._records[ref]) for ref in level}
        if depth == 0:
            corrects, before = self._corrects(level), self._before(level)
            found |= {ref: replace(found[ref], corrects=corrects.get(ref), before=before.get(ref)) for ref in level}
        groups = grouped((ref, one.link.hash, one.record.op) for ref, one in found.items())
        for number, (group, offsets) in enumerate(groups.items()):
            self._progress(EngineProgress(stage="trace", done=number, total=len(groups)))
            refs = [RecordRef(group.dataset, offset) for offset in offsets]
            link = found[refs[0]].link
            explained = self._explained(group, link, refs, depth)
            for ref in refs:
                explanation, end = explained[ref]
                if end is not None and end.reason is EndReason.ROOT:
                    end = replace(end, place=self._origins.place(ref.offset, found[ref].record.op, group.dataset, link))
                found[ref] = replace(found[ref], explanation=explanation, end=end)
        self._trace.visited.extend(found.values())

    def _store(self, level: Sequence[RecordRef]) -> None:
        self._links: dict[RecordRef, ChainLink] = {}
        self._records: dict[RecordRef, StoredRecord] = {}
        by_dataset: dict[DatasetId, list[int]] = {}
        for ref in level:
            by_dataset.setdefault(ref.dataset, []).append(ref.offset)
        for dataset, offsets in by_dataset.items():
            self._read(dataset, sorted(offsets))

    def _read(self, dataset: DatasetId, offsets: Sequence[int]) -> None:
        """Blocks and rows of records, each block looked for and each slice opened once."""
        _, state = self._ports.repository.current(dataset)
        left = list(offsets)
        while left:
            link = block_with(RecordRef(dataset, left[0]), self._ports.repository)
            event = link.block.event
            assert isinstance(event, AddData | ExecuteTransform)
            assert event.new_data is not None
            end = OffsetRange.from_wire(event.new_data.offset_interval).end
            here = [offset for offset in left if offset < end]
            for offset, record in self._files.records(dataset, event.new_data, here, state.vocabulary).items():
                ref = RecordRef(dataset, offset)
                self._links[ref], self._records[ref] = link, record
            left = left[len(here) :]

    def _before(self, level: Sequence[RecordRef]) -> Mapping[RecordRef, StoredRecord]:
        """The old halves of corrections: each stands before its new one."""
        found: dict[RecordRef, StoredRecord] = {}
        by_slice: dict[tuple[DatasetId, DataSlice], list[RecordRef]] = {}
        for ref in level:
            event = self._links[ref].block.event
            assert isinstance(event, AddData | ExecuteTransform)
            assert event.new_data is not None
            is_new = self._records[ref].op is OperationType.CORRECT_TO
            if is_new and ref.offset > event.new_data.offset_interval.start:
                by_slice.setdefault((ref.dataset, event.new_data), []).append(ref)
        for (dataset, data), refs in by_slice.items():
            _, state = self._ports.repository.current(dataset)
            halves = self._files.records(dataset, data, (ref.offset - 1 for ref in refs), state.vocabulary)
            found |= {ref: half for ref in refs if (half := halves[ref.offset - 1]).op is OperationType.CORRECT_FROM}
        return found

    def _corrects(self, level: Sequence[RecordRef]) -> Mapping[RecordRef, int]:
        """What corrections and withdrawals are about."""
        found: dict[RecordRef, int] = {}
        by_block: dict[tuple[DatasetId, Multihash], dict[int, OperationType]] = {}
        for ref in level:
            if (op := self._records[ref].op) is not OperationType.APPEND:
                by_block.setdefault((ref.dataset, self._links[ref].hash), {})[ref.offset] = op
        for (dataset, block), records in by_block.items():
            _, state = self._ports.repository.current(dataset)
            about = records_about(
                *(dataset, block, records, state.vocabulary),
                files=self._files,
                repository=self._ports.repository,
                rows_max=self._ports.limits.rows_max,
            )
            found |= {RecordRef(dataset, offset): record for offset, record in about.items() if record is not None}
        return found

    def _explained(
        self, group: Group, link: ChainLink, refs: Sequence[RecordRef], depth: int
    ) -> Mapping[RecordRef, tuple[Explanation | None, End | None]]:
        end = self._end_before(group.dataset, link, depth)
        if end is None:
            derived = self._derived(group, link, refs, depth)
            if isinstance(derived, Derived):
                return dict(zip(refs, self._followed(derived, refs, depth), strict=True))
            end = derived
        return dict.fromkeys(refs, (None, end))

    def _end_before(self, dataset: DatasetId, link: ChainLink, depth: int) -> End | None:
        """Why there is no derivation, None if there is to be one."""
        event = link.block.event
        if isinstance(event, AddData):
            polled = polled_content(event.extra)
            source = event.new_source_state
            return End(reason=EndReason.ROOT, message="ingested by this block", source=source, polled=polled)
        assert isinstance(event, ExecuteTransform)
        if depth >= self._depth_max:
            return End(
                reason=EndReason.DEPTH, message="not followed further: ask why of this record, or for more depth"
            )
        missing = missing_inputs(event, self._ports.repository)
        if missing:
            names = ", ".join(str(one.dataset_id) for one in missing)
            message = f"inputs that are not on this node: {names}; pull them, or ask the node that has them"
            return End(reason=EndReason.NOT_HERE, message=message, inputs=tuple(missing))
        # The same offsets of another history are other rows. A compaction keeps them.
        if lost := [one for one in self._ports.histories.since(event) if not one.keeps_rows]:
            return self._rewritten(dataset, event, lost)
        if self._left_ms() <= 0:
            return End(reason=EndReason.TIME, message="not followed further for want of time: ask why of this record")
        return None

    def _rewritten(self, dataset: DatasetId, event: ExecuteTransform, inputs: Sequence[RewrittenInput]) -> End:
        entry = self._ports.repository.resolve(dataset)
        if entry.is_copy and (unknown := [one for one in inputs if not one.is_known]):
            names = ", ".join(f"{one.alias or one.dataset} (block {one.consumed})" for one in unknown)
            absent = {one.dataset for one in unknown}
            return End(
                reason=EndReason.NOT_HERE,
                message=f"inputs whose history here lacks what was read: {names}; they are older here, or were "
                "rewritten: pull them, or ask the node that made this dataset",
                inputs=tuple(progress for progress in event.query_inputs if progress.dataset_id in absent),
            )
        said = "; ".join(one.message for one in inputs)
        remedy = (
            f"its owner recomputes it, then `odf pull {entry.alias} --force` brings it"
            if entry.is_copy
            else f"`odf pull {entry.alias} --recompute` makes it again"
        )
        return End(reason=EndReason.REWRITTEN, message=f"{said}: what this block had read is there no more; {remedy}")

    def _left_ms(self) -> int:
        return (self._until_ns - self._ports.clock.now().epoch_ns) // NANOS_PER_MILLI

    def _derived(self, group: Group, link: ChainLink, refs: Sequence[RecordRef], depth: int) -> Derived | End:
        limits = self._ports.limits
        wanted = set[str]().union(*(self._columns.get(ref, set()) for ref in refs)) if depth else set[str]()
        columns = self._asked.columns if depth == 0 else tuple(sorted(wanted))
        kinds = self._asked.kinds
        if self._causes.isdisjoint(refs):
            kinds = kinds - {ProvenanceKind.TRIGGER} or kinds
        derivation = Derivation(
            group=group,
            link=link,
            offsets=tuple(ref.offset for ref in refs),
            columns=columns,
            kinds=kinds,
            effort=self._asked.effort,
            limits=DerivationLimits(
                rows_max=EVERYTHING if self._asked.whole else limits.rows_max,
                evaluations_max=limits.evaluations_max,
                wall_ms_max=max(1, self._left_ms()),
            ),
        )
        try:
            derived = derive_provenance(
                derivation,
                files=self._files,
                repository=self._ports.repository,
                engine=self._ports.engine,
                blocks_max=limits.blocks_max,
                progress=self._progress,
            )
        except (LimitExceeded, InvalidQuery) as error:
            return self._ended(error, depth)
        except (NotFound, Corrupt, ChainsDiverged):
            # Blocks from before a compaction go with time. Anything else that cannot be read is damage.
            event, histories = link.block.event, self._ports.histories
            assert isinstance(event, ExecuteTransform)
            if not (gone := [one for one in histories.since(event) if histories.is_gone(one)]):
                raise
            return self._rewritten(group.dataset, event, gone)
        self._trace.add_cost(derived.result)
        return derived

    def _ended(self, error: OdfError, depth: int) -> End:
        """The end that a failed derivation is; raises it where nothing was explained yet."""
        if isinstance(error, InvalidQuery):
            # The block was committed, so an engine has accepted its query: another one than ours.
            message = f"another engine made this block, and ours refuses its query: {error.message}"
            return End(reason=EndReason.OTHER_ENGINE, message=message)
        if depth == 0:
            raise error
        return End(reason=EndReason.TOO_LARGE, message=str(error))

    def _followed(
        self, derived: Derived, refs: Sequence[RecordRef], depth: int
    ) -> Iterator[tuple[Explanation | None, End | None]]:
        by_offset = {record.offset: record for record in derived.result.records}
        readable = [self._ports.seen.find(planned.dataset_id) is not None for planned in derived.plan.inputs]
        for ref in refs:
            record = by_offset[ref.offset]
            explanation = self._explanation(derived, record, readable, depth)
            end = None
            if not record.found:
                message = "the query gives no such row over these inputs; another build of the engine may have made it"
                end = End(reason=EndReason.NOT_FOUND, message=message)
            yield explanation, end

    def _explanation(
        self, derived: Derived, record: RecordProvenance, readable: Sequence[bool], depth: int
    ) -> Explanation:
        plan = derived.plan
        rows = self._rows(derived, record)
        cells, left_out = _cells(rows, readable)
        for cell in cells:
            if cell.role in (CellRole.COPIED, CellRole.COMPUTED):
                ref = RecordRef(plan.inputs[cell.input].dataset_id, cell.offset)
                self._columns.setdefault(ref, set()).add(cell.column)

        def rows_of(found: Iterable[InputWitnesses], kind: ProvenanceKind) -> tuple[RowsOfInput, ...]:
            return tuple(
                self._rows_of_input(derived, record, one, kind, readable=readable, depth=depth) for one in found
            )

        return Explanation(
            provenance=record,
            plan=plan,
            made_by=derived.result.made_by,
            witnesses=rows_of(record.witnesses, ProvenanceKind.WITNESSES),
            trigger=rows_of(record.trigger, ProvenanceKind.TRIGGER),
            cells=cells,
            cells_left_out=left_out,
            hides=not all(readable),
        )

    def _rows(self, derived: Derived, record: RecordProvenance) -> Iterator[ProvenanceRow]:
        span = record.answer_rows
        if ProvenanceKind.CELLS not in self._asked.kinds or span.rows == 0:
            return iter(())
        return derived.answer.between(span.begin, span.end)

    def _offsets(
        self, derived: Derived, record: RecordProvenance, found: InputWitnesses, kind: ProvenanceKind
    ) -> Iterator[int]:
        """All offsets of an input, in order; the answer file has those not listed."""
        if not found.more:
            return (offset for one in found.ranges for offset in range(one.begin, one.end))
        span = record.answer_rows
        rows = derived.answer.between(span.begin, span.end)
        return iter(sorted({row.offset for row in rows if row.kind is kind and row.input == found.input}))

    def _rows_of_input(
        self,
        derived: Derived,
        record: RecordProvenance,
        found: InputWitnesses,
        kind: ProvenanceKind,
        *,
        readable: Sequence[bool],
        depth: int,
    ) -> RowsOfInput:
        planned = derived.plan.inputs[found.input]
        may_read = readable[found.input]
        skipped = self._asked.skip if depth == 0 else 0
        left_out, offsets = 0, list[int]()
        if may_read:
            offsets = list(islice(self._offsets(derived, record, found, kind), skipped, skipped + self._asked.limit))
            refused = self._frontier.add(RecordRef(planned.dataset_id, offset) for offset in offsets)
            left_out = refused + max(0, found.count - skipped - len(offsets))
            if kind is ProvenanceKind.WITNESSES:  # triggers are witnesses too, for the most part
                self._trace.left_out += left_out
            elif RecordRef(derived.plan.dataset_id, record.offset) in self._causes:
                self._causes |= {RecordRef(planned.dataset_id, offset) for offset in offsets}
        return RowsOfInput(
            input=found.input,
            dataset=planned.dataset_id,
            alias=planned.query_alias,
            count=found.count,
            ranges=found.ranges if may_read else (),
            more=found.more,
            readable=may_read,
            followed=tuple(offsets),
            left_out=left_out,
        )


def _cells(rows: Iterable[ProvenanceRow], readable: Sequence[bool]) -> tuple[tuple[Cell, ...], bool]:
    """Cells of readable inputs, and whether some were left out for their number."""
    found: list[Cell] = []
    for row in rows:
        if row.kind is not ProvenanceKind.CELLS or not readable[row.input] or row.column is None or row.role is None:
            continue
        if len(found) == CELLS_MAX:
            return tuple(found), True
        found.append(
            Cell(input=row.input, offset=row.offset, column=row.column, output_column=row.output_column, role=row.role)
        )
    return tuple(found), False
