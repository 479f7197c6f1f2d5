"""Run a derivative dataset: its transform over what its inputs have new.

Invariant: a transaction is a pure function of its plan, so an interrupted one is repeated and gives the same bytes; what was
consumed is in the chain alone. Not here: the plan's rules (`domain.transform.transform_plan`), how much one transaction takes
(`usecases.transform.divide_transform`), rows (the engine).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from odfabric.domain.chain.append import link_blocks
from odfabric.domain.chain.slice_rules import slice_rules
from odfabric.domain.chain.state import ChainState
from odfabric.domain.transform.transform_cut import TransactionLimits
from odfabric.domain.transform.transform_plan import (
    InputNeverPulled,
    PlannedInput,
    TransformPlan,
    plan_execute_transform,
    plan_transform,
)
from odfabric.errors import LimitExceeded
from odfabric.formats.slices.checkpoint_header import checkpoint_bases
from odfabric.model.commit import CatalogEntry, Head
from odfabric.model.engine import (
    COLUMN_SIZE_LIMIT,
    TRANSACTION_SIZE_LIMIT,
    EngineProgress,
    MigrateRequest,
    SliceFile,
    TransformRequest,
    TransformRequestInput,
    TransformResult,
)
from odfabric.model.identity import DatasetId
from odfabric.model.metadata import DataSlice
from odfabric.model.multihash import Multihash
from odfabric.model.offsets import OffsetRange
from odfabric.ports.datasets.exchange import Exchange
from odfabric.ports.datasets.object_store import ObjectStore
from odfabric.ports.engine import Engine, ProgressListener
from odfabric.usecases.chain.commit import Commits, PlannedCommit
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.chain.store_slice import store_checkpoint, store_slice
from odfabric.usecases.ingestion.commit_result import CommitResult, result_since
from odfabric.usecases.jobs.job_run import JobRun
from odfabric.usecases.transform.divide_transform import TransformDivision, TransformPart
from odfabric.usecases.transform.engine_records import record_maker

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ExecutedTransform:
    """The engine's answer to a plan, and its files.

    No checkpoint of an engine that keeps nothing.
    """

    result: TransformResult
    data_path: Path
    checkpoint_path: Path | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformPorts:
    """What a transform is run with.

    `blocks_max` is the longest chain that is walked, `limits` are those of one transaction.
    """

    repository: Repository
    commits: Commits
    engine: Engine
    exchange: Exchange
    objects: ObjectStore
    blocks_max: int
    limits: TransactionLimits


def run_transform(entry: CatalogEntry, *, run: JobRun, ports: TransformPorts) -> CommitResult | None:
    """Bring the dataset up to date with the heads of its inputs.

    None if nothing is due or an input has no data yet.

    The result is that of all attempts of the job, but for the rows that were dropped, of which the last attempt gives its own. What the inputs have new is taken by as many transactions as its size asks for, each committed by itself: those that were
    committed before a failure or cancellation stay, and the next run goes on behind them. What comes to the inputs meanwhile waits.
    After a change of the query that needs a migration there is one transaction, whatever its size: it reads from the beginning.
    Raises InvalidRequest without a transform, InvalidQuery, IncompatibleSchema, ChainsDiverged, NotFound for an input that is
    not here, and what committing raises.
    """
    repository = ports.repository
    began = run.began_at(entry.id, repository.head(entry.id).hash)
    division = TransformDivision(repository, ports.engine, limits=ports.limits, blocks_max=ports.blocks_max)

    late, dropped = 0, 0

    def build(base: Head) -> PlannedCommit | None:
        nonlocal late
        built = _build(entry, base, division, run=run, ports=ports)
        late = 0 if built is None else built.late_rows_dropped
        return None if built is None else built.commit

    while not division.done:
        committed = ports.commits.commit(entry.id, build, by=[run.actor])
        division.advance(committed)
        if committed is not None and late:
            dropped += late
            _log.warning("%d rows came too late for %s and were dropped", late, entry.alias)
    head = repository.head(entry.id).hash
    result = result_since(began, head, blocks=repository.blocks(entry.id), blocks_max=ports.blocks_max)
    return None if result is None else replace(result, late_rows_dropped=dropped)


@dataclass(frozen=True, slots=True)
class _Built:
    """A transaction ready to commit, and how many input rows came too late for it."""

    commit: PlannedCommit
    late_rows_dropped: int


def _build(
    entry: CatalogEntry, base: Head, division: TransformDivision, *, run: JobRun, ports: TransformPorts
) -> _Built | None:
    """The next transaction of the division on top of `base`, which the engine has run.

    None if it is not due.
    """
    state = ports.repository.state(entry.id, base.hash)
    while True:
        part = division.next_part(state)
        try:
            return _run_part(part, state, run=run, ports=ports)
        except LimitExceeded as error:
            if error.limit not in (TRANSACTION_SIZE_LIMIT, COLUMN_SIZE_LIMIT) or not part.divisible:
                raise
            _log.info("a transaction of %s is divided: %s", entry.alias, error.message)
            division.divide(state)


def _run_part(part: TransformPart, state: ChainState, *, run: JobRun, ports: TransformPorts) -> _Built | None:
    repository, exchange = ports.repository, ports.exchange
    plan = plan_transform(
        state, part.inputs, system_time=run.system_time(state), blocks_max=ports.blocks_max, change=part.change
    )
    if isinstance(plan, InputNeverPulled) or not plan.is_due:
        return None

    def progress(told: EngineProgress) -> None:
        run.report(part.progress(told))

    progress(EngineProgress(stage="transform", done=0, total=0))
    with exchange.session() as folder:
        checkpoints = [plan.prev_checkpoint.physical_hash] if plan.prev_checkpoint else []
        executed = execute_plan(
            plan,
            checkpoints,
            folder,
            bytes_in_hand_max=part.bytes_in_hand_max,
            progress=progress,
            repository=repository,
            engine=ports.engine,
            exchange=exchange,
        )
        planned = _plan_commit(state, plan, executed, repository=repository, ports=ports)
        run.confirm()
        return None if planned is None else _Built(planned, executed.result.late_rows_dropped)


def execute_plan(
    plan: TransformPlan,
    checkpoints: Sequence[Multihash],
    folder: Path,
    *,
    progress: ProgressListener,
    repository: Repository,
    engine: Engine,
    exchange: Exchange,
    bytes_in_hand_max: int = 0,
) -> ExecutedTransform:
    """Put the plan's objects into `folder` of the exchange and run the engine.

    Raises what the engine raises: LimitExceeded with `TRANSACTION_SIZE_LIMIT` for more than it may have in hand (0: any).
    """

    def relative(path: Path) -> str:
        return path.relative_to(exchange.root).as_posix()

    migrates = plan.change is not None and plan.change.migrates
    # What is computed again does not need what was kept: it may be lost.
    files = checkpoint_files(plan.dataset_id, () if migrates else checkpoints, folder, repository)
    data_path, checkpoint_path = folder / "new-data", folder / "new-checkpoint"
    request = TransformRequest(
        dataset_id=plan.dataset_id,
        vocabulary=plan.vocabulary,
        transform=plan.transform,
        inputs=tuple(_request_input(planned, folder, repository, exchange) for planned in plan.inputs),
        data_schema=plan.data_schema,
        prev_watermark=plan.prev_watermark,
        system_time=plan.system_time,
        next_offset=plan.next_offset,
        checkpoint_paths=tuple(map(relative, files.values())),
        new_checkpoint_path=relative(checkpoint_path),
        new_data_path=relative(data_path),
        checkpoint_hashes=tuple(files),
        bytes_in_hand_max=bytes_in_hand_max,
    )
    if plan.change is None:
        result = engine.execute_transform(request, progress=progress)
    elif not plan.change.migrates:
        continued = replace(request, previous=plan.change.previous)
        result = engine.execute_transform(continued, progress=progress)
    else:
        output = _slice_files(plan.dataset_id, plan.change.output, folder, repository, exchange)
        result = engine.migrate_query(MigrateRequest(next=request, output=output), progress=progress)
    return ExecutedTransform(result, data_path, checkpoint_path if checkpoint_path.exists() else None)


def checkpoint_files(
    dataset: DatasetId, newest: Sequence[Multihash], folder: Path, repository: Repository
) -> dict[Multihash, Path]:
    """Checkpoints of a transaction as files, the newest first, then their bases.

    Raises Corrupt, InvalidData.
    """
    files: dict[Multihash, Path] = {}

    def add(name: Multihash) -> None:
        files[name] = folder / f"checkpoint-{name}"
        repository.materialize_checkpoint(dataset, name, files[name])

    for name in newest:
        add(name)
    for name in [base for path in list(files.values()) for base in checkpoint_bases(path)]:
        if name not in files:
            add(name)
    return files


def _request_input(
    planned: PlannedInput, folder: Path, repository: Repository, exchange: Exchange
) -> TransformRequestInput:
    return TransformRequestInput(
        dataset_id=planned.dataset_id,
        query_alias=planned.query_alias,
        vocabulary=planned.vocabulary,
        data_schema=planned.data_schema,
        offsets=planned.offsets,
        slices=_slice_files(planned.dataset_id, planned.slices, folder, repository, exchange),
        steps=planned.steps,
    )


def _slice_files(
    dataset: DatasetId, slices: Sequence[DataSlice], folder: Path, repository: Repository, exchange: Exchange
) -> tuple[SliceFile, ...]:
    """Slices of a dataset as files in the exchange folder."""
    files = []
    for data in slices:
        path = folder / f"{dataset.multibase}-{data.physical_hash}"
        repository.materialize(dataset, "data", data.physical_hash, path)
        offsets = OffsetRange.from_wire(data.offset_interval)
        files.append(SliceFile(path=path.relative_to(exchange.root).as_posix(), offsets=offsets))
    return tuple(files)


def _plan_commit(
    state: ChainState,
    plan: TransformPlan,
    executed: ExecutedTransform,
    *,
    repository: Repository,
    ports: TransformPorts,
) -> PlannedCommit | None:
    result, dataset, objects = executed.result, plan.dataset_id, ports.objects
    new_data = None
    if result.offsets is not None:
        rules = slice_rules(
            state, result.offsets.to_wire(), system_time=plan.system_time, data_schema=result.data_schema
        )
        new_data = store_slice(dataset, executed.data_path, result.offsets, objects=objects, rules=rules)
    checkpoint = None
    if executed.checkpoint_path is not None:
        checkpoint = store_checkpoint(dataset, executed.checkpoint_path, objects=objects)
        repository.checkpoint_stored(checkpoint.physical_hash, executed.checkpoint_path)
    events = plan_execute_transform(
        state,
        plan,
        data_schema=result.data_schema,
        new_data=new_data,
        new_checkpoint=checkpoint,
        watermark=result.watermark,
    )
    if not events:
        return None
    blocks = tuple(link_blocks(state, events, system_time=plan.system_time))
    record_maker(dataset, blocks, result.made_by, objects=objects, sign=ports.commits.sign)
    return PlannedCommit(blocks)
