"""Ingest local files into a root dataset: engine, hashes, events.

Shared by pushing and polling.

Invariant: nothing but content-addressed objects is written here, so the plan can be made again on another head. Not here: where the
files come from (`push_data`, `poll_source`), moving the head (`commit`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from odfabric.domain.chain.append import fold_blocks, link_blocks
from odfabric.domain.chain.schema_evolution import current_schema
from odfabric.domain.chain.slice_rules import slice_rules
from odfabric.domain.chain.state import ChainState
from odfabric.domain.ingestion.idempotency import IdempotencyEntry
from odfabric.domain.ingestion.ingest_plan import plan_add_data
from odfabric.domain.ingestion.intake_limits import UNLIMITED, IntakeLimits, check_has_bytes
from odfabric.domain.ingestion.intake_rules import intake_rules
from odfabric.domain.ingestion.row_changes import ADDED_COLUMNS, change_attributes, rejected_attributes
from odfabric.domain.sources.polled_content import PolledContent, polled_attributes
from odfabric.domain.sources.source_evolution import evolving_events
from odfabric.formats.slices.slice_check import SliceRules
from odfabric.model.commit import EncodedBlock, Head, IdempotencyRecord
from odfabric.model.data_schema import DataSchema
from odfabric.model.engine import IngestRequest, IngestResult, SliceFile
from odfabric.model.identity import DatasetAlias, DatasetId
from odfabric.model.instant import Instant
from odfabric.model.intake import IntakeRules, RejectedRows, WrongRows
from odfabric.model.metadata import SourceState, Transform
from odfabric.model.source import MergeStrategy, MergeStrategyAppend, ReadStep
from odfabric.ports.datasets.exchange import Exchange
from odfabric.ports.datasets.object_store import ObjectStore
from odfabric.ports.datasets.state_index import StateIndex
from odfabric.ports.engine import Engine, ProgressListener
from odfabric.usecases.chain.commit import PlannedCommit
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.chain.store_slice import store_slice
from odfabric.usecases.jobs.job_run import JobRun
from odfabric.usecases.state.indexed_history import history_of_merge

REJECTED = "rejected"
"""Name of the file of rejected rows in the folder of an ingest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestInput:
    """Decompressed files and how to take them in.

    `folder` is a private folder of the exchange that holds `paths`; `names` are what users call the files. `event_time`
    fills null event times, None means the system time. `intake` is what a Snapshot may lose, and how many rows a quarantine takes.
    """

    folder: Path
    paths: tuple[Path, ...]
    names: tuple[str, ...]
    read: ReadStep
    preprocess: Transform | None
    merge: MergeStrategy
    source_name: str
    source_state: SourceState | None = None
    event_time: Instant | None = None
    idempotency: tuple[IdempotencyEntry, ...] = ()
    intake: IntakeLimits = UNLIMITED
    polled: PolledContent | None = None


@dataclass(frozen=True, slots=True)
class IngestedFiles:
    """The engine's result of files, and the slice at `path` if rows came out."""

    path: Path
    system_time: Instant
    result: IngestResult

    def rules(self, state: ChainState) -> SliceRules:
        """What the slice must keep on top of `state`. Raises ValueError if there is none."""
        if self.result.offsets is None:
            raise ValueError("no rows came out")
        interval = self.result.offsets.to_wire()
        return slice_rules(state, interval, system_time=self.system_time, data_schema=self.result.data_schema)


@dataclass(frozen=True, slots=True)
class PlannedIngest:
    """A planned commit (None: nothing new), the engine's report, rejected rows.

    What the engine said of the rows, and where those are that it rejected.
    """

    commit: PlannedCommit | None
    result: IngestResult
    rejected: RejectedRows | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedFile:
    """Rows of these files that a dataset rejected, one JSON object a line."""

    dataset: DatasetId
    path: Path
    names: tuple[str, ...]
    source_name: str


KeepRejected: TypeAlias = Callable[[RejectedFile, JobRun], DatasetAlias]
"""Commits rejected rows; gives the dataset that has them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestPorts:
    """What an ingest works with.

    An `index` makes it faster, no more. `keep_rejected` is needed by sources that keep rejected rows.
    """

    repository: Repository
    engine: Engine
    exchange: Exchange
    objects: ObjectStore
    index: StateIndex | None = None
    keep_rejected: KeepRejected | None = None


def plan_ingest(
    dataset: DatasetId, base: Head, given: IngestInput, *, run: JobRun, ports: IngestPorts
) -> PlannedIngest:
    """The blocks that take `given` in on top of `base`.

    Raises InvalidData, InvalidQuery, IncompatibleSchema, InvalidBlock for what the user did; Corrupt, Determinate.
    """
    state = ports.repository.state(dataset, base.hash)
    system_time = run.system_time(state)
    # One folder a base: an attempt that was abandoned for a new head may have left files behind.
    folder = given.folder / base.hash.short
    folder.mkdir(exist_ok=True)

    made, grown = ingest_growing(
        state, replace(given, folder=folder), system_time=system_time, progress=run.report, ports=ports
    )
    result, data = made.result, None
    if result.offsets is not None:
        data = store_slice(dataset, made.path, result.offsets, objects=ports.objects, rules=made.rules(grown.state))
    rejected = None
    if result.rejected and ports.keep_rejected is not None:
        kept_in = ports.keep_rejected(_rejected_file(dataset, made, given), run)
        rejected = RejectedRows(rows=result.rejected, dataset=str(kept_in))
    events = plan_add_data(
        grown.state,
        data_schema=result.data_schema,
        new_data=data,
        max_event_time=result.max_event_time,
        source_state=given.source_state,
        source_name=given.source_name,
        idempotency=given.idempotency,
        renamed=result.renamed,
        attributes={
            **change_attributes(result.changes, result.undeclared, merge=given.merge),
            **rejected_attributes(rejected),
            **({ADDED_COLUMNS: list(grown.columns)} if grown.columns else {}),
            **polled_attributes(given.polled),
        },
    )
    if not events and not grown.blocks:
        return PlannedIngest(None, result, rejected)
    blocks = [*grown.blocks, *link_blocks(grown.state, events, system_time=system_time)]
    run.confirm()
    records = [IdempotencyRecord(entry.key_hash, entry.body_digest, blocks[-1].hash) for entry in given.idempotency]
    return PlannedIngest(PlannedCommit(tuple(blocks), tuple(records)), result, rejected)


def _rejected_file(dataset: DatasetId, made: IngestedFiles, given: IngestInput) -> RejectedFile:
    path = made.path.parent / REJECTED
    return RejectedFile(dataset=dataset, path=path, names=given.names, source_name=given.source_name)


@dataclass(frozen=True, slots=True)
class GrownSource:
    """A chain whose source has got `columns` by `blocks`; as it was without any."""

    state: ChainState
    read: ReadStep
    blocks: tuple[EncodedBlock, ...] = ()
    columns: tuple[str, ...] = ()


def ingest_growing(
    state: ChainState,
    given: IngestInput,
    *,
    system_time: Instant,
    progress: ProgressListener,
    ports: IngestPorts,
) -> tuple[IngestedFiles, GrownSource]:
    """As `ingest_files`; new fields that the source is to grow are read again.

    Where the input has fields that the source is to grow columns for, it is read again with these.
    """

    def take_in(given: IngestInput, schema: DataSchema | None) -> IngestedFiles:
        return ingest_files(state, given, system_time=system_time, progress=progress, ports=ports, data_schema=schema)

    made = take_in(given, None)
    grown = _grown(state, made.result.found, given, system_time)
    if not grown.blocks:
        return made, grown
    folder = given.folder / "grown"
    folder.mkdir(exist_ok=True)
    return take_in(replace(given, folder=folder, read=grown.read), current_schema(grown.state)), grown


def _grown(state: ChainState, found: DataSchema | None, given: IngestInput, system_time: Instant) -> GrownSource:
    if found is None:
        return GrownSource(state, given.read)
    maximum = given.intake.column_name_bytes_max
    source, events = evolving_events(state, given.source_name, found, name_bytes_max=maximum)
    blocks = link_blocks(state, events, system_time=system_time)
    names = tuple(field.name for field in found.fields)
    # A push may be read by another step than the source has; it gets the same columns.
    read = replace(given.read, schema=source.read.schema)
    return GrownSource(fold_blocks(state, blocks), read, tuple(blocks), names)


def plan_source_state(
    dataset: DatasetId,
    base: Head,
    source_state: SourceState,
    polled: PolledContent,
    *,
    run: JobRun,
    repository: Repository,
) -> PlannedCommit | None:
    """A block that says how far a source has got where it sent nothing new.

    None if the chain says so already.
    """
    state = repository.state(dataset, base.hash)
    events = plan_add_data(
        state,
        data_schema=None,
        new_data=None,
        max_event_time=None,
        source_state=source_state,
        attributes=polled_attributes(polled),
    )
    if not events:
        return None
    blocks = link_blocks(state, events, system_time=run.system_time(state))
    run.confirm()
    return PlannedCommit(tuple(blocks))


def ingest_files(
    state: ChainState,
    given: IngestInput,
    *,
    system_time: Instant,
    progress: ProgressListener,
    ports: IngestPorts,
    data_schema: DataSchema | None = None,
) -> IngestedFiles:
    """Have the engine take files in on top of `state`, in their folder.

    Nothing is stored or planned. Raises as `plan_ingest`.

    `data_schema` is that of the dataset if it is not that of the state.
    """
    sizes = {name: path.stat().st_size for name, path in zip(given.names, given.paths, strict=True)}
    check_has_bytes(sizes, given.merge, has_rows=state.last_offset is not None)
    history: tuple[SliceFile, ...] = ()
    if not isinstance(given.merge, MergeStrategyAppend) and state.last_offset is not None:
        history = history_of_merge(
            state.dataset_id,
            state,
            given.merge,
            given.folder,
            repository=ports.repository,
            index=ports.index,
            exchange=ports.exchange,
        )
    rules = intake_rules(given.read)
    request = _engine_request(state, given, given.folder, system_time, rules, history=history, exchange=ports.exchange)
    if data_schema is not None:
        request = replace(request, data_schema=data_schema)
    result = ports.engine.ingest(request, progress=progress)
    given.intake.under(rules).check(result.changes, given.merge, name=given.names[0])
    return IngestedFiles(ports.exchange.root / request.new_data_path, system_time, result)


def _engine_request(
    state: ChainState,
    given: IngestInput,
    folder: Path,
    system_time: Instant,
    rules: IntakeRules,
    *,
    history: tuple[SliceFile, ...],
    exchange: Exchange,
) -> IngestRequest:
    def relative(path: Path) -> str:
        return path.relative_to(exchange.root).as_posix()

    return IngestRequest(
        vocabulary=state.vocabulary,
        data_paths=tuple(relative(path) for path in given.paths),
        file_names=given.names,
        read=given.read,
        preprocess=given.preprocess,
        merge=given.merge,
        data_schema=current_schema(state),
        history=history,
        system_time=system_time,
        event_time_fallback=given.event_time or system_time,
        next_offset=state.next_offset,
        new_data_path=relative(folder / "new-data"),
        contract=rules.contract,
        rejected_path=relative(folder / REJECTED) if rules.wrong_rows is WrongRows.QUARANTINE else None,
        rejected_rows_max=given.intake.rejected_rows_max,
    )
