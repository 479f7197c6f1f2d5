"""Bytes of types and values for the logical hash ("arrow-digest" V0).

Owns two tables of the specification, "Data Hashing": type bytes and value bytes, and their vectorised form: whole arrays become one
byte stream without a loop over rows. Invariant: the stream of an array is the concatenation of the streams of its slices.
Not here: the order in which columns and structs are walked (`formats.slices.logical_hash`).
"""

from __future__ import annotations

import struct
from functools import cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

Bytes: TypeAlias = npt.NDArray[np.uint8]
Mask: TypeAlias = npt.NDArray[np.bool_]
Lengths: TypeAlias = int | npt.NDArray[np.int64]
"""Length of the stream of each row: one number if all are equal."""

_UNITS = {"s": 0, "ms": 1, "us": 2, "ns": 3}


@cache
def _separator() -> pa.Scalar:
    """The empty binary.

    Taken from an array: `pa.scalar` makes pyarrow import pandas, which takes over a second.
    """
    return _as_binary(np.empty(0, np.uint8), np.zeros(1, np.int64))[0]


_PREFIX_BYTES = 8


def type_bytes(data_type: pa.DataType) -> bytes:
    """What a leaf type feeds first.

    Raises ValueError naming a type that has no logical hash.
    """
    if types.is_integer(data_type):
        return struct.pack("<HBQ", 1, types.is_signed_integer(data_type), data_type.bit_width)
    if types.is_floating(data_type):
        return struct.pack("<HQ", 2, data_type.bit_width)
    if _is_bytes(data_type) or types.is_fixed_size_binary(data_type) or types.is_binary_view(data_type):
        return struct.pack("<H", 3)
    if _is_text(data_type) or types.is_string_view(data_type):
        return struct.pack("<H", 4)
    if types.is_boolean(data_type):
        return struct.pack("<H", 5)
    if types.is_decimal(data_type):
        return struct.pack("<HQQq", 6, data_type.bit_width, data_type.precision, data_type.scale)
    if types.is_temporal(data_type):
        return _temporal_type_bytes(data_type)
    if _is_list(data_type):
        return struct.pack("<H", 11) + type_bytes(plain_type(data_type.value_type))
    raise ValueError(f"type {data_type} has no logical hash")


def plain_type(data_type: pa.DataType) -> pa.DataType:
    """The type as which values are hashed.

    No dictionaries, no extensions, no views; structs are left as they are.
    """
    if isinstance(data_type, pa.BaseExtensionType):
        return plain_type(data_type.storage_type)
    if types.is_dictionary(data_type):
        return plain_type(data_type.value_type)
    if types.is_string_view(data_type):
        return pa.large_string()
    if types.is_binary_view(data_type):
        return pa.large_binary()
    if types.is_fixed_size_list(data_type):
        return pa.list_(plain_type(data_type.value_type), data_type.list_size)
    if types.is_large_list(data_type):
        return pa.large_list(plain_type(data_type.value_type))
    if types.is_list(data_type):
        return pa.list_(plain_type(data_type.value_type))
    return data_type


def validity(array: pa.Array) -> Mask | None:
    """True where a row is not null; None if no row is null."""
    if array.null_count == 0:
        return None
    return _bits(array.buffers()[0], array).view(np.bool_)


def value_bytes(array: pa.Array, valid: Mask | None) -> Bytes:
    """The stream of all rows of an array of a plain type.

    Rows where `valid` is False are hashed as nulls.

    `valid` is not taken from the array because the validity of enclosing structs enters too.
    """
    return _stream(array, valid)[0]


def _stream(array: pa.Array, valid: Mask | None) -> tuple[Bytes, Lengths]:
    """The stream of all rows, and how long each row's part is."""
    if len(array) == 0:
        return np.empty(0, np.uint8), 0
    data_type = array.type
    if types.is_boolean(data_type):
        return _boolean_bytes(array, valid), 1
    if _is_text(data_type) or _is_bytes(data_type):
        return _binary_stream(array, valid)
    if _is_list(data_type):
        return _list_stream(array, valid)
    rows = _fixed_rows(array)
    if types.is_fixed_size_binary(data_type):
        rows = _length_prefixed(rows)
    lengths = rows.shape[1] if valid is None else np.where(valid, rows.shape[1], 1).astype(np.int64)
    return _without_null_values(rows, valid), lengths


def _temporal_type_bytes(data_type: pa.DataType) -> bytes:
    if types.is_date(data_type):
        return struct.pack("<HQH", 7, data_type.bit_width, types.is_date64(data_type))
    if types.is_time(data_type):
        return struct.pack("<HQH", 8, data_type.bit_width, _UNITS[data_type.unit])
    if not types.is_timestamp(data_type):
        raise ValueError(f"type {data_type} has no logical hash")
    head = struct.pack("<HH", 9, _UNITS[data_type.unit])
    if data_type.tz is None:
        return head + b"\0"
    zone: bytes = data_type.tz.encode()
    return head + struct.pack("<Q", len(zone)) + zone


def _is_text(data_type: pa.DataType) -> bool:
    return bool(types.is_string(data_type) or types.is_large_string(data_type))


def _is_bytes(data_type: pa.DataType) -> bool:
    return bool(types.is_binary(data_type) or types.is_large_binary(data_type))


def _is_list(data_type: pa.DataType) -> bool:
    return bool(types.is_list(data_type) or types.is_large_list(data_type) or types.is_fixed_size_list(data_type))


def _bits(bitmap: pa.Buffer, array: pa.Array) -> Bytes:
    """One byte, 0 or 1, per row of an array whose offset counts into the bitmap."""
    first, skip = divmod(array.offset, 8)
    window = np.frombuffer(bitmap, np.uint8)[first : first + len(array) // 8 + 2]
    return np.unpackbits(window, bitorder="little")[skip : skip + len(array)]


def _boolean_bytes(array: pa.Array, valid: Mask | None) -> Bytes:
    out: Bytes = _bits(array.buffers()[1], array) + np.uint8(1)
    if valid is not None:
        out[~valid] = 0
    return out


def _fixed_rows(array: pa.Array) -> Bytes:
    """A fixed-width array as a matrix, one row each: a view without copies."""
    width, start = array.type.byte_width, array.offset * array.type.byte_width
    values = np.frombuffer(array.buffers()[1], np.uint8) if width else np.empty(0, np.uint8)
    return values[start : start + len(array) * width].reshape(len(array), width)


def _length_prefixed(rows: Bytes) -> Bytes:
    prefixed = np.empty((rows.shape[0], _PREFIX_BYTES + rows.shape[1]), np.uint8)
    prefixed[:, :_PREFIX_BYTES] = np.frombuffer(struct.pack("<Q", rows.shape[1]), np.uint8)
    prefixed[:, _PREFIX_BYTES:] = rows
    return prefixed


def _without_null_values(rows: Bytes, valid: Mask | None) -> Bytes:
    """Flatten a matrix of rows, a null row being the single byte 0."""
    if valid is None:
        return rows.reshape(-1)
    kept = np.repeat(valid[:, None], rows.shape[1], axis=1)
    kept[:, 0] = True
    zeroed = rows.copy()
    zeroed[~valid, 0] = 0
    return zeroed[kept]


def _binary_stream(array: pa.Array, valid: Mask | None) -> tuple[Bytes, Lengths]:
    large = types.is_large_string(array.type) or types.is_large_binary(array.type)
    offsets = _offsets(array, large=large)
    lengths = np.diff(offsets)
    data = array.buffers()[2]
    body = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]]
    if valid is not None and bool(lengths[~valid].any()):
        # Bytes under a null are not hashed; writers hardly ever leave any, so only then is a copy made.
        body = body[np.repeat(valid, lengths)]
        lengths = np.where(valid, lengths, 0)
    return _prefixed(lengths, valid, body, lengths)


def _list_stream(array: pa.Array, valid: Mask | None) -> tuple[Bytes, Lengths]:
    if types.is_fixed_size_list(array.type):
        offsets = (array.offset + np.arange(len(array) + 1, dtype=np.int64)) * array.type.list_size
    else:
        offsets = _offsets(array, large=types.is_large_list(array.type))
    counts = np.diff(offsets)
    items = array.values.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
    if valid is not None and bool(counts[~valid].any()):
        # Items under a null list are not hashed, as above.
        items = items.filter(_as_booleans(np.repeat(valid, counts)))
        counts = np.where(valid, counts, 0)
    body, item_lengths = _stream(items, validity(items))
    ends = _ends(counts)
    body_ends = ends * item_lengths if isinstance(item_lengths, int) else _ends(item_lengths)[ends]
    return _prefixed(counts, valid, body, np.diff(body_ends))


def _offsets(array: pa.Array, *, large: bool) -> npt.NDArray[np.int64]:
    values = np.frombuffer(array.buffers()[1], np.int64 if large else np.int32)
    return values[array.offset : array.offset + len(array) + 1].astype(np.int64)


def _prefixed(
    counts: npt.NDArray[np.int64], valid: Mask | None, bodies: Bytes, body_lengths: npt.NDArray[np.int64]
) -> tuple[Bytes, Lengths]:
    """Put each row's count (or the null byte) before its body.

    Arrow's join copies row by row in C++, which is faster than any numpy scatter; its data buffer is the stream."""
    matrix = counts.astype("<u8").view(np.uint8).reshape(len(counts), _PREFIX_BYTES)
    prefix_lengths = np.full(len(counts), _PREFIX_BYTES, np.int64)
    if valid is not None:
        prefix_lengths[~valid] = 1
    prefixes = _as_binary(_without_null_values(matrix, valid), prefix_lengths)
    joined = pc.binary_join_element_wise(prefixes, _as_binary(bodies, body_lengths), _separator())
    lengths = prefix_lengths + body_lengths
    return np.frombuffer(joined.buffers()[2], np.uint8)[: int(lengths.sum())], lengths


def _as_binary(data: Bytes, lengths: npt.NDArray[np.int64]) -> pa.Array:
    buffers = [None, pa.py_buffer(_ends(lengths)), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), len(lengths), buffers)


def _as_booleans(mask: Mask) -> pa.Array:
    packed = pa.py_buffer(np.packbits(mask, bitorder="little"))
    return pa.Array.from_buffers(pa.bool_(), len(mask), [None, packed])


def _ends(lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    ends = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=ends[1:])
    return ends
