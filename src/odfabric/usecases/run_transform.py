"""Run a derivative dataset: one transaction of its transform over what its inputs have new.

Invariant: the transaction is a pure function of the plan, so an interrupted run is repeated and gives the same bytes; what was
consumed is in the chain alone. Not here: the plan's rules (`domain.transform_plan`), rows (the engine).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from odfabric.domain.chain.append import link_blocks
from odfabric.domain.chain.state import ChainState
from odfabric.domain.transform_plan import (
    InputChain,
    InputNeverPulled,
    PlannedInput,
    TransformPlan,
    plan_execute_transform,
    plan_transform,
    transform_inputs,
)
from odfabric.formats.checkpoint_header import checkpoint_bases
from odfabric.model.commit import CatalogEntry, Head
from odfabric.model.engine import MigrateRequest, SliceFile, TransformRequest, TransformRequestInput, TransformResult
from odfabric.model.identity import DatasetHandle, DatasetId
from odfabric.model.metadata import DataSlice
from odfabric.model.multihash import Multihash
from odfabric.model.offsets import OffsetRange
from odfabric.ports.engine import Engine
from odfabric.ports.exchange import Exchange
from odfabric.ports.object_store import ObjectStore
from odfabric.usecases.commit import Commits, PlannedCommit
from odfabric.usecases.commit_result import CommitResult, result_of
from odfabric.usecases.job_run import JobRun
from odfabric.usecases.judge_transform import change_of
from odfabric.usecases.repository import Repository
from odfabric.usecases.store_slice import store_checkpoint, store_slice


@dataclass(frozen=True, slots=True)
class ExecutedTransform:
    """What the engine made of a plan: its answer and where its files lie; no checkpoint of an engine that keeps nothing."""

    result: TransformResult
    data_path: Path
    checkpoint_path: Path | None


def run_transform(
    entry: CatalogEntry,
    *,
    run: JobRun,
    repository: Repository,
    commits: Commits,
    engine: Engine,
    exchange: Exchange,
    objects: ObjectStore,
    blocks_max: int,
) -> CommitResult | None:
    """Bring the dataset up to date with the heads of its inputs; None if nothing is due or an input has no data yet.

    Raises InvalidRequest without a transform, InvalidQuery, IncompatibleSchema, ChainsDiverged, NotFound for an input that is
    not here, and what committing raises.
    """

    def build(base: Head) -> PlannedCommit | None:
        state = repository.state(entry.id, base.hash)
        inputs = {dataset: current_input(dataset, repository) for dataset in transform_inputs(state)}
        change = change_of(state, inputs, blocks=repository.blocks(entry.id), engine=engine, blocks_max=blocks_max)
        plan = plan_transform(state, inputs, system_time=run.system_time(state), blocks_max=blocks_max, change=change)
        if isinstance(plan, InputNeverPulled) or not plan.is_due:
            return None
        with exchange.session() as folder:
            checkpoints = [plan.prev_checkpoint.physical_hash] if plan.prev_checkpoint else []
            executed = execute_plan(
                plan, checkpoints, folder, run=run, repository=repository, engine=engine, exchange=exchange
            )
            planned = _plan_commit(state, plan, executed, repository=repository, objects=objects)
            run.confirm()
            return planned

    committed = commits.commit(entry.id, build)
    return result_of(committed) if committed else None


def current_input(dataset: DatasetId, repository: Repository) -> InputChain:
    """An input at its head. Raises NotFound."""
    return input_at(dataset, repository.head(dataset).hash, repository)


def input_at(dataset: DatasetId, head: Multihash | None, repository: Repository) -> InputChain:
    """An input at one of its blocks. Raises NotFound."""
    entry = repository.resolve(dataset)
    state = ChainState.empty() if head is None else repository.state(dataset, head)
    return InputChain(handle=DatasetHandle(entry.id, entry.alias), state=state, blocks=repository.blocks(dataset))


def execute_plan(
    plan: TransformPlan,
    checkpoints: Sequence[Multihash],
    folder: Path,
    *,
    run: JobRun,
    repository: Repository,
    engine: Engine,
    exchange: Exchange,
) -> ExecutedTransform:
    """Lay the plan's objects out in `folder` of the exchange and let the engine run it."""

    def relative(path: Path) -> str:
        return path.relative_to(exchange.root).as_posix()

    files = checkpoint_files(plan.dataset_id, checkpoints, folder, repository)
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
    )
    if plan.change is None:
        result = engine.execute_transform(request, progress=run.report)
    elif not plan.change.migrates:
        continued = replace(request, previous=plan.change.previous)
        result = engine.execute_transform(continued, progress=run.report)
    else:
        output = _slice_files(plan.dataset_id, plan.change.output, folder, repository, exchange)
        anew = replace(request, checkpoint_paths=(), checkpoint_hashes=())
        result = engine.migrate_query(MigrateRequest(next=anew, output=output), progress=run.report)
    return ExecutedTransform(result, data_path, checkpoint_path if checkpoint_path.exists() else None)


def checkpoint_files(
    dataset: DatasetId, newest: Sequence[Multihash], folder: Path, repository: Repository
) -> dict[Multihash, Path]:
    """The checkpoints of a transaction as files, the newest first, then those that it builds on. Raises Corrupt, InvalidData."""
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
    state: ChainState, plan: TransformPlan, executed: ExecutedTransform, *, repository: Repository, objects: ObjectStore
) -> PlannedCommit | None:
    result, dataset = executed.result, plan.dataset_id
    new_data = store_slice(dataset, executed.data_path, result.offsets, objects=objects) if result.offsets else None
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
    return PlannedCommit(tuple(link_blocks(state, events, system_time=plan.system_time)))
