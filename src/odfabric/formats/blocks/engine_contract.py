"""Messages of the engine contract `engine.Engine` on the wire.

A FlatBuffer in the one field of a protobuf message.

Owns names of service and methods, both wrappings, and the refusal of anything else. Invariant: what is written has the one
form of all writers of the specification; what is read may have fields in another order, but lies within bounds, and any bytes
give a value or InvalidRequest. Not here: what messages mean (the engine's and the coordinator's side each know their own).
Source: the reference's engine contract.
"""

from __future__ import annotations

from typing import TypeVar

from google.protobuf.message import DecodeError
from google.protobuf.wrappers_pb2 import BytesValue

from odfabric.errors import InvalidRequest
from odfabric.formats.blocks.flatbuffer_reader import Damaged, FlatBufferReader
from odfabric.formats.blocks.flatbuffer_writer import FlatBufferWriter, Unencodable
from odfabric.model import engine_contract as contract
from odfabric.model.vocabulary import DatasetVocabulary

NounT = TypeVar("NounT")

SERVICE = "engine.Engine"
EXECUTE_RAW_QUERY = "ExecuteRawQuery"
EXECUTE_TRANSFORM = "ExecuteTransform"

MESSAGE_DEPTH_MAX = 8
"""Deepest nesting of tables: request, transform, temporal table, and some to spare."""


def encode_message(noun: object) -> bytes:
    """A message of the contract.

    Raises InvalidRequest for a value that has no binary form.
    """
    try:
        buffer = FlatBufferWriter(depth_max=MESSAGE_DEPTH_MAX).finish(noun)
    except Unencodable as error:
        raise InvalidRequest(f"a message to an engine has no binary form: {error}") from None
    # The contract's messages are this well-known one in all but name: bytes with the number 1.
    message: bytes = BytesValue(value=buffer).SerializeToString()
    return message


def decode_message(kind: type[NounT], data: bytes) -> NounT:
    """The message of that kind in bytes that nobody has vouched for.

    Raises InvalidRequest.
    """
    try:
        buffer = BytesValue.FromString(data).value
        noun: NounT = FlatBufferReader(buffer, depth_max=MESSAGE_DEPTH_MAX, any_layout=True).root(kind)
    except (DecodeError, Damaged) as error:
        raise InvalidRequest(
            f"not a {kind.__name__} of the engine contract: {error}",
            hint="coordinator and engine must speak the same version of the contract",
        ) from None
    return noun


def vocabulary_to_contract(vocabulary: DatasetVocabulary) -> contract.DatasetVocabulary:
    """All four names."""
    return contract.DatasetVocabulary(
        offset_column=vocabulary.offset,
        operation_type_column=vocabulary.operation_type,
        system_time_column=vocabulary.system_time,
        event_time_column=vocabulary.event_time,
    )


def vocabulary_from_contract(vocab: contract.DatasetVocabulary) -> DatasetVocabulary:
    """The names with defaults filled in.

    Raises InvalidRequest where two columns have one name.
    """
    default = DatasetVocabulary()
    names = (
        vocab.offset_column or default.offset,
        vocab.operation_type_column or default.operation_type,
        vocab.system_time_column or default.system_time,
        vocab.event_time_column or default.event_time,
    )
    if len(set(names)) < len(names):
        raise InvalidRequest(f"system columns have different names, these are {', '.join(names)}")
    offset, operation_type, system_time, event_time = names
    return DatasetVocabulary(
        offset=offset, operation_type=operation_type, system_time=system_time, event_time=event_time
    )
