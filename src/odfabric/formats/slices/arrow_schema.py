"""Data schemas of the specification as Arrow schemas, and back.

Owns the table of types in both directions, the optional encoding hints (`arrow.apache.org/*` attributes, which say how a
column lies in memory and not what it means), and the legacy form of SetDataSchema (a bare Arrow Schema FlatBuffer).
Invariant: what comes from Arrow states the defaults of times explicitly, because a block's hash depends on it. Not here:
whether a slice fits its dataset (`formats.slices.slice_schema`). Source: RFC-016; specification, "Data Slice";
specification, "Metadata Format".
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import replace
from typing import Final, TypeAlias

import pyarrow as pa
from pyarrow import types

from odfabric.errors import IncompatibleSchema, InvalidBlock, Place
from odfabric.formats.json_values.canonical_json import JsonValue, canonical_json, parse_json_object
from odfabric.model.data_schema import (
    DataField,
    DataSchema,
    DataType,
    DataTypeBinary,
    DataTypeBool,
    DataTypeDate,
    DataTypeDecimal,
    DataTypeDuration,
    DataTypeFloat16,
    DataTypeFloat32,
    DataTypeFloat64,
    DataTypeInt8,
    DataTypeInt16,
    DataTypeInt32,
    DataTypeInt64,
    DataTypeList,
    DataTypeMap,
    DataTypeNull,
    DataTypeOption,
    DataTypeString,
    DataTypeStruct,
    DataTypeTime,
    DataTypeTimestamp,
    DataTypeUInt8,
    DataTypeUInt16,
    DataTypeUInt32,
    DataTypeUInt64,
    ExtraAttributes,
    TimeUnit,
)

BUFFER_ENCODING: Final = "arrow.apache.org/bufferEncoding"
DATE_ENCODING: Final = "arrow.apache.org/dateEncoding"
DECIMAL_ENCODING: Final = "arrow.apache.org/decimalEncoding"
DEFAULT_TIMEZONE: Final = "UTC"
DECIMAL_128_DIGITS_MAX: Final = 38

_UNIT_TEXT = {
    TimeUnit.SECOND: "s",
    TimeUnit.MILLISECOND: "ms",
    TimeUnit.MICROSECOND: "us",
    TimeUnit.NANOSECOND: "ns",
}
_UNIT_OF_TEXT = {text: unit for unit, text in _UNIT_TEXT.items()}

_PLAIN_TO_ARROW: dict[DataType, pa.DataType] = {
    DataTypeBool(): pa.bool_(),
    DataTypeInt8(): pa.int8(),
    DataTypeInt16(): pa.int16(),
    DataTypeInt32(): pa.int32(),
    DataTypeInt64(): pa.int64(),
    DataTypeUInt8(): pa.uint8(),
    DataTypeUInt16(): pa.uint16(),
    DataTypeUInt32(): pa.uint32(),
    DataTypeUInt64(): pa.uint64(),
    DataTypeFloat16(): pa.float16(),
    DataTypeFloat32(): pa.float32(),
    DataTypeFloat64(): pa.float64(),
    DataTypeNull(): pa.null(),
}
_ARROW_TO_PLAIN = {arrow: data_type for data_type, arrow in _PLAIN_TO_ARROW.items()}

_Hints: TypeAlias = Mapping[str, JsonValue]
_NO_HINTS: _Hints = {}


def data_schema_to_arrow(schema: DataSchema, *, encodings: bool = True) -> pa.Schema:
    """The Arrow schema of columns.

    Without `encodings` hints are ignored and every type has its usual form.

    Raises IncompatibleSchema naming a field that Arrow cannot hold.
    """
    return pa.schema([_field_to_arrow(field, field.name, encodings=encodings) for field in schema.fields])


def arrow_to_data_schema(schema: pa.Schema, *, encodings: bool = False) -> DataSchema:
    """The data schema of columns, defaults of times explicit.

    With `encodings` it has hints that give the same types back.

    Without them it is the form in which SetDataSchema is written. Raises IncompatibleSchema naming a field of a type
    that the specification does not have.
    """
    return DataSchema(fields=tuple(_field_from_arrow(field, field.name, encodings=encodings) for field in schema))


def upgrade_legacy_schema(raw_arrow_schema: bytes) -> DataSchema:
    """The data schema of a legacy SetDataSchema.

    Raises InvalidBlock, IncompatibleSchema.
    """
    try:
        return arrow_to_data_schema(pa.ipc.read_schema(pa.BufferReader(_as_message(raw_arrow_schema))))
    except (pa.ArrowException, OSError, ValueError, struct.error) as error:
        raise InvalidBlock(
            f"SetDataSchema carries bytes that are not an Arrow schema: {error}", kind="MalformedBlock"
        ) from None


def with_explicit_defaults(schema: DataSchema) -> DataSchema:
    """The same schema with the defaults of absent members written out, at every depth.

    Attributes stay.
    """
    return replace(schema, fields=tuple(_field_explicit(field) for field in schema.fields))


def _field_to_arrow(field: DataField, path: str, *, encodings: bool) -> pa.Field:
    hints = _hints_of(field.extra) if encodings else _NO_HINTS
    nullable, inner = _unwrap(field.type, path)
    return pa.field(field.name, _type_to_arrow(inner, path, hints, encodings=encodings), nullable=nullable)


def _unwrap(data_type: DataType, path: str) -> tuple[bool, DataType]:
    if not isinstance(data_type, DataTypeOption):
        # Arrow does not admit a required column of nulls.
        return isinstance(data_type, DataTypeNull), data_type
    if isinstance(data_type.inner, DataTypeOption):
        raise _unsupported(path, "an Option inside an Option means nothing")
    return True, data_type.inner


def _type_to_arrow(data_type: DataType, path: str, hints: _Hints, *, encodings: bool) -> pa.DataType:
    try:
        found = _PLAIN_TO_ARROW.get(data_type) or _parametric_to_arrow(data_type, path, hints, encodings=encodings)
    except (pa.ArrowException, ValueError, OverflowError) as error:
        raise _unsupported(path, str(error)) from None
    return _run_end_encoded(found, hints)


def _parametric_to_arrow(data_type: DataType, path: str, hints: _Hints, *, encodings: bool) -> pa.DataType:
    match data_type:
        case DataTypeString():
            return {"32": pa.string(), "64": pa.large_string(), "view": pa.string_view()}[_layout(hints)]
        case DataTypeBinary(fixed_length=None):
            return {"32": pa.binary(), "64": pa.large_binary(), "view": pa.binary_view()}[_layout(hints)]
        case DataTypeBinary(fixed_length=int(length)):
            return pa.binary(length)
        case DataTypeDate():
            return pa.date64() if _hint(hints, DATE_ENCODING, "unit") == "Millisecond" else pa.date32()
        case DataTypeDecimal(precision=precision, scale=scale):
            return _decimal(precision, scale, _hint(hints, DECIMAL_ENCODING, "bitWidth"))
        case DataTypeTime(unit=unit):
            text = _UNIT_TEXT[unit or TimeUnit.MILLISECOND]
            return pa.time32(text) if text in ("s", "ms") else pa.time64(text)
        case DataTypeTimestamp(unit=unit, timezone=zone):
            return pa.timestamp(_UNIT_TEXT[unit or TimeUnit.MILLISECOND], zone or DEFAULT_TIMEZONE)
        case DataTypeDuration(unit=unit):
            return pa.duration(_UNIT_TEXT[unit or TimeUnit.MILLISECOND])
        case DataTypeList(item_type=item, fixed_length=length):
            return _list_to_arrow(_item("item", item, f"{path}[]", encodings), length, hints)
        case DataTypeMap(key_type=key, value_type=value, keys_sorted=keys_sorted):
            keys = _item("keys", key, f"{path}{{key}}", encodings)
            values = _item("values", value, f"{path}{{value}}", encodings)
            return pa.map_(keys, values, keys_sorted=bool(keys_sorted))
        case DataTypeStruct(fields=fields):
            return pa.struct([_field_to_arrow(f, f"{path}.{f.name}", encodings=encodings) for f in fields])
        case _:
            raise _unsupported(path, f"{type(data_type).__name__} has no Arrow type")


def _item(name: str, data_type: DataType, path: str, encodings: bool) -> pa.Field:
    nullable, inner = _unwrap(data_type, path)
    return pa.field(name, _type_to_arrow(inner, path, _NO_HINTS, encodings=encodings), nullable=nullable)


def _list_to_arrow(item: pa.Field, length: int | None, hints: _Hints) -> pa.DataType:
    if length is not None:
        return pa.list_(item, length)
    layout = _layout(hints)
    if layout == "view":
        wide = _hint(hints, BUFFER_ENCODING, "offsetBitWidth") == 64
        return pa.large_list_view(item) if wide else pa.list_view(item)
    return pa.large_list(item) if layout == "64" else pa.list_(item)


def _decimal(precision: int, scale: int, bit_width: JsonValue) -> pa.DataType:
    makers = {32: pa.decimal32, 64: pa.decimal64, 128: pa.decimal128, 256: pa.decimal256}
    if not isinstance(bit_width, int) or bit_width not in makers:
        bit_width = 128 if precision <= DECIMAL_128_DIGITS_MAX else 256
    return makers[bit_width](precision, scale)


def _run_end_encoded(data_type: pa.DataType, hints: _Hints) -> pa.DataType:
    if _hint(hints, BUFFER_ENCODING, "kind") != "RunEnd":
        return data_type
    match _hint(hints, BUFFER_ENCODING, "runEndsBitWidth"):
        case 16:
            return pa.run_end_encoded(pa.int16(), data_type)
        case 64:
            return pa.run_end_encoded(pa.int64(), data_type)
        case _:
            return pa.run_end_encoded(pa.int32(), data_type)


def _layout(hints: _Hints) -> str:
    if _hint(hints, BUFFER_ENCODING, "kind") == "View":
        return "view"
    return "64" if _hint(hints, BUFFER_ENCODING, "offsetBitWidth") == 64 else "32"


def _hint(hints: _Hints, key: str, member: str) -> JsonValue:
    value = hints.get(key)
    return value.get(member) if isinstance(value, dict) else None


def _hints_of(extra: ExtraAttributes | None) -> _Hints:
    if extra is None:
        return _NO_HINTS
    try:
        return parse_json_object(extra.entries)
    except ValueError:
        return _NO_HINTS  # hints are advice: text that is no JSON advises nothing


def _field_from_arrow(field: pa.Field, path: str, *, encodings: bool) -> DataField:
    data_type, hints = _type_from_arrow(field.type, path, encodings=encodings)
    extra = ExtraAttributes(entries=canonical_json(hints)) if encodings and hints else None
    return DataField(name=field.name, type=_optional(data_type, field), extra=extra)


def _optional(data_type: DataType, field: pa.Field) -> DataType:
    return DataTypeOption(inner=data_type) if field.nullable and data_type != DataTypeNull() else data_type


def _type_from_arrow(arrow: pa.DataType, path: str, *, encodings: bool) -> tuple[DataType, dict[str, JsonValue]]:
    """The type, and the hints that lead back to the same Arrow type."""
    if isinstance(arrow, pa.BaseExtensionType):
        return _type_from_arrow(arrow.storage_type, path, encodings=encodings)
    plain = _ARROW_TO_PLAIN.get(arrow)
    if plain is not None:
        return plain, {}
    if types.is_temporal(arrow):
        return _temporal_from_arrow(arrow, path)
    if types.is_decimal(arrow):
        data_type = DataTypeDecimal(precision=arrow.precision, scale=arrow.scale)
        return data_type, {DECIMAL_ENCODING: {"bitWidth": arrow.bit_width}}
    if types.is_fixed_size_binary(arrow):
        return DataTypeBinary(fixed_length=arrow.byte_width), {}
    text_or_bytes = _ENCODED.get(arrow)
    if text_or_bytes is not None:
        return text_or_bytes[0], {BUFFER_ENCODING: text_or_bytes[1]}
    return _nested_from_arrow(arrow, path, encodings=encodings)


def _contiguous(bits: int) -> JsonValue:
    return {"kind": "Contiguous", "offsetBitWidth": bits}


def _view(bits: int) -> JsonValue:
    return {"kind": "View", "offsetBitWidth": bits}


_ENCODED: dict[pa.DataType, tuple[DataType, JsonValue]] = {
    pa.string(): (DataTypeString(), _contiguous(32)),
    pa.large_string(): (DataTypeString(), _contiguous(64)),
    pa.string_view(): (DataTypeString(), _view(32)),
    pa.binary(): (DataTypeBinary(), _contiguous(32)),
    pa.large_binary(): (DataTypeBinary(), _contiguous(64)),
    pa.binary_view(): (DataTypeBinary(), _view(32)),
}


def _temporal_from_arrow(arrow: pa.DataType, path: str) -> tuple[DataType, dict[str, JsonValue]]:
    if types.is_date32(arrow):
        return DataTypeDate(), {}
    if types.is_date64(arrow):
        return DataTypeDate(), {DATE_ENCODING: {"unit": "Millisecond"}}
    if types.is_timestamp(arrow):
        return DataTypeTimestamp(unit=_UNIT_OF_TEXT[arrow.unit], timezone=arrow.tz), {}
    if types.is_time(arrow):
        return DataTypeTime(unit=_UNIT_OF_TEXT[arrow.unit]), {}
    if types.is_duration(arrow):
        return DataTypeDuration(unit=_UNIT_OF_TEXT[arrow.unit]), {}
    raise _unsupported(path, f"Arrow type {arrow} has no counterpart in the specification")


def _nested_from_arrow(arrow: pa.DataType, path: str, *, encodings: bool) -> tuple[DataType, dict[str, JsonValue]]:
    if types.is_struct(arrow):
        members = [_field_from_arrow(member, f"{path}.{member.name}", encodings=encodings) for member in arrow]
        return DataTypeStruct(fields=tuple(members)), {}
    if types.is_map(arrow):
        key = _item_from_arrow(arrow.key_field, f"{path}{{key}}")
        value = _item_from_arrow(arrow.item_field, f"{path}{{value}}")
        return DataTypeMap(key_type=key, value_type=value, keys_sorted=arrow.keys_sorted), {}
    if types.is_run_end_encoded(arrow):
        data_type, _ = _type_from_arrow(arrow.value_type, path, encodings=encodings)
        return data_type, {BUFFER_ENCODING: {"kind": "RunEnd", "runEndsBitWidth": arrow.run_end_type.bit_width}}
    list_hint = _list_hint(arrow)
    if list_hint is None:
        raise _unsupported(path, f"Arrow type {arrow} has no counterpart in the specification")
    item = _item_from_arrow(arrow.value_field, f"{path}[]")
    if types.is_fixed_size_list(arrow):
        return DataTypeList(item_type=item, fixed_length=arrow.list_size), {}
    return DataTypeList(item_type=item), {BUFFER_ENCODING: list_hint}


def _list_hint(arrow: pa.DataType) -> JsonValue:
    if types.is_list(arrow) or types.is_fixed_size_list(arrow):
        return _contiguous(32)
    if types.is_large_list(arrow):
        return _contiguous(64)
    if types.is_list_view(arrow):
        return _view(32)
    return _view(64) if types.is_large_list_view(arrow) else None


def _item_from_arrow(field: pa.Field, path: str) -> DataType:
    # Items and map entries have no attributes of their own, so there is no place for their hints.
    data_type, _ = _type_from_arrow(field.type, path, encodings=False)
    return _optional(data_type, field)


def _field_explicit(field: DataField) -> DataField:
    return replace(field, type=_explicit(field.type))


def _explicit(data_type: DataType) -> DataType:
    match data_type:
        case DataTypeTimestamp(unit=unit, timezone=zone):
            return DataTypeTimestamp(unit=unit or TimeUnit.MILLISECOND, timezone=zone or DEFAULT_TIMEZONE)
        case DataTypeTime(unit=None) | DataTypeDuration(unit=None):
            return replace(data_type, unit=TimeUnit.MILLISECOND)
        case DataTypeOption(inner=inner):
            return DataTypeOption(inner=_explicit(inner))
        case DataTypeList(item_type=item):
            return replace(data_type, item_type=_explicit(item))
        case DataTypeMap(key_type=key, value_type=value, keys_sorted=keys_sorted):
            return DataTypeMap(key_type=_explicit(key), value_type=_explicit(value), keys_sorted=bool(keys_sorted))
        case DataTypeStruct(fields=fields):
            return DataTypeStruct(fields=tuple(_field_explicit(field) for field in fields))
        case _:
            return data_type


def _as_message(schema: bytes) -> bytes:
    """Wrap a bare Schema FlatBuffer in an IPC Message, which pyarrow needs.

    The Message's table (version V5, header type Schema) stands at 16 after its vtable at 6; its header field at 20 points
    into the copy of the schema at 32, where all alignments of the original hold.
    """
    root = struct.unpack_from("<I", schema)[0]
    vtable = struct.pack("<5H", 10, 12, 8, 10, 4)
    table = struct.pack("<iIhBx", 10, 32 + root - 20, 4, 1)
    body = struct.pack("<Ixx", 16) + vtable + table + bytes(4) + schema
    body += bytes(-len(body) % 8)
    return struct.pack("<II", 0xFFFFFFFF, len(body)) + body


def _unsupported(path: str, reason: str) -> IncompatibleSchema:
    return IncompatibleSchema(f"Field `{path}`: {reason}", place=Place(field=path))
