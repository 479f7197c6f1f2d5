"""Naive logical hash, value by value: an oracle for the vectorised one.

It shares no code with `odfabric.formats`: values come from Python objects, not from Arrow's buffers. Struct validity follows the
format's own rule (union of validities), decided over batches of 10,000 rows.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from decimal import Context
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import types

UNITS = {"s": 0, "ms": 1, "us": 2, "ns": 3}
STRUCT_BATCH_ROWS = 10_000
EXACT = Context(prec=100)


def naive_logical_hash(table: pa.Table) -> str:
    combined = hashlib.sha3_256()
    for name, level in _walk(table.schema):
        combined.update(_u64(len(name.encode())) + name.encode() + _u64(level))
    for index, field in enumerate(table.schema):
        for digest in _columns(table.column(index).combine_chunks(), field.type):
            combined.update(digest)
    return "f9680c00120" + combined.hexdigest()


def _walk(fields: Any, level: int = 0) -> Iterator[tuple[str, int]]:
    for field in fields:
        yield field.name, level
        if types.is_struct(field.type):
            yield from _walk(list(field.type), level + 1)


def _columns(array: Any, data_type: pa.DataType) -> Iterator[bytes]:
    if not types.is_struct(data_type):
        stream = _type_bytes(data_type)
        for scalar in array:
            stream += _value_bytes(scalar, data_type) if scalar.is_valid else b"\0"
        yield hashlib.sha3_256(stream).digest()
        return
    for path, leaf in _leaves(data_type):
        stream = _type_bytes(leaf)
        for start in range(0, len(array), STRUCT_BATCH_ROWS):
            stream += _struct_leaf_bytes(array.slice(start, STRUCT_BATCH_ROWS), path, leaf)
        yield hashlib.sha3_256(stream).digest()


def _leaves(data_type: pa.DataType, path: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], pa.DataType]]:
    for index, member in enumerate(data_type):
        if types.is_struct(member.type):
            yield from _leaves(member.type, (*path, index))
        else:
            yield (*path, index), member.type


def _struct_leaf_bytes(array: Any, path: tuple[int, ...], leaf: pa.DataType) -> bytes:
    flags = [[scalar.is_valid for scalar in array]]
    for index in path:
        array = array.field(index)
        flags.append([scalar.is_valid for scalar in array])
    valid = None
    for level in flags:
        if not all(level):
            valid = level if valid is None else [a or b for a, b in zip(valid, level, strict=True)]
    stream = b""
    for row, scalar in enumerate(array):
        if valid is not None and not valid[row]:
            stream += b"\0"
        elif scalar.is_valid:
            stream += _value_bytes(scalar, leaf)
        else:
            # A value hashed though it is null: what lies under it. Only variable lengths have a defined answer, 0.
            assert types.is_string(leaf), "the oracle knows only strings here"
            stream += _u64(0)
    return stream


def _type_bytes(t: pa.DataType) -> bytes:
    if types.is_signed_integer(t) or types.is_unsigned_integer(t):
        return struct.pack("<HBQ", 1, 1 if types.is_signed_integer(t) else 0, t.bit_width)
    if types.is_floating(t):
        return struct.pack("<HQ", 2, t.bit_width)
    if t in (pa.binary(), pa.large_binary(), pa.binary_view()) or types.is_fixed_size_binary(t):
        return struct.pack("<H", 3)
    if t in (pa.string(), pa.large_string(), pa.string_view()):
        return struct.pack("<H", 4)
    if types.is_boolean(t):
        return struct.pack("<H", 5)
    if types.is_decimal(t):
        return struct.pack("<HQQ", 6, t.bit_width, t.precision) + struct.pack("<q", t.scale)
    if types.is_date(t):
        return struct.pack("<HQH", 7, t.bit_width, 0 if t == pa.date32() else 1)
    if types.is_time(t):
        return struct.pack("<HQH", 8, t.bit_width, UNITS[t.unit])
    if types.is_timestamp(t):
        zone = b"\0" if t.tz is None else _u64(len(t.tz.encode())) + t.tz.encode()
        return struct.pack("<HH", 9, UNITS[t.unit]) + zone
    assert types.is_list(t) or types.is_large_list(t) or types.is_fixed_size_list(t), t
    return struct.pack("<H", 11) + _type_bytes(t.value_type)


def _value_bytes(scalar: Any, t: pa.DataType) -> bytes:
    if types.is_integer(t):
        return int(scalar.as_py()).to_bytes(t.bit_width // 8, "little", signed=bool(types.is_signed_integer(t)))
    if types.is_floating(t):
        return bytes(np.array(scalar.as_py(), f"<f{t.bit_width // 8}").tobytes())
    if types.is_boolean(t):
        return b"\2" if scalar.as_py() else b"\1"
    if types.is_decimal(t):
        unscaled = int(scalar.as_py().scaleb(t.scale, EXACT))
        return unscaled.to_bytes(t.bit_width // 8, "little", signed=True)
    if types.is_temporal(t):
        return int(scalar.value).to_bytes(t.bit_width // 8, "little", signed=True)
    if types.is_list(t) or types.is_large_list(t) or types.is_fixed_size_list(t):
        items = [_value_bytes(item, t.value_type) if item.is_valid else b"\0" for item in scalar.values]
        return _u64(len(items)) + b"".join(items)
    value = scalar.as_py()
    data = value.encode() if isinstance(value, str) else bytes(value)
    return _u64(len(data)) + data


def _u64(number: int) -> bytes:
    return struct.pack("<Q", number)
