"""Arrow types of users' data as types of slices.

Owns the table of what becomes what, and which types Spark reads without help. Invariant: `slice_type` of a type holds all its
values, but for digits of timestamps below the millisecond; what has no such type is refused by name. Source: docs/engine.md#types.
"""

from __future__ import annotations

import pyarrow as pa
from pyarrow import types

from odfabric.errors import IncompatibleSchema, Place
from odfabric.formats.slices.slice_schema import TIMESTAMP_TYPE
from odfabric_engine_spark.ingest.values.uuid_texts import is_uuid

_READ_BY_SPARK = frozenset(
    {
        pa.bool_(),
        pa.int8(),
        pa.int16(),
        pa.int32(),
        pa.int64(),
        pa.uint8(),
        pa.uint16(),
        pa.uint32(),
        pa.float32(),
        pa.float64(),
        pa.string(),
        pa.large_string(),
        pa.binary(),
        pa.large_binary(),
        pa.date32(),
    }
)


def slice_field(field: pa.Field) -> pa.Field:
    """The field of a slice that takes the values of a field.

    Raises IncompatibleSchema naming it.
    """
    return pa.field(field.name, _slice_type(field.type, field.name), nullable=field.nullable)


def read_by_spark(arrow: pa.DataType) -> bool:
    """Whether Spark reads a Parquet column of this type exactly as Arrow does."""
    if arrow in _READ_BY_SPARK:
        return True
    if types.is_timestamp(arrow):
        return arrow.tz is not None and arrow.unit in ("ms", "us")
    if types.is_decimal128(arrow):
        return bool(arrow.scale >= 0)
    return bool(types.is_list(arrow) or types.is_struct(arrow)) and all(
        read_by_spark(arrow.field(index).type) for index in range(arrow.num_fields)
    )


def exactly_castable(one: pa.DataType, other: pa.DataType) -> bool:
    """Whether values of one type may be cast to another with every value checked."""
    if one.equals(other) or (types.is_timestamp(one) and types.is_timestamp(other)):
        return True
    if types.is_integer(one):
        return bool(types.is_integer(other) or types.is_decimal(other) or types.is_float64(other))
    if types.is_decimal(one):
        return bool(types.is_decimal(other))
    return bool(types.is_float32(one) and types.is_float64(other))


def _slice_type(arrow: pa.DataType, path: str) -> pa.DataType:
    if is_uuid(arrow) or isinstance(arrow, pa.JsonType):
        return pa.string()
    if types.is_dictionary(arrow):
        return _slice_type(arrow.value_type, path)
    if types.is_string(arrow) or types.is_large_string(arrow) or types.is_string_view(arrow):
        return pa.string()
    if types.is_binary(arrow) or types.is_large_binary(arrow) or types.is_binary_view(arrow):
        return pa.binary()
    if types.is_timestamp(arrow):
        return TIMESTAMP_TYPE
    if types.is_date(arrow):
        return pa.date32()
    if types.is_decimal(arrow):
        return pa.decimal128(arrow.precision, arrow.scale) if arrow.precision <= 38 else arrow
    if types.is_struct(arrow):
        return pa.struct([_member(field, f"{path}.{field.name}") for field in arrow])
    if types.is_list(arrow) or types.is_large_list(arrow):
        return pa.list_(_member(arrow.value_field, f"{path}[]"))
    if types.is_fixed_size_list(arrow):
        return pa.list_(_member(arrow.value_field, f"{path}[]"), arrow.list_size)
    if types.is_map(arrow):
        # No slice has it; a preprocess query makes something else of it.
        return pa.map_(_slice_type(arrow.key_type, f"{path}{{key}}"), _member(arrow.item_field, f"{path}{{value}}"))
    if types.is_integer(arrow) or types.is_boolean(arrow) or types.is_float32(arrow) or types.is_float64(arrow):
        return arrow
    if types.is_fixed_size_binary(arrow):
        return arrow
    if types.is_null(arrow):
        raise IncompatibleSchema(
            f"Column `{path}` holds nulls only, and the file says no type of it",
            place=Place(field=path),
            hint="declare the type that it has in other files, as Option, in the schema of the read step",
        )
    raise IncompatibleSchema(
        f"Column `{path}` is of type {arrow}, which is not supported",
        place=Place(field=path),
        hint="declare a schema without it, or write it in another type before it is pushed: int, bigint, double, decimal,"
        " string, timestamp, ..",
    )


def _member(field: pa.Field, path: str) -> pa.Field:
    return pa.field(field.name, _slice_type(field.type, path), nullable=field.nullable)
