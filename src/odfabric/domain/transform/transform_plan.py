"""Planning transactions of a derivative dataset, and replaying committed ones.

Owns the half-open intervals of RFC-014: per input, the blocks `(prev, new]` and records `(prev, new]`, what the previous
transaction consumed being where the next one starts. A plan and a replay come out of the same code, from the chain's state
before the transaction and the inputs' states at the blocks to be consumed. A run is due only if an input has new records or
a watermark above the one handed over last, or if the output has no schema yet; blocks that carry neither wait.
Not here: how far a transaction reads (`domain.transform.transform_cut`), loading chains and files (`usecases.transform.run_transform`), rows (the
engine), judging the outcome (`domain.chain.verify`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from odfabric.domain.chain.schema_evolution import current_schema
from odfabric.domain.chain.state import ChainState, last_input_block_of, last_input_offset_of, last_offset_of
from odfabric.domain.chain.validate import input_dataset_id
from odfabric.domain.chain.walk import BlockSource, ChainLink, walk
from odfabric.domain.ingestion.ingest_plan import schema_events
from odfabric.domain.ingestion.watermark import transform_watermark
from odfabric.errors import ChainsDiverged, InvalidRequest
from odfabric.model.data_schema import DataSchema
from odfabric.model.engine import TransformStep
from odfabric.model.identity import DatasetHandle, DatasetId
from odfabric.model.instant import Instant
from odfabric.model.metadata import (
    AddData,
    Checkpoint,
    DataSlice,
    ExecuteTransform,
    ExecuteTransformInput,
    MetadataEvent,
    SetTransform,
    Transform,
)
from odfabric.model.multihash import Multihash
from odfabric.model.offsets import OffsetRange
from odfabric.model.vocabulary import DatasetVocabulary


@dataclass(frozen=True, slots=True, kw_only=True)
class InputChain:
    """An input of the planner: who it is, state at the last consumed block, blocks."""

    handle: DatasetHandle
    state: ChainState
    blocks: BlockSource


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedInput:
    """What one input contributes: new slices and steps, oldest first, and progress.

    `watermark_advances` says whether a step carries a watermark above the one that was handed over before. In a migration
    slices and steps are those from the beginning, the progress is that since the last transaction all the same; so they are where the
    whole history is asked for. The first `steps_before` of these steps were consumed by earlier transactions.
    """

    dataset_id: DatasetId
    query_alias: str
    vocabulary: DatasetVocabulary
    data_schema: DataSchema
    progress: ExecuteTransformInput
    slices: tuple[DataSlice, ...]
    steps: tuple[TransformStep, ...]
    watermark_advances: bool
    from_beginning: bool = False
    steps_before: int = 0

    @property
    def offsets(self) -> OffsetRange:
        """Records that the engine reads; empty if there are none."""
        if self.from_beginning:
            return OffsetRange.after(None, last_input_offset_of(self.progress))
        return OffsetRange.after(self.progress.prev_offset, self.progress.new_offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformChange:
    """The transform before the present one, in the first transaction of the latter.

    With `migrates` the two say different things: the transaction reads its inputs from the beginning, and `output` is all
    that the dataset holds, oldest first.
    """

    previous: Transform
    migrates: bool
    output: tuple[DataSlice, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformPlan:
    """One transaction, ready for the engine.

    `data_schema` is the output's, None before the first transaction.
    """

    dataset_id: DatasetId
    system_time: Instant
    transform: Transform
    vocabulary: DatasetVocabulary
    data_schema: DataSchema | None
    inputs: tuple[PlannedInput, ...]
    prev_checkpoint: Checkpoint | None
    prev_offset: int | None
    prev_watermark: Instant | None
    change: TransformChange | None = None

    @property
    def next_offset(self) -> int:
        """Offset of the first record that the transaction may write."""
        return OffsetRange.after(self.prev_offset, None).begin

    @property
    def is_due(self) -> bool:
        """Whether there is anything for the engine to do."""
        return self.data_schema is None or any(entry.slices or entry.watermark_advances for entry in self.inputs)


@dataclass(frozen=True, slots=True)
class InputNeverPulled:
    """Why there is no plan: an input has no schema, so nothing was ever written to it.

    Not an error.
    """

    dataset_id: DatasetId


@dataclass(frozen=True, slots=True, kw_only=True)
class _Declared:
    dataset_id: DatasetId
    query_alias: str


def transform_inputs(state: ChainState) -> tuple[DatasetId, ...]:
    """Identities of the inputs that the current SetTransform names, in its order.

    Raises InvalidRequest without one.
    """
    return tuple(entry.dataset_id for entry in _declared_inputs(_current_transform(state)))


def plan_transform(
    state: ChainState,
    inputs: Mapping[DatasetId, InputChain],
    *,
    system_time: Instant,
    blocks_max: int,
    change: TransformChange | None = None,
) -> TransformPlan | InputNeverPulled:
    """The next transaction on top of `state`; look at `is_due` before running it.

    `inputs` holds at least the datasets of `transform_inputs(state)`, each at the block up to which the transaction reads it.
    Raises InvalidRequest if the dataset has no transform or its inputs were changed, ChainsDiverged if what was consumed
    before is no longer in an input's chain, LimitExceeded for more than `blocks_max` new blocks of one input.
    """
    progress = progress_so_far(state)
    return _plan(state, inputs, progress, system_time=system_time, blocks_max=blocks_max, change=change)


def progress_so_far(state: ChainState) -> Sequence[ExecuteTransformInput]:
    """Per input an empty interval that begins where the previous transaction ended.

    Raises InvalidRequest as `plan_transform`.
    """
    declared = _declared_inputs(_current_transform(state))
    if state.execute_transform is None:
        return [ExecuteTransformInput(dataset_id=entry.dataset_id) for entry in declared]
    previous = state.execute_transform.event.query_inputs
    if [progress.dataset_id for progress in previous] != [entry.dataset_id for entry in declared]:
        raise _inputs_changed()
    return [
        ExecuteTransformInput(
            dataset_id=progress.dataset_id,
            prev_block_hash=last_input_block_of(progress),
            prev_offset=last_input_offset_of(progress),
        )
        for progress in previous
    ]


def links_since(chain: InputChain, prev_block: Multihash | None, *, blocks_max: int) -> Iterator[ChainLink]:
    """Links of `(prev_block, state]` of an input, newest first.

    Raises ChainsDiverged, LimitExceeded.
    """
    try:
        yield from walk(chain.blocks, chain.state.head, tail=prev_block, blocks_max=blocks_max)
    except ChainsDiverged as error:
        raise ChainsDiverged(
            f"Input {chain.handle.alias} has diverged: block {prev_block}, consumed before, is not in its chain any more",
            hint="`odf pull --recompute`, or `recompute` in the body of a pull, drops the rows and computes them from the beginning",
        ) from error


def watermark_at(blocks: BlockSource, block_hash: Multihash | None) -> Instant | None:
    """The watermark at a block: that of the nearest data block at or before it."""
    for link in walk(blocks, block_hash):
        event = link.block.event
        if isinstance(event, AddData | ExecuteTransform):
            return event.new_watermark
    return None


def replay_inputs(event: ExecuteTransform) -> dict[DatasetId, Multihash | None]:
    """Up to which block of each input a committed transaction has read.

    There `plan_replay` wants the inputs' states.
    """
    return {progress.dataset_id: last_input_block_of(progress) for progress in event.query_inputs}


def plan_replay(
    state_before: ChainState,
    event: ExecuteTransform,
    inputs: Mapping[DatasetId, InputChain],
    *,
    system_time: Instant,
    blocks_max: int,
    change: TransformChange | None = None,
    from_beginning: bool = False,
) -> TransformPlan | InputNeverPulled:
    """The transaction that the block with `event` on `state_before` must have been.

    `from_beginning`: with all slices and steps of its inputs up to there.

    `inputs` are at the blocks of `replay_inputs`. The progress in the plan is worked out from the inputs' chains, not copied
    from the block, so a block that lies about it differs from its replay. Raises as `plan_transform`.
    """
    declared = _declared_inputs(_current_transform(state_before))
    if [entry.dataset_id for entry in declared] != [progress.dataset_id for progress in event.query_inputs]:
        raise _inputs_changed()
    return _plan(
        state_before,
        inputs,
        event.query_inputs,
        system_time=system_time,
        blocks_max=blocks_max,
        change=change,
        from_beginning=from_beginning,
    )


def plan_execute_transform(
    state: ChainState,
    plan: TransformPlan,
    *,
    data_schema: DataSchema,
    new_data: DataSlice | None,
    new_checkpoint: Checkpoint | None,
    watermark: Instant | None,
) -> list[MetadataEvent]:
    """Events of a finished transaction, oldest first.

    A checkpoint that the engine did not renew is repeated; its watermark never goes back. Without data, checkpoint and
    watermark no ExecuteTransform can be recorded (rule A6) and the inputs wait for the next run.
    Raises IncompatibleSchema if the output does not fit the dataset.
    """
    events = schema_events(state, data_schema)
    event = executed(plan, new_data=new_data, new_checkpoint=new_checkpoint, watermark=watermark)
    progressed = any(entry.progress.new_block_hash is not None for entry in plan.inputs)
    changed = (
        new_data is not None
        or event.new_checkpoint != plan.prev_checkpoint
        or event.new_watermark != plan.prev_watermark
    )
    recordable = new_data is not None or event.new_checkpoint is not None or event.new_watermark is not None
    return [*events, event] if recordable and (progressed or changed) else events


def executed(
    plan: TransformPlan,
    *,
    new_data: DataSlice | None,
    new_checkpoint: Checkpoint | None,
    watermark: Instant | None,
) -> ExecuteTransform:
    """The event of a finished transaction; also what a replayed one is compared with."""
    return ExecuteTransform(
        query_inputs=tuple(entry.progress for entry in plan.inputs),
        prev_checkpoint=plan.prev_checkpoint.physical_hash if plan.prev_checkpoint else None,
        prev_offset=plan.prev_offset,
        new_data=new_data,
        new_checkpoint=new_checkpoint or plan.prev_checkpoint,
        new_watermark=transform_watermark(plan.prev_watermark, computed=watermark),
    )


def _current_transform(state: ChainState) -> SetTransform:
    if state.transform is None:
        raise InvalidRequest(
            "The dataset has no transform", hint="only derivative datasets with SetTransform can be run"
        )
    return state.transform.event


def _declared_inputs(event: SetTransform) -> tuple[_Declared, ...]:
    declared: list[_Declared] = []
    for entry in event.inputs:
        dataset_id = input_dataset_id(entry)
        if dataset_id is None or entry.alias is None:
            raise InvalidRequest(f"Input {entry.dataset_ref} of the transform is not resolved")
        declared.append(_Declared(dataset_id=dataset_id, query_alias=entry.alias))
    return tuple(declared)


def _inputs_changed() -> InvalidRequest:
    return InvalidRequest(
        "The inputs of the transform are not those of its earlier transactions",
        hint="declare a new dataset with this transform",
    )


def _plan(
    state: ChainState,
    inputs: Mapping[DatasetId, InputChain],
    progress: Sequence[ExecuteTransformInput],
    *,
    system_time: Instant,
    blocks_max: int,
    change: TransformChange | None,
    from_beginning: bool = False,
) -> TransformPlan | InputNeverPulled:
    transform = _current_transform(state)
    from_beginning = from_beginning or (change is not None and change.migrates)
    planned: list[PlannedInput] = []
    for entry, since in zip(_declared_inputs(transform), progress, strict=True):
        found = _plan_input(
            inputs[entry.dataset_id], entry, since, blocks_max=blocks_max, from_beginning=from_beginning
        )
        if found is None:
            return InputNeverPulled(entry.dataset_id)
        planned.append(found)
    last = state.execute_transform.event if state.execute_transform else None
    return TransformPlan(
        dataset_id=state.dataset_id,
        system_time=system_time,
        transform=transform.transform,
        vocabulary=state.vocabulary,
        data_schema=current_schema(state),
        inputs=tuple(planned),
        prev_checkpoint=last.new_checkpoint if last else None,
        prev_offset=state.last_offset,
        prev_watermark=state.watermark,
        change=change,
    )


def _plan_input(
    chain: InputChain, declared: _Declared, since: ExecuteTransformInput, *, blocks_max: int, from_beginning: bool
) -> PlannedInput | None:
    data_schema = current_schema(chain.state)
    if data_schema is None:
        return None
    prev_block, prev_offset = since.prev_block_hash, since.prev_offset
    slices, steps = _read_interval(chain, prev_block, blocks_max=blocks_max)
    head, last_offset = chain.state.head, chain.state.last_offset
    progress = ExecuteTransformInput(
        dataset_id=declared.dataset_id,
        prev_block_hash=prev_block,
        new_block_hash=None if head == prev_block else head,
        prev_offset=prev_offset,
        new_offset=None if last_offset == prev_offset else last_offset,
    )
    newest = next((step.watermark for step in reversed(steps) if step.watermark is not None), None)
    steps_before = 0
    if from_beginning:
        new_steps = len(steps)
        slices, steps = _read_interval(chain, None, blocks_max=blocks_max)
        steps_before = len(steps) - new_steps
    return PlannedInput(
        dataset_id=declared.dataset_id,
        query_alias=declared.query_alias,
        vocabulary=chain.state.vocabulary,
        data_schema=data_schema,
        progress=progress,
        slices=slices,
        steps=steps,
        watermark_advances=newest is not None and newest != watermark_at(chain.blocks, prev_block),
        from_beginning=from_beginning,
        steps_before=steps_before,
    )


def _read_interval(
    chain: InputChain, prev_block: Multihash | None, *, blocks_max: int
) -> tuple[tuple[DataSlice, ...], tuple[TransformStep, ...]]:
    """Slices and steps of the data blocks in `(prev_block, head]`, oldest first."""
    slices: list[DataSlice] = []
    steps: list[TransformStep] = []
    for link in links_since(chain, prev_block, blocks_max=blocks_max):
        event = link.block.event
        if not isinstance(event, AddData | ExecuteTransform):
            continue
        if event.new_data is not None:
            slices.append(event.new_data)
        step = TransformStep(
            system_time=link.block.system_time, last_offset=last_offset_of(event), watermark=event.new_watermark
        )
        steps.append(step)
    return tuple(reversed(slices)), tuple(reversed(steps))
