"""Canonical bytes of rows: equal rows, equal bytes; byte order is row order.

Owns the encoding: column by column, nulls first; numbers by value, -0.0 before 0.0, NaN last; texts and binaries by bytes;
lists item by item, maps as lists of their entries. Invariant: the encoding is injective, so equality of bytes is equality of rows as
the logical hash has it. Not here: which zero or NaN a group's key has (`group_keys`). Source:
docs/engine.md#when-rows-are-equal; docs/engine.md#order-of-the-output.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from functools import cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

_NULL, _VALUE, _NOTHING = b"\x00", b"\x01", b""
_ZERO_BYTE = (b"\x00", b"\x00\xff")
"""A zero byte within a text is written so that the end of the text sorts before it."""
_END = b"\x00\x01"
_SIGN = np.uint64(1 << 63)
BYTES_MAX = (1 << 31) - 1
"""Offsets within an array of byte strings have 32 bits."""


@cache
def _sign(content: bytes) -> pa.Scalar:
    """The sign, not made at import: the first value makes pyarrow import pandas.

    Many a process does not need pandas.
    """
    return pa.scalar(content, pa.binary())


def row_bytes(columns: Sequence[pa.Array]) -> pa.Array:
    """One byte string per row. ArrowException where they are more than 2 GiB together."""
    parts: list[pa.Array | pa.Scalar] = []
    waiting: list[pa.Array] = []
    for column in columns:
        if _is_fixed(column.type) and not column.null_count:
            waiting.append(column)
            continue
        parts += [_encode_fixed(waiting)] if waiting else []
        # Each join copies all bytes, so texts are joined with what stands beside them.
        parts += _parts_of_text(column) if _is_bytes(column.type) and not column.null_count else [_encode(column)]
        waiting = []
    parts += [_encode_fixed(waiting)] if waiting else []
    return parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, _sign(_NOTHING))


def table_bytes(table: pa.Table) -> pa.Array:
    """One byte string per row of a table."""
    return row_bytes([one_array(column) for column in table.columns])


def one_array(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """A column in one piece."""
    if isinstance(column, pa.Array):
        return column
    if column.num_chunks == 1 and not types.is_nested(column.type):
        # Of lists a part has the items of the whole; what has no items is read as it lies.
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def _encode(array: pa.Array) -> pa.Array:
    if _is_fixed(array.type):
        filled = pc.fill_null(array, _zero(array.type)) if array.null_count else array
        plain = _encode_fixed([filled])
        return pc.if_else(array.is_valid(), plain, _sign(_NULL)) if array.null_count else plain
    joined = pc.binary_join_element_wise(_sign(_VALUE), _encode_values(array), _sign(_NOTHING))
    return pc.fill_null(joined, _sign(_NULL))


def _encode_values(array: pa.Array) -> pa.Array:
    """Without a sign for null: nulls stay null."""
    if types.is_map(array.type):
        array = array.cast(pa.list_(pa.struct([array.type.key_field, array.type.item_field])))
    if types.is_struct(array.type):
        members = [array.field(index) for index in range(array.type.num_fields)]
        together = row_bytes(members) if members else pa.array([b""] * len(array), pa.binary())
        return pc.if_else(array.is_valid(), together, pa.scalar(None, pa.binary()))
    if types.is_list(array.type) or types.is_large_list(array.type) or types.is_fixed_size_list(array.type):
        return _encode_list(array)
    return _encode_text(array)


def _encode_list(array: pa.Array) -> pa.Array:
    """Each item with a sign that it is there, then the end."""
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    items = pc.binary_join_element_wise(_sign(_VALUE), _encode(pc.list_flatten(array)), _sign(_NOTHING))
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
    joined = pc.binary_join(pa.ListArray.from_arrays(offsets, items), _sign(_NOTHING))
    ended = pc.binary_join_element_wise(joined, _sign(_NULL), _sign(_NOTHING))
    return pc.if_else(array.is_valid(), ended, pa.scalar(None, pa.binary()))


def _is_bytes(data_type: pa.DataType) -> bool:
    return bool(types.is_string(data_type) or types.is_binary(data_type) or types.is_fixed_size_binary(data_type))


def _encode_text(array: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(_escaped(array), _sign(_END), _sign(_NOTHING))


def _parts_of_text(array: pa.Array) -> list[pa.Array | pa.Scalar]:
    """What to join for texts without nulls."""
    return [_sign(_VALUE), _escaped(array), _sign(_END)]


def _escaped(array: pa.Array) -> pa.Array:
    """Texts whose end can be distinguished from a zero byte; few have one."""
    plain = array.cast(pa.binary())
    offsets = np.frombuffer(plain.buffers()[1] or b"", dtype=np.int32)[plain.offset : plain.offset + len(plain) + 1]
    content = np.frombuffer(plain.buffers()[2] or b"", dtype=np.uint8)
    if not len(plain) or content[offsets[0] : offsets[-1]].all():
        return plain
    return pc.replace_substring(plain, pattern=_ZERO_BYTE[0], replacement=_ZERO_BYTE[1])


def _is_fixed(data_type: pa.DataType) -> bool:
    """Whether all values have as many bytes."""
    return not (types.is_nested(data_type) or _is_bytes(data_type))


def _encode_fixed(columns: Sequence[pa.Array]) -> pa.Array:
    """Fixed-width columns without nulls, side by side: big-endian, the sign inverted."""
    count, values = len(columns[0]), [_in_order(column) for column in columns]
    parts = [part for at, each in enumerate(values) for part in ((f"is{at}", "u1"), (f"value{at}", each.dtype))]
    rows = np.empty(count, dtype=parts)
    for at, each in enumerate(values):
        rows[f"is{at}"] = 1
        rows[f"value{at}"] = each
    width = rows.dtype.itemsize
    if count * width > BYTES_MAX:
        raise pa.ArrowCapacityError(f"byte strings of {count} rows have more than {BYTES_MAX} bytes")
    offsets = np.arange(0, (count + 1) * width, width, dtype=np.int32)
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(rows)])


def _in_order(array: pa.Array) -> npt.NDArray[np.generic]:
    """Values whose bytes are in their order."""
    if types.is_decimal(array.type):
        return _decimal_bytes(array)
    return (integers_in_order(array).view(np.uint64) ^ _SIGN).astype(">u8")


def _zero(data_type: pa.DataType) -> pa.Scalar:
    if types.is_boolean(data_type):
        return pa.scalar(False)
    return pa.scalar(Decimal(0) if types.is_decimal(data_type) else 0, data_type)


def has_integers_in_order(data_type: pa.DataType) -> bool:
    """Whether `integers_in_order` takes its values."""
    return bool(
        types.is_signed_integer(data_type)
        or types.is_floating(data_type)
        or types.is_boolean(data_type)
        or types.is_date32(data_type)
        or types.is_timestamp(data_type)
    )


def integers_in_order(array: pa.Array) -> npt.NDArray[np.int64]:
    """Integers in the order of the values.

    For numbers of up to 64 bits, truth values, dates and timestamps without nulls.
    """
    if types.is_boolean(array.type):
        array = array.cast(pa.int8())
    elif types.is_date32(array.type):
        array = array.view(pa.int32())
    elif types.is_timestamp(array.type):
        array = array.view(pa.int64())
    if types.is_floating(array.type):
        return ordered_bits(array)
    values: npt.NDArray[np.int64] = array.to_numpy(zero_copy_only=False).astype(np.int64)
    return values


def ordered_bits(array: pa.Array) -> npt.NDArray[np.int64]:
    """Floats as integers in total order: one NaN, the greatest; -0.0 below 0.0."""
    floats: npt.NDArray[np.float64] = array.cast(pa.float64()).to_numpy(zero_copy_only=False)
    bits: npt.NDArray[np.int64] = np.where(np.isnan(floats), np.nan, floats).view(np.int64)
    return np.where(bits < 0, bits ^ np.int64(0x7FFFFFFFFFFFFFFF), bits)


def floats_of_bits(bits: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """The way back from `ordered_bits`."""
    return np.where(bits < 0, bits ^ np.int64(0x7FFFFFFFFFFFFFFF), bits).view(np.float64)


def _decimal_bytes(array: pa.Array) -> npt.NDArray[np.void]:
    wide = array.cast(pa.decimal128(38, array.type.scale))
    words = np.frombuffer(wide.buffers()[1], dtype=np.uint8)
    # A cast makes new buffers, so it is its own offset that counts: that of a slice is gone.
    rows = words.reshape(-1, 16)[wide.offset : wide.offset + len(wide)]
    big_endian = rows[:, ::-1].copy()
    big_endian[:, 0] ^= 0x80
    return big_endian.view("V16").reshape(-1)
