"""Derive why records of one block are there: one level of a trace.

Invariant: interval, steps and query of the block are worked out from the chains of the dataset and its inputs, as a replay does, and not
believed. Not here: following the answer through datasets (`usecases.provenance.trace_records`), the derivation itself (the engine).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from odfabric.domain.chain.walk import ChainLink
from odfabric.domain.provenance.trace import Group
from odfabric.domain.transform.transform_plan import (
    InputChain,
    InputNeverPulled,
    PlannedInput,
    TransformPlan,
    plan_replay,
    replay_inputs,
)
from odfabric.errors import ChainsDiverged, InvalidData
from odfabric.formats.parquet.provenance_file import ProvenanceRows
from odfabric.model.engine import TransformRequest, TransformRequestInput
from odfabric.model.identity import DatasetId
from odfabric.model.metadata import ExecuteTransform, ExecuteTransformInput, TransformSql
from odfabric.model.offsets import OffsetRange
from odfabric.model.provenance import (
    ConsumedInterval,
    ProvenanceEffort,
    ProvenanceKind,
    ProvenanceRequest,
    ProvenanceResult,
)
from odfabric.ports.engine import Engine, ProgressListener
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.provenance.session_files import SessionFiles
from odfabric.usecases.transform.divide_transform import input_at
from odfabric.usecases.transform.judge_transform import change_of


@dataclass(frozen=True, slots=True, kw_only=True)
class DerivationLimits:
    """What one derivation may take; see the settings of these names."""

    rows_max: int
    evaluations_max: int
    wall_ms_max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Derivation:
    """What is asked of one group of records. No `columns`: all."""

    group: Group
    link: ChainLink
    offsets: tuple[int, ...]
    columns: tuple[str, ...]
    kinds: frozenset[ProvenanceKind]
    effort: ProvenanceEffort
    limits: DerivationLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class Derived:
    """The engine's answer, the transaction that it explains, and where its rows are."""

    plan: TransformPlan
    result: ProvenanceResult
    answer: ProvenanceRows


def missing_inputs(event: ExecuteTransform, repository: Repository) -> list[ExecuteTransformInput]:
    """What a block consumed of inputs that are not on this node."""
    return [progress for progress in event.query_inputs if repository.find(progress.dataset_id) is None]


def derive_provenance(
    asked: Derivation,
    *,
    files: SessionFiles,
    repository: Repository,
    engine: Engine,
    blocks_max: int,
    progress: ProgressListener,
) -> Derived:
    """Why the records are there.

    Raises what the engine raises, NotFound for an input that is not here, ChainsDiverged if one has another history now, InvalidData for a
    block that says something else than what follows from its inputs.
    """
    event = asked.link.block.event
    assert isinstance(event, ExecuteTransform)
    plan = _plan(asked.group.dataset, asked.link, event, repository=repository, engine=engine, blocks_max=blocks_max)
    answer = files.new_answer()
    request = replace(
        _request(plan, event, files, answer),
        offsets=asked.offsets,
        columns=asked.columns,
        kinds=asked.kinds,
        effort=asked.effort,
        rows_max=asked.limits.rows_max,
        evaluations_max=asked.limits.evaluations_max,
        wall_ms_max=asked.limits.wall_ms_max,
    )
    result = engine.derive_provenance(request, progress=progress)
    return Derived(plan=plan, result=result, answer=ProvenanceRows(answer))


def _plan(
    dataset: DatasetId,
    link: ChainLink,
    event: ExecuteTransform,
    *,
    repository: Repository,
    engine: Engine,
    blocks_max: int,
) -> TransformPlan:
    previous = link.block.prev_block_hash
    assert previous is not None
    state = repository.state(dataset, previous)
    inputs = {name: input_at(name, head, repository) for name, head in replay_inputs(event).items()}
    change = change_of(state, inputs, blocks=repository.blocks(dataset), engine=engine, blocks_max=blocks_max)
    plan = plan_replay(
        state,
        event,
        inputs,
        system_time=link.block.system_time,
        blocks_max=blocks_max,
        change=change,
        from_beginning=True,
    )
    if isinstance(plan, InputNeverPulled):
        raise InvalidData(f"block {link.hash} has read input {plan.dataset_id}, which had no data at that time")
    for planned, said in zip(plan.inputs, event.query_inputs, strict=True):
        if planned.progress != said:
            _refuse(link, said, inputs)
    return plan


def _refuse(link: ChainLink, said: ExecuteTransformInput, inputs: dict[DatasetId, InputChain]) -> None:
    alias = inputs[said.dataset_id].handle.alias
    raise ChainsDiverged(
        f"block {link.hash} says that it has read other records of {alias} than there are between its blocks",
        hint="`odf verify` says what is wrong",
    )


def _request(plan: TransformPlan, event: ExecuteTransform, files: SessionFiles, answer: Path) -> ProvenanceRequest:
    """The request without what is asked of it."""
    assert event.new_data is not None
    transaction = TransformRequest(
        dataset_id=plan.dataset_id,
        vocabulary=plan.vocabulary,
        transform=plan.transform,
        inputs=tuple(_input(planned, files) for planned in plan.inputs),
        data_schema=plan.data_schema,
        prev_watermark=plan.prev_watermark,
        system_time=plan.system_time,
        next_offset=plan.next_offset,
        checkpoint_paths=(),
        new_checkpoint_path=f"{files.relative(answer)}-checkpoint",
        new_data_path=f"{files.relative(answer)}-data",
    )
    return ProvenanceRequest(
        transaction=transaction,
        intervals=tuple(_intervals(plan)),
        output=files.slices(plan.dataset_id, [event.new_data]),
        offsets=(),
        answer_path=files.relative(answer),
        previous=_previous(plan),
    )


def _input(planned: PlannedInput, files: SessionFiles) -> TransformRequestInput:
    return TransformRequestInput(
        dataset_id=planned.dataset_id,
        query_alias=planned.query_alias,
        vocabulary=planned.vocabulary,
        data_schema=planned.data_schema,
        offsets=planned.offsets,
        slices=files.slices(planned.dataset_id, planned.slices),
        steps=planned.steps,
    )


def _intervals(plan: TransformPlan) -> Iterator[ConsumedInterval]:
    for planned in plan.inputs:
        progress = planned.progress
        offsets = OffsetRange.after(progress.prev_offset, progress.new_offset)
        yield ConsumedInterval(offsets=offsets, steps_before=planned.steps_before)


def _previous(plan: TransformPlan) -> TransformSql | None:
    return plan.change.previous if plan.change is not None and plan.change.migrates else None
