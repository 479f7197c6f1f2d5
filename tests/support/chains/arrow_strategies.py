"""Hypothesis strategies of Arrow types and tables that slices may hold."""

from __future__ import annotations

from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st
from pyarrow import types

UNITS = ("s", "ms", "us", "ns")
EXACT = Context(prec=100)


def leaf_types() -> st.SearchStrategy[pa.DataType]:
    """Every leaf type with a logical hash."""
    plain = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
    plain += [pa.float16(), pa.float32(), pa.float64(), pa.bool_(), pa.date32(), pa.date64()]
    plain += [pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.binary(0), pa.binary(3)]
    plain += [pa.string_view(), pa.binary_view()]
    plain += [pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")]
    plain += [pa.timestamp(unit, zone) for unit in UNITS for zone in (None, "UTC", "Europe/Berlin")]
    plain += [pa.decimal32(9, 2), pa.decimal64(18, 0), pa.decimal128(38, 5), pa.decimal256(50, 7)]
    plain += [pa.decimal128(5, -2)]
    return st.sampled_from(plain)


def list_types(items: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    return st.one_of(
        items.map(pa.list_),
        items.map(pa.large_list),
        items.flatmap(lambda t: st.integers(0, 3).map(lambda n: pa.list_(t, n))),
    )


def column_types() -> st.SearchStrategy[pa.DataType]:
    """Leaves, and lists up to two deep.

    Structs are drawn apart, because their nulls need care.
    """
    lists = list_types(leaf_types())
    return st.one_of(leaf_types(), lists, list_types(lists))


def arrays(data_type: pa.DataType, rows: int, *, nulls: bool) -> st.SearchStrategy[pa.Array]:
    values = _values(data_type, nulls=nulls)
    if nulls:
        values = st.one_of(st.none(), values)
    return st.lists(values, min_size=rows, max_size=rows).map(lambda drawn: _array(drawn, data_type))


def tables(*, types_: st.SearchStrategy[pa.DataType] | None = None, rows_max: int = 12) -> st.SearchStrategy[pa.Table]:
    @st.composite
    def build(draw: st.DrawFn) -> pa.Table:
        rows = draw(st.integers(0, rows_max))
        chosen = draw(st.lists(types_ or column_types(), min_size=1, max_size=4))
        columns = [draw(arrays(data_type, rows, nulls=draw(st.booleans()))) for data_type in chosen]
        return pa.table(columns, names=[f"c{index}" for index in range(len(columns))])

    return build()


def parquet_can_hold(table: pa.Table) -> pa.Table:
    """Without columns that pyarrow's writer changes or refuses."""
    refused = ("[s", "date64", "[0]", "decimal128(5, -2)")
    kept = [index for index, field in enumerate(table.schema) if not any(bad in str(field.type) for bad in refused)]
    return table.select(kept) if kept else pa.table({"c": pa.array([1] * table.num_rows, pa.int64())})


def _array(values: list[Any], data_type: pa.DataType) -> pa.Array:
    if types.is_float16(data_type):
        return pa.array([None if v is None else np.float16(v) for v in values], data_type)
    if types.is_temporal(data_type):
        width = pa.int32() if data_type.bit_width == 32 else pa.int64()
        return pa.array(values, width).view(data_type)
    if types.is_list(data_type) or types.is_large_list(data_type) or types.is_fixed_size_list(data_type):
        return _list_array(values, data_type)
    return pa.array(values, data_type)


def _list_array(values: list[list[Any] | None], data_type: pa.DataType) -> pa.Array:
    filled = [None] * data_type.list_size if types.is_fixed_size_list(data_type) else []
    items = _array([item for row in values for item in (filled if row is None else row)], data_type.value_type)
    mask = pa.array([row is None for row in values], pa.bool_())
    if types.is_fixed_size_list(data_type):
        if data_type.list_size == 0:
            return pa.array(values, data_type)
        return pa.FixedSizeListArray.from_arrays(items, data_type.list_size, mask=mask)
    ends = np.cumsum([0, *(0 if row is None else len(row) for row in values)])
    if types.is_large_list(data_type):
        return pa.LargeListArray.from_arrays(pa.array(ends, pa.int64()), items, mask=mask)
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), items, mask=mask)


def _values(data_type: pa.DataType, *, nulls: bool) -> st.SearchStrategy[Any]:
    if types.is_integer(data_type):
        bits = data_type.bit_width
        low, high = (
            (-(1 << bits - 1), (1 << bits - 1) - 1) if types.is_signed_integer(data_type) else (0, (1 << bits) - 1)
        )
        return st.integers(low, high)
    if types.is_floating(data_type):
        return st.floats(width=data_type.bit_width)
    if types.is_boolean(data_type):
        return st.booleans()
    if types.is_decimal(data_type):
        limit = 10**data_type.precision - 1
        return st.integers(-limit, limit).map(lambda n: Decimal(n).scaleb(-data_type.scale, EXACT))
    if types.is_temporal(data_type):
        return st.integers(-(2**31), 2**31 - 1)
    if types.is_fixed_size_binary(data_type):
        return st.binary(min_size=data_type.byte_width, max_size=data_type.byte_width)
    if types.is_list(data_type) or types.is_large_list(data_type) or types.is_fixed_size_list(data_type):
        return _lists(data_type, nulls=nulls)
    if data_type in (pa.binary(), pa.large_binary(), pa.binary_view()):
        return st.binary(max_size=20)
    return st.text(st.characters(codec="utf-8"), max_size=8)


def _lists(data_type: pa.DataType, *, nulls: bool) -> st.SearchStrategy[Any]:
    items = _values(data_type.value_type, nulls=nulls)
    if nulls:
        items = st.one_of(st.none(), items)
    if types.is_fixed_size_list(data_type):
        return st.lists(items, min_size=data_type.list_size, max_size=data_type.list_size)
    return st.lists(items, max_size=3)
