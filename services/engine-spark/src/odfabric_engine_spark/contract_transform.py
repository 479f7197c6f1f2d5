"""Operations of the contract `engine.Engine`, which coordinators of the reference use, by way of our own.

Owns what the contract leaves for the engine to find out: offsets and system times of slices, schemas, where an input goes on,
and which watermark belongs to which block. Invariant: a transaction asked for in either contract has the same rows. Where
blocks cannot be told apart (equal system times), rows come before watermarks, so that none is late by mistake. Checkpoints
are one full file each way; one that another engine wrote is refused with a reason. Not here: paths and answers
(`contract_servicer`). Source: specification facts, "Transforms" 3, 4 and 7; rulings on steps and checkpoints.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import types

from odfabric.errors import InvalidData, InvalidRequest, Place
from odfabric.formats.arrow_schema import arrow_to_data_schema
from odfabric.formats.engine_contract import vocabulary_from_contract
from odfabric.formats.parquet_reading import arrow_schema_of, batches_of, open_parquet
from odfabric.model import engine_contract as contract
from odfabric.model.engine import SliceFile, TransformRequest, TransformRequestInput, TransformStep
from odfabric.model.instant import NANOS_PER_MILLI, Instant
from odfabric.model.offsets import OffsetRange
from odfabric.model.vocabulary import DatasetVocabulary
from odfabric_engine_spark.call import EngineCall
from odfabric_engine_spark.checkpoint import InputPosition, read_checkpoint
from odfabric_engine_spark.incremental.execute import execute_transform

_MILLIS = pa.timestamp("ms", "UTC")


@dataclass(frozen=True, slots=True)
class _Block:
    """A slice as its block would tell of it. System times of rows are whole milliseconds."""

    slice: SliceFile
    system_ms: int


def execute_contract_transform(
    request: contract.TransformRequest, call: EngineCall
) -> contract.TransformResponseSuccess:
    """Runs one transaction. Raises as `execute_transform` does, and InvalidRequest for what contradicts itself."""
    result = execute_transform(_as_ours(request, call), call)
    return contract.TransformResponseSuccess(
        new_offset_interval=None if result.offsets is None else result.offsets.to_wire(),
        new_watermark=result.watermark,
    )


def _as_ours(request: contract.TransformRequest, call: EngineCall) -> TransformRequest:
    checkpoint = request.prev_checkpoint_path
    positions = () if checkpoint is None else _positions(checkpoint, call)
    return TransformRequest(
        dataset_id=request.dataset_id,
        vocabulary=vocabulary_from_contract(request.vocab),
        transform=request.transform,
        inputs=tuple(_input(one, positions, call) for one in request.query_inputs),
        data_schema=None,
        prev_watermark=None,
        system_time=request.system_time,
        next_offset=request.next_offset,
        checkpoint_paths=() if checkpoint is None else (checkpoint,),
        new_checkpoint_path=request.new_checkpoint_path,
        new_data_path=request.new_data_path,
    )


def _positions(path: str, call: EngineCall) -> Sequence[InputPosition]:
    return read_checkpoint(call.exchange.input(path), name=path).inputs


def _input(
    one: contract.TransformRequestInput, positions: Sequence[InputPosition], call: EngineCall
) -> TransformRequestInput:
    if (one.offset_interval is None) != (not one.data_paths):
        raise InvalidRequest(f"input {one.query_alias} has an offset interval or data paths, not both")
    vocabulary = vocabulary_from_contract(one.vocab)
    offsets = _offsets(one, positions)
    blocks = [_block(path, vocabulary, call) for path in one.data_paths]
    with open_parquet(call.exchange.input(one.schema_file)) as file:
        data_schema = arrow_to_data_schema(arrow_schema_of(file))
    return TransformRequestInput(
        dataset_id=one.dataset_id,
        query_alias=one.query_alias,
        vocabulary=vocabulary,
        data_schema=data_schema,
        offsets=offsets,
        slices=tuple(block.slice for block in blocks),
        steps=tuple(_steps(blocks, one.explicit_watermarks, offsets)),
    )


def _offsets(one: contract.TransformRequestInput, positions: Sequence[InputPosition]) -> OffsetRange:
    if one.offset_interval is not None:
        if one.offset_interval.end < one.offset_interval.start:
            raise InvalidRequest(f"the offset interval of input {one.query_alias} ends before it begins")
        return OffsetRange.from_wire(one.offset_interval)
    begin = next((each.next_offset for each in positions if each.dataset_id == str(one.dataset_id)), 0)
    return OffsetRange(begin, begin)


def _block(path: str, vocabulary: DatasetVocabulary, call: EngineCall) -> _Block:
    """What the first and the last row of a slice say; rows in between are checked when they are read."""
    with open_parquet(call.exchange.input(path)) as file:
        rows = file.metadata.num_rows
        schema = arrow_schema_of(file)
        if rows == 0 or vocabulary.offset not in schema.names or vocabulary.system_time not in schema.names:
            raise InvalidData("not a data slice: it lacks rows, offsets or system times", place=Place(file=path))
        first = next(batches_of(file, [vocabulary.offset], row_groups=[0])).column(0)
        for last in batches_of(file, [vocabulary.system_time], row_groups=[file.num_row_groups - 1]):
            times = last.column(0)
    begin, system_time = first[0], times[-1]
    if not types.is_integer(begin.type) or not types.is_timestamp(system_time.type):
        raise InvalidData("offset or system time of a slice has a wrong type", place=Place(file=path))
    if not begin.is_valid or not system_time.is_valid:
        raise InvalidData("offset or system time of a slice is null", place=Place(file=path))
    offset = begin.as_py()
    millis = pa.array([system_time]).cast(_MILLIS, safe=False).cast(pa.int64())[0].as_py()
    return _Block(SliceFile(path=path, offsets=OffsetRange(offset, offset + rows)), millis)


def _steps(
    blocks: Sequence[_Block], marks: Sequence[contract.Watermark], offsets: OffsetRange
) -> Iterator[TransformStep]:
    """Blocks of the input, oldest first, put together again from their slices and their watermarks by system time."""
    last = offsets.begin - 1 if offsets.begin else None
    for system_ms in sorted({*(block.system_ms for block in blocks), *(_millis(mark.system_time) for mark in marks)}):
        data = [block for block in blocks if block.system_ms == system_ms]
        found = [mark.event_time for mark in marks if _millis(mark.system_time) == system_ms]
        paired = len(data) == len(found)
        time = Instant.from_millis(system_ms)
        for number, block in enumerate(data):
            last = min(block.slice.offsets.end, offsets.end) - 1
            yield TransformStep(system_time=time, last_offset=last, watermark=found[number] if paired else None)
        for watermark in () if paired else found:
            yield TransformStep(system_time=time, last_offset=last, watermark=watermark)


def _millis(instant: Instant) -> int:
    return instant.epoch_ns // NANOS_PER_MILLI
