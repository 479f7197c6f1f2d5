"""Values of one Arrow type as values of another, within structs and lists too.

Owns what Arrow's own cast refuses: below a null struct its members are null, also those that may not be null where the struct is there;
they are given some value there, for Arrow's writers want none missing. Invariant: no value that is there changes but by the cast of its type,
and a null that is there stays one. Not here: whether a null may be where it is (`slice_schema.null_problems`).
"""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

_UNITS = {"s": "second", "ms": "millisecond", "us": "microsecond", "ns": "nanosecond"}


def cast_array(array: pa.Array, data_type: pa.DataType, *, safe: bool = True) -> pa.Array:
    """The array in another type.

    `safe`: what a type cannot hold raises pa.ArrowException, else it is cut.

    Digits of times are cut, before 1970 too, so that a time never comes after what it was: Arrow's own cast rounds towards 1970.
    """
    if _alike(array.type, data_type):
        mask = array.is_null() if array.null_count else None
        members = [
            _filled(cast_array(member, own.type, safe=safe), own, mask)
            for member, own in zip(array.flatten(), data_type, strict=True)
        ]
        return pa.StructArray.from_arrays(members, fields=list(data_type), mask=mask)
    if array.type.equals(data_type) and not _has_struct(data_type):
        return array
    if (types.is_list(array.type) or types.is_large_list(array.type)) and types.is_list(data_type):
        items = cast_array(pc.list_flatten(array), data_type.value_type, safe=safe)
        lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
        offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
        mask = array.is_null() if array.null_count else None
        return pa.ListArray.from_arrays(offsets, items, type=data_type, mask=mask)
    if types.is_map(array.type) and types.is_map(data_type):
        return _cast_map(array, data_type, safe=safe)
    if not safe and types.is_timestamp(array.type) and types.is_timestamp(data_type):
        # What is left fits, or is a time that the type does not have.
        return pc.floor_temporal(array, unit=_UNITS[data_type.unit]).cast(data_type)
    return array.cast(data_type, safe=safe)


def map_as_list(array: pa.Array) -> pa.Array:
    """Map entries as a list of structs `key`, `value`, which Arrow's functions know."""
    # `array.keys` and `array.items` would have more than its own where it is a slice of a larger array.
    entry = pa.struct([pa.field("key", array.type.key_type), pa.field("value", array.type.item_type)])
    return array.cast(pa.list_(entry))


def _cast_map(array: pa.Array, data_type: pa.DataType, *, safe: bool) -> pa.Array:
    lists = map_as_list(array)
    entries = pc.list_flatten(lists)
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    return pa.MapArray.from_arrays(
        pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32()),
        cast_array(entries.field("key"), data_type.key_type, safe=safe),
        cast_array(entries.field("value"), data_type.item_type, safe=safe),
        type=data_type,
        mask=array.is_null() if array.null_count else None,
    )


def _has_struct(data_type: pa.DataType) -> bool:
    """Whether values have members, which may be null below a null."""
    return types.is_struct(data_type) or any(
        _has_struct(data_type.field(at).type) for at in range(data_type.num_fields)
    )


def _filled(array: pa.Array, field: pa.Field, hidden: pa.Array | None) -> pa.Array:
    """A required member with some value where its struct is null."""
    if field.nullable or hidden is None:
        return array
    with_filler = pa.concat_arrays([array, pa.array([_filler(array.type)], array.type)])
    places = np.where(hidden.to_numpy(zero_copy_only=False), len(array), np.arange(len(array)))
    return with_filler.take(pa.array(places))


def _filler(data_type: pa.DataType) -> object:
    if types.is_struct(data_type):
        return {member.name: _filler(member.type) for member in data_type}
    if types.is_list(data_type) or types.is_large_list(data_type):
        return []
    if types.is_fixed_size_list(data_type):
        return [_filler(data_type.value_type)] * data_type.list_size
    if types.is_fixed_size_binary(data_type):
        return bytes(data_type.byte_width)
    if types.is_boolean(data_type):
        return False
    if types.is_decimal(data_type):
        return Decimal(0)
    return 0 if types.is_primitive(data_type) else b""


def _alike(have: pa.DataType, want: pa.DataType) -> bool:
    """Whether both are structs with members of the same names."""
    return (
        types.is_struct(have)
        and types.is_struct(want)
        and [member.name for member in have] == [member.name for member in want]
    )
