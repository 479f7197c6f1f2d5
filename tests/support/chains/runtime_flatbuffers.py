"""Blocks and messages by another project's FlatBuffers runtime, as an oracle.

Knows the order of calls (children first, then fields in slot order) and leaves padding, offsets and vtables to the runtime.
"""

from __future__ import annotations

import struct
from typing import Any

import flatbuffers

from odfabric.formats.blocks.block import MANIFEST_VERSION
from odfabric.formats.blocks.block_tables import METADATA_BLOCK_KIND, TABLES, Kind, PrepStepWrapper, Slot
from odfabric.formats.blocks.engine_contract_tables import ENGINE_TABLES
from odfabric.model.instant import NANOS_PER_DAY, NANOS_PER_SECOND, Instant
from odfabric.model.metadata import MetadataBlock

_SCALARS = {Kind.BOOL: "Bool", Kind.INT32: "Int32", Kind.UINT32: "Uint32", Kind.UINT64: "Uint64"}


def build_block(block: MetadataBlock, *, manifest_version: int) -> bytes:
    inner = flatbuffers.Builder()
    inner.Finish(_table(inner, block, 4 if manifest_version == MANIFEST_VERSION else 1))
    outer = flatbuffers.Builder()
    content = outer.CreateByteVector(bytes(inner.Output()))
    outer.StartObject(3)
    outer.PrependInt64Slot(0, METADATA_BLOCK_KIND, 0)
    outer.PrependInt32Slot(1, manifest_version, 0)
    outer.PrependUOffsetTRelativeSlot(2, content, 0)
    outer.Finish(outer.EndObject())
    return bytes(outer.Output())


def build_message(noun: object) -> bytes:
    """A message of the engine contract, without the protobuf around it."""
    builder = flatbuffers.Builder()
    builder.Finish(_table(builder, noun, 4))
    return bytes(builder.Output())


def _table(builder: flatbuffers.Builder, noun: Any, moment_alignment: int) -> int:
    slots = (TABLES | ENGINE_TABLES)[type(noun)].slots
    members = [getattr(noun, slot.name) for slot in slots]
    offsets = [
        None if member is None else _child(builder, slot, member, moment_alignment)
        for slot, member in zip(slots, members, strict=True)
    ]
    builder.StartObject(len(slots) + sum(slot.kind is Kind.UNION for slot in slots))
    index = 0
    for slot, member, offset in zip(slots, members, offsets, strict=True):
        if member is not None:
            _field(builder, index, slot, member, offset, moment_alignment)
        index += 2 if slot.kind is Kind.UNION else 1
    return int(builder.EndObject())


def _child(builder: flatbuffers.Builder, slot: Slot, member: Any, moment_alignment: int) -> int | None:
    match slot.kind:
        case Kind.TEXT | Kind.DATASET_REF | Kind.JSON_OBJECT:
            return int(builder.CreateString(member))
        case Kind.BYTES:
            return int(builder.CreateByteVector(member))
        case Kind.HASH | Kind.DATASET_ID:
            return int(builder.CreateByteVector(member.to_bytes()))
        case Kind.TABLE | Kind.UNION:
            return _table(builder, member, moment_alignment)
        case Kind.TEXTS:
            return _vector(builder, [int(builder.CreateString(item)) for item in member])
        case Kind.TABLES:
            return _vector(builder, [_table(builder, item, moment_alignment) for item in member])
        case Kind.UNIONS:
            wrapped = [PrepStepWrapper(value=item) for item in member]
            return _vector(builder, [_table(builder, item, moment_alignment) for item in wrapped])
        case _:
            return None


def _vector(builder: flatbuffers.Builder, offsets: list[int]) -> int:
    builder.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        builder.PrependUOffsetTRelative(offset)
    return int(builder.EndVector())


def _field(
    builder: flatbuffers.Builder, index: int, slot: Slot, member: Any, offset: int | None, moment_alignment: int
) -> None:
    default = 0 if slot.required else None
    if slot.kind is Kind.UNION and slot.union is not None:
        builder.PrependUint8Slot(index, slot.union.members.index(type(member)) + 1, 0)
        builder.PrependUOffsetTRelativeSlot(index + 1, offset, 0)
    elif slot.enum is not None:
        store = builder.PrependInt16Slot if slot.enum.fbs_type == "short" else builder.PrependInt32Slot
        store(index, member.value, default)
    elif slot.kind in _SCALARS:
        getattr(builder, f"Prepend{_SCALARS[slot.kind]}Slot")(index, member, default)
    elif slot.kind is Kind.INSTANT:
        builder.PrependStructSlot(index, _moment(builder, member, moment_alignment), 0)
    else:
        builder.PrependUOffsetTRelativeSlot(index, offset, 0)


def _moment(builder: flatbuffers.Builder, instant: Instant, alignment: int) -> int:
    second, nanos = divmod(instant.epoch_ns % NANOS_PER_DAY, NANOS_PER_SECOND)
    data = struct.pack("<iH2xII", *instant.year_day(), second, nanos)
    builder.Prep(alignment, len(data))
    builder.head -= len(data)
    builder.Bytes[builder.head : builder.head + len(data)] = data
    return int(builder.Offset())
