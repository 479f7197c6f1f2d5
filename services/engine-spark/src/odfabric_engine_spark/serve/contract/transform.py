"""ExecuteTransform of `engine.Engine`, by way of our own operation.

Owns what the contract leaves for the engine to find out: schemas, where an input goes on, which rows came with which block.
Invariant: a transaction asked for in either contract has the same rows. Checkpoints are one full file each way; one that
another engine wrote is refused with a reason. Not here: paths and answers (`servicer`), blocks (`blocks`).
Source: specification, "Engine Contract"; docs/engine.md#checkpoints.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from odfabric.errors import IncompatibleSchema, InvalidData, InvalidRequest, Place
from odfabric.formats.blocks.engine_contract import vocabulary_from_contract
from odfabric.formats.parquet.parquet_reading import arrow_schema_of, open_parquet
from odfabric.formats.slices.arrow_schema import arrow_to_data_schema
from odfabric.model import engine_contract as contract
from odfabric.model.data_schema import DataSchema
from odfabric.model.engine import TransformRequest, TransformRequestInput
from odfabric.model.offsets import OffsetRange
from odfabric_engine_spark.execute.execute_transform import execute_transform
from odfabric_engine_spark.serve.contract.blocks import read_block, steps_of_blocks
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.state.checkpoint import InputPosition, read_checkpoint

_log = logging.getLogger(__name__)


def execute_contract_transform(
    request: contract.TransformRequest, call: EngineCall
) -> contract.TransformResponseSuccess:
    """Runs one transaction.

    Raises as `execute_transform` does, and InvalidRequest for what contradicts itself.
    """
    result = execute_transform(_as_ours(request, call), call)
    if result.late_rows_dropped:
        # The contract has no place for it.
        _log.warning("%d rows came too late for %s and were dropped", result.late_rows_dropped, request.dataset_alias)
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
    blocks = [read_block(path, vocabulary, call.exchange) for path in one.data_paths]
    with open_parquet(call.exchange.input(one.schema_file)) as file:
        schema = arrow_schema_of(file)
    for name in (vocabulary.offset, vocabulary.operation_type, vocabulary.system_time, vocabulary.event_time):
        if name not in schema.names:
            place = Place(file=one.schema_file, field=name, rule="file-no-schema")
            raise InvalidData(f"the schema file of input {one.query_alias} has no column {name}", place=place)
    return TransformRequestInput(
        dataset_id=one.dataset_id,
        query_alias=one.query_alias,
        vocabulary=vocabulary,
        data_schema=_data_schema(schema, one.schema_file),
        offsets=offsets,
        slices=tuple(block.slice for block in blocks),
        steps=tuple(steps_of_blocks(blocks, one.explicit_watermarks, offsets)),
    )


def _data_schema(schema: pa.Schema, path: str) -> DataSchema:
    try:
        return arrow_to_data_schema(schema)
    except IncompatibleSchema as error:  # here it is said of outputs of queries
        place = replace(error.place, file=path, rule="file-no-schema")
        raise InvalidData(error.message, place=place, hint=error.hint) from error


def _offsets(one: contract.TransformRequestInput, positions: Sequence[InputPosition]) -> OffsetRange:
    if one.offset_interval is not None:
        if one.offset_interval.end < one.offset_interval.start:
            raise InvalidRequest(f"the offset interval of input {one.query_alias} ends before it begins")
        return OffsetRange.from_wire(one.offset_interval)
    begin = next((each.next_offset for each in positions if each.dataset_id == str(one.dataset_id)), 0)
    return OffsetRange(begin, begin)
