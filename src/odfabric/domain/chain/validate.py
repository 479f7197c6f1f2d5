"""What may be appended to a chain: every rule, judged on the state at its head.

Owns the verdict and its order: checks on the block alone (A), against the chain (B), the final checks of data and schema
events (C), then those in which we are stricter than the reference (X); the first violation is raised as InvalidBlock with
the reference's error name in `kind` and the rule's id in `place.rule`. Not here: whether stored bytes hash to the expected
value (rule D1) and whether the head is still the same when it moves (F1): `usecases.chain.commit`.

| X1 | AddData only in root datasets                   | X8  | column names stay once there are records                |
| X2 | ExecuteTransform only in derivative ones        | X9  | SetDataSchema has exactly one of its two forms          |
| X3 | SetTransform only in derivative ones            | X10 | offsets and sizes fit signed 64-bit integers            |
| X4 | sources only in root datasets                   | X11 | times are in the years 0001 to 9999                     |
| X5 | the first data block carries no previous offset | X12 | the four system columns have four names, none empty     |
| X6 | the first transaction over an input starts at its beginning | X13 | a schema decodes, and its names are distinct |
| X7 | system time at most five minutes ahead of ours  | X14 | offsets of inputs do not go back                        |

X10 to X14 are judged by `chain.bounds`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from odfabric.domain.chain.bounds import check_bounds
from odfabric.domain.chain.schema_evolution import check_evolution
from odfabric.domain.chain.state import (
    ChainState,
    DataEvent,
    last_input_block_of,
    last_input_offset_of,
    last_offset_of,
)
from odfabric.errors import InvalidBlock, InvalidName
from odfabric.formats.identifiers.did import parse_dataset_id
from odfabric.model.identity import DatasetId
from odfabric.model.instant import NANOS_PER_SECOND, Instant
from odfabric.model.metadata import (
    AddData,
    AddPushSource,
    DatasetKind,
    DisablePollingSource,
    DisablePushSource,
    ExecuteTransform,
    ExecuteTransformInput,
    MetadataBlock,
    MetadataEvent,
    OffsetInterval,
    Seed,
    SetAttachments,
    SetDataSchema,
    SetInfo,
    SetLicense,
    SetPollingSource,
    SetTransform,
    SetVocab,
    Transform,
    TransformInput,
)
from odfabric.model.multihash import Multihash
from odfabric.model.source import FetchStepEthereumLogs, ReadStep
from odfabric.model.vocabulary import DatasetVocabulary

SYSTEM_TIME_AHEAD_S_MAX = 300


def validate_append(
    state: ChainState,
    block: MetadataBlock,
    *,
    now: Instant | None = None,
    ahead_s_max: int = SYSTEM_TIME_AHEAD_S_MAX,
) -> None:
    """Judge whether `block` may follow the chain that `state` describes.

    `now` is given where blocks of others are received: system times more than `ahead_s_max` seconds later are refused.
    Raises InvalidBlock.
    """
    _check_block(block)
    _check_link(state, block)
    _check_event(state, block.event)
    _check_kind(state, block.event)
    _check_not_ahead(block, now=now, ahead_s_max=ahead_s_max)
    check_bounds(block)


def _refused(rule: str, message: str, *, kind: str, hint: str | None = None) -> InvalidBlock:
    return InvalidBlock(message, kind=kind, rule=rule, hint=hint)


def _invalid(rule: str, event: MetadataEvent, message: str, *, hint: str | None = None) -> InvalidBlock:
    return _refused(rule, f"Invalid event: {message}: {type(event).__name__}", kind="InvalidEvent", hint=hint)


def _no_op(rule: str, event: MetadataEvent, message: str) -> InvalidBlock:
    return _refused(rule, f"No-op event: {message}: {type(event).__name__}", kind="NoOpEvent")


# --- A: the block alone -----------------------------------------------------------------------------------------------


def _check_block(block: MetadataBlock) -> None:
    event, number = block.event, block.sequence_number
    if isinstance(event, DisablePollingSource | DisablePushSource):
        raise _invalid("A1", event, "Disabling sources is not supported yet")
    if isinstance(event, Seed) and block.prev_block_hash is not None:
        raise _seed_on_top("A2")
    if not isinstance(event, Seed) and block.prev_block_hash is None:
        raise _no_seed()
    if block.prev_block_hash is None and number != 0:
        raise _refused("A4", f"Block sequence has to start with zero, not {number}", kind="SequenceIntegrity")
    _check_event_alone(event)


def _no_seed() -> InvalidBlock:
    return _refused(
        "A3",
        "First block has to be a seed, perhaps new block does not link to the previous",
        kind="FirstBlockMustBeSeed",
    )


def _seed_on_top(rule: str) -> InvalidBlock:
    return _refused(rule, "Attempt to append seed block to a non-empty chain", kind="AppendingSeedBlockToNonEmptyChain")


def _check_event_alone(event: MetadataEvent) -> None:
    match event:
        case AddData():
            if event.new_source_state is None:
                _check_not_empty("A5", event)
            _check_offsets(event)
        case ExecuteTransform():
            _check_not_empty("A6", event)
            _check_offsets(event)
        case AddPushSource():
            _check_source_alone(event)
        case SetPollingSource():
            _check_source_alone(event)
            _check_fetch(event)
        case SetTransform():
            _check_inputs(event)
            _check_normalised("A12", event, event.transform)
        case SetDataSchema():
            if (event.schema is None) == (event.raw_arrow_schema is None):
                raise _invalid("X9", event, "Exactly one of the two forms of a schema has to be present")
        case Seed() | SetVocab() | SetInfo() | SetLicense() | SetAttachments():
            pass
        case DisablePushSource() | DisablePollingSource():
            pass
        case _:
            assert_never(event)


def _check_not_empty(rule: str, event: DataEvent) -> None:
    if event.new_data is None and event.new_checkpoint is None and event.new_watermark is None:
        raise _no_op(rule, event, "Event is empty")


def _check_offsets(event: DataEvent) -> None:
    if event.new_data is None:
        return
    interval: OffsetInterval = event.new_data.offset_interval
    start = 0 if event.prev_offset is None else event.prev_offset + 1
    if interval.start != start:
        raise _refused(
            "A7",
            f"Expected offset interval to start at {start} but got {interval.start}",
            kind="OffsetsAreNotSequential",
        )
    if interval.end < interval.start:
        raise _invalid("A8", event, "Invalid offset interval")


def _check_source_alone(event: AddPushSource | SetPollingSource) -> None:
    if event.preprocess is not None:
        _check_normalised("A9", event, event.preprocess)
    read: ReadStep = event.read
    if read.schema is not None and read.ddl_schema is not None:
        raise _invalid("A9", event, "Cannot specify both DDL and ODF schemas at once")


def _check_fetch(event: SetPollingSource) -> None:
    fetch = event.fetch
    if isinstance(fetch, FetchStepEthereumLogs) and fetch.chain_id is None and fetch.node_url is None:
        raise _invalid("A10", event, "Eth source must specify chainId or nodeUrl")


def _check_inputs(event: SetTransform) -> None:
    if not event.inputs:
        raise _invalid("A11", event, "Transform must have at least one input")
    ids = [input_dataset_id(entry) for entry in event.inputs]
    known = [dataset_id for dataset_id in ids if dataset_id is not None]
    duplicates = sorted({dataset_id for dataset_id in known if known.count(dataset_id) > 1})
    if duplicates:
        listed = ", ".join(str(dataset_id) for dataset_id in duplicates)
        raise _invalid("A11", event, f"Transform contains duplicate inputs: {listed}")
    if None in ids or any(entry.alias is None for entry in event.inputs):
        raise _invalid("A11", event, "Transform inputs must be resolved to dataset IDs and specify aliases")


def input_dataset_id(entry: TransformInput) -> DatasetId | None:
    """The identity that an input of a SetTransform names, None if it is not (yet) one."""
    try:
        return parse_dataset_id(entry.dataset_ref)
    except InvalidName:
        return None


def _check_normalised(rule: str, event: MetadataEvent, transform: Transform) -> None:
    if transform.query is not None:
        raise _invalid(rule, event, "Transform queries must be normalized")
    if not transform.queries:
        raise _invalid(rule, event, "Transform must have at least one query")
    *steps, output = transform.queries
    if output.alias is not None:
        raise _invalid(rule, event, "Last query in a transform must have no alias an will be treated as an output")
    if any(step.alias is None for step in steps):
        raise _invalid(rule, event, "In a transform all queries except the last one must have aliases")


# --- B: the link ------------------------------------------------------------------------------------------------------


def _check_link(state: ChainState, block: MetadataBlock) -> None:
    prev = block.prev_block_hash
    if prev is None:
        if state.head is not None:
            raise _seed_on_top("A2")
        return
    if state.head != prev or state.sequence_number is None or state.system_time is None:
        raise _refused("B0", f"Invalid previous block: {prev}", kind="PrevBlockNotFound")
    if state.sequence_number + 1 != block.sequence_number:
        raise _refused(
            "B1",
            f"Block {prev} with sequence number {state.sequence_number} cannot be followed by block "
            f"with sequence number {block.sequence_number}",
            kind="SequenceIntegrity",
        )
    if block.system_time < state.system_time:
        raise _refused("B2", "System time has to be monotonically non-decreasing", kind="SystemTimeIsNotMonotonic")


# --- B and C: the event against the chain -----------------------------------------------------------------------------


def _check_event(state: ChainState, event: MetadataEvent) -> None:
    match event:
        case AddData():
            _check_carried(state, event)
            _check_add_data(state, event)
        case ExecuteTransform():
            _check_carried(state, event)
            _check_execute_transform(state, event)
        case AddPushSource():
            _check_add_push_source(state, event)
        case SetPollingSource():
            if state.push_sources:
                raise _invalid("B6", event, "Cannot add a polling source while some push sources are still active")
        case SetDataSchema():
            if state.schema is not None:
                check_evolution(event, state.schema.event)
        case SetVocab():
            _check_vocabulary(state, event)
        case Seed() | SetTransform() | SetInfo() | SetLicense() | SetAttachments():
            pass
        case DisablePushSource() | DisablePollingSource():
            pass
        case _:
            assert_never(event)


def _check_carried(state: ChainState, event: DataEvent) -> None:
    """What a data event repeats of the nearest earlier data block, of either kind."""
    if state.last_data is None:
        if event.prev_offset is not None:
            raise _invalid("X5", event, "Carried prev offset does not correspond to the last offset in the chain")
        return
    last = state.last_data.event
    if last.new_watermark is not None and (event.new_watermark is None or event.new_watermark < last.new_watermark):
        raise _refused("B3", "Watermark has to be monotonically increasing", kind="WatermarkIsNotMonotonic")
    if event.prev_offset != last_offset_of(last):
        raise _invalid("B4", event, "Carried prev offset does not correspond to the last offset in the chain")


def _check_schema_present(state: ChainState, event: DataEvent) -> None:
    if event.new_data is not None and state.schema is None:
        raise _invalid("C1", event, "SetDataSchema event must be present before adding data")


def _check_add_data(state: ChainState, event: AddData) -> None:
    _check_schema_present(state, event)
    last = None if state.add_data is None else state.add_data.event
    _check_checkpoint("C2", event, last)
    advances = _data_checkpoint_or_watermark_advances(event, last) or event.new_source_state != (
        None if last is None else last.new_source_state
    )
    if not advances:
        raise _no_op("C3", event, "Event neither has data nor it advances checkpoint, watermark, or source state")


def _check_checkpoint(rule: str, event: DataEvent, last: DataEvent | None) -> None:
    expected = _checkpoint_hash(last)
    if event.prev_checkpoint != expected:
        raise _invalid(rule, event, "Input checkpoint does not correspond to the last checkpoint in the chain")


def _checkpoint_hash(event: DataEvent | None) -> Multihash | None:
    return None if event is None or event.new_checkpoint is None else event.new_checkpoint.physical_hash


def _data_checkpoint_or_watermark_advances(event: DataEvent, last: DataEvent | None) -> bool:
    return (
        event.new_data is not None
        or _checkpoint_hash(event) != event.prev_checkpoint
        or event.new_watermark != (None if last is None else last.new_watermark)
    )


def _check_add_push_source(state: ChainState, event: AddPushSource) -> None:
    """The nearest of three decides.

    The same source, a polling source, a Disable event.
    """
    same = state.push_source(event.source_name)
    found = [located for located in (same, state.polling_source, state.disabled) if located is not None]
    if not found:
        return
    nearest = max(found, key=lambda located: located.sequence_number).event
    match nearest:
        case AddPushSource():
            if nearest == event:
                raise _no_op("B5", event, "New push source is identical to existing")
        case SetPollingSource():
            raise _invalid("B5", event, "Cannot add a push source while polling source is still active")
        case DisablePushSource() | DisablePollingSource():
            raise _invalid("B5", event, "Source evolution is not yet fully supported")


def _check_execute_transform(state: ChainState, event: ExecuteTransform) -> None:
    _check_schema_present(state, event)
    last = None if state.execute_transform is None else state.execute_transform.event
    _check_input_order(state, event, last)
    if state.transform is None and last is None:
        raise _invalid("C5", event, "ExecuteTransform must be preceded by SetTransform event")
    previous = () if last is None else last.query_inputs
    for position, progress in enumerate(event.query_inputs):
        _check_input_progress(event, progress, previous[position] if position < len(previous) else None)
    _check_checkpoint("C11", event, last)
    inputs_advance = any(progress.new_block_hash is not None for progress in event.query_inputs)
    if not inputs_advance and not _data_checkpoint_or_watermark_advances(event, last):
        raise _no_op("C12", event, "Event neither has data nor it advances inputs, checkpoint, or watermark")


def _check_input_order(state: ChainState, event: ExecuteTransform, last: ExecuteTransform | None) -> None:
    declared: Sequence[DatasetId | None]
    if state.transform is not None:
        declared = [input_dataset_id(entry) for entry in state.transform.event.inputs]
    elif last is not None:
        declared = [progress.dataset_id for progress in last.query_inputs]
    else:
        return
    if [progress.dataset_id for progress in event.query_inputs] != declared:
        raise _invalid("C4", event, "Inputs must be listed in same order as initially declared in SetTransform event")


def _check_input_progress(
    event: ExecuteTransform, progress: ExecuteTransformInput, previous: ExecuteTransformInput | None
) -> None:
    if progress.new_block_hash is not None and progress.new_block_hash == progress.prev_block_hash:
        raise _invalid("C6", event, "Invalid input block interval")
    if progress.new_offset is not None and progress.new_offset == progress.prev_offset:
        raise _invalid("C7", event, "Invalid input offset interval")
    if progress.prev_block_hash != (None if previous is None else last_input_block_of(previous)):
        raise _invalid(
            "C8" if previous is not None else "X6",
            event,
            "Input prevBlockHash does not correspond to the last block included in the previous query",
        )
    if progress.prev_offset != (None if previous is None else last_input_offset_of(previous)):
        raise _invalid(
            "C9" if previous is not None else "X6",
            event,
            "Input prevOffset hash does not correspond to the last offset included in the previous query",
        )
    if progress.new_offset is not None and progress.new_block_hash is None:
        raise _invalid("C10", event, "Input specifies a non-empty offset interval, but its block interval is empty")


# --- X: stricter than the reference -----------------------------------------------------------------------------------


def _check_kind(state: ChainState, event: MetadataEvent) -> None:
    if isinstance(event, Seed):
        return
    if state.seed is None:
        raise _no_seed()
    kind = state.kind
    match event:
        case AddData() if kind is not DatasetKind.ROOT:
            raise _invalid("X1", event, "AddData event is only allowed on root datasets")
        case ExecuteTransform() if kind is not DatasetKind.DERIVATIVE:
            raise _invalid("X2", event, "ExecuteTransform is only allowed on derivative datasets")
        case SetTransform() if kind is not DatasetKind.DERIVATIVE:
            raise _invalid("X3", event, "SetTransform is only allowed on derivative datasets")
        case SetPollingSource() | AddPushSource() if kind is not DatasetKind.ROOT:
            raise _invalid("X4", event, f"{type(event).__name__} event is only allowed on root datasets")
        case _:
            pass


def _check_vocabulary(state: ChainState, event: SetVocab) -> None:
    if state.last_offset is not None and DatasetVocabulary.from_event(event) != state.vocabulary:
        raise _invalid(
            "X8",
            event,
            "Names of system columns cannot change once there are records",
            hint="records written so far carry the old names; create another dataset",
        )


def _check_not_ahead(block: MetadataBlock, *, now: Instant | None, ahead_s_max: int) -> None:
    if now is None:
        return
    ahead_ns = block.system_time.epoch_ns - now.epoch_ns
    if ahead_ns > ahead_s_max * NANOS_PER_SECOND:
        raise _refused(
            "X7",
            f"System time is {ahead_ns // NANOS_PER_SECOND} s ahead, which is more than {ahead_s_max} s",
            kind="SystemTimeIsInFuture",
            hint="check the clock of the node that wrote the block",
        )
