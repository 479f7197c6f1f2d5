"""Columns as they are stored: equal values have equal buffers.

Owns the normal form of Arrow arrays, and the size of their contents. Invariant: buffers of a plain array depend on its values
alone, not on what lies below nulls, on slices or on encodings; so files made of plain columns are equal when their rows are.
Not here: equality and order of rows (`formats.slices.canonical_rows`).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

_ZEROS = pa.py_buffer(bytes(64))


def plain(array: pa.Array) -> pa.Array:
    """The array in normal form."""
    data_type = array.type
    if types.is_struct(data_type):
        members = [plain(member) for member in array.flatten()]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(members, fields=list(data_type), mask=mask)
    if types.is_map(data_type):
        return _plain_map(array)
    if types.is_list(data_type):
        items = plain(pc.list_flatten(array))
        mask = array.is_null() if array.null_count else None
        return pa.ListArray.from_arrays(_offsets(array), items, type=data_type, mask=mask)
    # A copy: what a slice leaves behind its end is written with it, up to the next multiple of 64 bytes.
    array = array.take(pa.array(np.arange(len(array))))
    if _has_offsets(data_type):
        return array
    if types.is_floating(data_type):
        array = pc.if_else(pc.is_nan(array), pa.scalar(float("nan"), data_type), array)
    if not array.null_count:
        return array
    zero = pa.Array.from_buffers(data_type, 1, [None, _ZEROS])[0]
    return pc.if_else(array.is_valid(), pc.fill_null(array, zero), pa.scalar(None, data_type))


def content_bytes(array: pa.Array) -> int:
    """Size of the values, whatever buffers hold them."""
    data_type = array.type
    if types.is_struct(data_type):
        return len(array) + sum(content_bytes(member) for member in array.flatten())
    if types.is_map(data_type) or types.is_list(data_type):
        entries = array.cast(_as_list(data_type)) if types.is_map(data_type) else array
        return 4 * len(array) + content_bytes(pc.list_flatten(entries))
    if _has_offsets(data_type):
        return 4 * len(array) + int(pc.sum(pc.binary_length(array)).as_py() or 0)
    return len(array) * max(int(data_type.bit_width) // 8, 1)


def _plain_map(array: pa.Array) -> pa.Array:
    entries = pc.list_flatten(array.cast(_as_list(array.type)))
    keys, values = (plain(member) for member in entries.flatten())
    mask = array.is_null() if array.null_count else None
    return pa.MapArray.from_arrays(_offsets(array), keys, values, type=array.type, mask=mask)


def _as_list(data_type: pa.DataType) -> pa.DataType:
    return pa.list_(pa.struct([data_type.key_field, data_type.item_field]))


def _offsets(array: pa.Array) -> pa.Array:
    """Where lists begin when null ones hold nothing."""
    lists = array.cast(_as_list(array.type)) if types.is_map(array.type) else array
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    return pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))


def _has_offsets(data_type: pa.DataType) -> bool:
    return bool(types.is_string(data_type) or types.is_binary(data_type))
