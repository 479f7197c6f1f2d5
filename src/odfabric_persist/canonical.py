"""Canonical columns for kernels: equal there exactly if equal by our rules.

Kernels can group, sort and compare them.

Owns the rules: floats by their bits, nested values by a text that no other value of the type has. Invariant: two values have the
same form if and only if they are the same value (null equals null, NaN itself, 0.0 is not -0.0; lists and maps in the order in
which they are stored), and the form depends on nothing but the value. The order of nested values is some order, always the same.

The text of a nested value is the text of each child in brackets; `\\N` is a null. The text of a leaf ends at the first closing bracket
without a backslash before it, and how deep leaves are is known from the type. Not here: which columns are keys (`rows`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

_BITS = {pa.float16(): pa.int16(), pa.float32(): pa.int32(), pa.float64(): pa.int64()}
_BITS_OF_WIDTH = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}


@cache
def _bytes(value: bytes) -> pa.Scalar:
    """The bytes, not made at import: the first scalar makes pyarrow import pandas.

    Many a process does not need pandas.
    """
    return pa.scalar(value, pa.large_binary())


def is_supported(kind: pa.DataType) -> bool:
    """Whether columns of the type have such a form and survive storage unchanged."""
    if types.is_struct(kind):
        return kind.num_fields > 0 and all(is_supported(field.type) for field in _fields(kind))
    if types.is_map(kind):
        return is_supported(kind.key_type) and is_supported(kind.item_type)
    if _is_list(kind):
        return is_supported(kind.value_type)
    return (
        types.is_boolean(kind)
        or types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_decimal(kind)
        or (types.is_temporal(kind) and not types.is_interval(kind))
        or _is_bytes(kind)
        or types.is_null(kind)
    )


def quoted(name: str) -> str:
    """The name of a column or field in a longer text, in quotes if ambiguous."""
    return name if name.isidentifier() else json.dumps(name)


def type_name(kind: pa.DataType) -> str:
    """The name of a type, which no other type has.

    Arrow's own does not tell names of fields from what is around them.
    """
    if types.is_struct(kind):
        return f"struct<{','.join(f'{quoted(field.name)}:{type_name(field.type)}' for field in _fields(kind))}>"
    if types.is_map(kind):
        return f"map<{type_name(kind.key_type)},{type_name(kind.item_type)}>"
    if types.is_fixed_size_list(kind):
        return f"list<{type_name(kind.value_type)},{kind.list_size}>"
    if _is_list(kind):
        return f"{'large_' if types.is_large_list(kind) else ''}list<{type_name(kind.value_type)}>"
    return str(kind)


def comparable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The form of a column: itself if kernels can do with it."""
    bits = _BITS.get(column.type)
    if bits is not None:
        return pa.chunked_array([chunk.view(bits) for chunk in column.chunks], type=bits)
    if types.is_nested(column.type):
        return pa.chunked_array([_text(chunk) for chunk in column.chunks], type=pa.large_binary())
    return column


def _is_list(kind: pa.DataType) -> bool:
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(
        types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_fixed_size_binary(kind)
    )


def _fields(kind: pa.StructType) -> Iterator[pa.Field]:
    return (kind.field(index) for index in range(kind.num_fields))


def _text(values: pa.Array) -> pa.Array:
    """The text of each value; null stays null."""
    kind = values.type
    if types.is_struct(kind):
        return _struct_text(values)
    if types.is_map(kind):
        entries = pa.struct([pa.field("key", kind.key_type), pa.field("value", kind.item_type)])
        return _list_text(values.cast(pa.list_(entries)))
    if _is_list(kind):
        return _list_text(values)
    return _leaf_text(values)


def _struct_text(values: pa.StructArray) -> pa.Array:
    # `flatten` takes the nulls of the struct into its children, which a plain child does not know.
    children = [_bracketed(_text(child)) for child in values.flatten()]
    joined = pc.binary_join_element_wise(*children, _bytes(b""))
    return pc.if_else(values.is_valid(), joined, pa.scalar(None, pa.large_binary()))


def _list_text(values: pa.Array) -> pa.Array:
    lengths = pc.fill_null(pc.list_value_length(values), 0).cast(pa.int64())
    offsets = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(lengths)])
    children = _bracketed(_text(pc.list_flatten(values)))
    joined = pc.binary_join(pa.LargeListArray.from_arrays(offsets, children), _bytes(b""))
    return pc.if_else(values.is_valid(), joined, pa.scalar(None, pa.large_binary()))


def _bracketed(texts: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(_bytes(b"("), pc.fill_null(texts, _bytes(b"\\N")), _bytes(b")"), _bytes(b""))


def _leaf_text(values: pa.Array) -> pa.Array:
    kind = values.type
    if types.is_null(kind):
        return values.cast(pa.large_binary())
    if _is_bytes(kind):
        return _escaped(values.cast(pa.binary()).cast(pa.large_binary()))
    if types.is_floating(kind):
        values = values.view(_BITS[kind])
    elif types.is_temporal(kind):
        values = values.view(_BITS_OF_WIDTH[kind.bit_width])
    return values.cast(pa.string()).cast(pa.large_binary())


def _escaped(texts: pa.Array) -> pa.Array:
    for sign in (b"\\", b")"):
        texts = pc.replace_substring(texts, pattern=sign, replacement=b"\\" + sign)
    return texts
