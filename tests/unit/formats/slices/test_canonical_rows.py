"""Canonical bytes of rows do not depend on how a column lies in memory."""

from __future__ import annotations

import datetime as dt
import math
import struct
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import types

from odfabric.formats.slices.canonical_rows import row_bytes
from tests.support.turns import examples

PRICE = pa.decimal128(12, 2)
PRICES = [Decimal("1.50"), None, Decimal("-3.25"), Decimal("0.00"), Decimal("9999999999.99"), Decimal("1.50")]
COLUMNS: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int32(), [1, None, -3, 0, 7, 1]),
    (pa.bool_(), [True, None, False, False, True, True]),
    (pa.date32(), [dt.date(1969, 12, 31), None, dt.date(1970, 1, 1), dt.date(2024, 2, 29), None, dt.date(1, 1, 1)]),
    (pa.timestamp("ms", "UTC"), [-1, 0, None, 5, 6, 7]),
    (pa.float64(), [0.0, -0.0, None, float("nan"), 1.5, -2.0]),
    (pa.string(), ["", "a", None, "a\x00b", "ab", "a"]),
    (PRICE, PRICES),
    (pa.decimal128(38, 2), PRICES),
    (pa.list_(PRICE), [[price] * length for price, length in zip(PRICES, (0, 1, 2, 3, 1, 0), strict=True)]),
    (pa.struct([pa.field("price", PRICE)]), [{"price": price} for price in PRICES]),
    (pa.map_(pa.string(), PRICE), [[("a", PRICES[0])], None, [], [("a", None), ("b", PRICES[2])], [("", None)], []]),
]


@pytest.mark.parametrize(("data_type", "values"), COLUMNS, ids=[str(data_type) for data_type, _ in COLUMNS])
def test_a_slice_has_the_bytes_of_its_rows(data_type: pa.DataType, values: list[Any]) -> None:
    column = pa.array(values, data_type)
    whole = row_bytes([column])
    for begin in range(len(values)):
        for length in range(len(values) - begin + 1):
            assert row_bytes([column.slice(begin, length)]).equals(whole.slice(begin, length))


def one_by_one(value: Any, data_type: pa.DataType) -> bytes:
    """The encoding said of a single value."""
    return b"\0" if value is None else b"\1" + present(value, data_type)


def present(value: Any, data_type: pa.DataType) -> bytes:
    if types.is_map(data_type):
        entry = pa.struct([data_type.key_field.with_name("key"), data_type.item_field.with_name("value")])
        return present([{"key": key, "value": item} for key, item in value], pa.list_(entry))
    if types.is_list(data_type):
        return b"".join(b"\1" + one_by_one(item, data_type.value_type) for item in value) + b"\0"
    if types.is_struct(data_type):
        return b"".join(one_by_one(value[member.name], member.type) for member in data_type)
    if types.is_string(data_type):
        return value.encode().replace(b"\0", b"\0\xff") + b"\0\1"  # type: ignore[no-any-return]
    if types.is_decimal(data_type):
        return (int(value.scaleb(data_type.scale)) + (1 << 127)).to_bytes(16, "big")
    if types.is_floating(data_type):
        (bits,) = struct.unpack(">Q", struct.pack(">d", math.nan if math.isnan(value) else value))
        return ((1 << 64) - 1 - bits if bits >> 63 else bits | 1 << 63).to_bytes(8, "big")
    number = (value - dt.date(1970, 1, 1)).days if types.is_date(data_type) else int(value)
    return (number + (1 << 63)).to_bytes(8, "big")


VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int16(): st.integers(-(1 << 15), (1 << 15) - 1),
    pa.int64(): st.integers(-(1 << 63), (1 << 63) - 1),
    pa.bool_(): st.booleans(),
    pa.date32(): st.dates(),
    pa.timestamp("us", "UTC"): st.integers(-(1 << 50), 1 << 50),
    pa.float64(): st.floats() | st.sampled_from((0.0, -0.0, math.nan)),
    pa.string(): st.text(alphabet="\0a\xff", max_size=4),
    pa.decimal128(12, 2): st.integers(-(10**12) + 1, 10**12 - 1).map(lambda units: Decimal(units).scaleb(-2)),
    pa.list_(pa.int64()): st.lists(st.none() | st.integers(-9, 9), max_size=3),
    pa.struct([pa.field("n", pa.int64()), pa.field("s", pa.string())]): st.fixed_dictionaries(
        {"n": st.none() | st.integers(-9, 9), "s": st.none() | st.text(alphabet="\0a", max_size=2)}
    ),
}


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[pa.DataType], list[list[Any]]]:
    """Types of columns, and rows; a column has nulls or it has none."""
    columns = draw(st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=5))
    cells = [VALUES[each] if draw(st.booleans()) else st.none() | VALUES[each] for each in columns]
    return columns, draw(st.lists(st.tuples(*cells).map(list), max_size=6))


@settings(max_examples=examples(300), deadline=None)
@given(table=tables(), begin=st.integers(0, 2))
def test_rows_have_the_bytes_of_their_values(table: tuple[list[pa.DataType], list[list[Any]]], begin: int) -> None:
    columns, rows = table
    arrays = [pa.array([row[at] for row in rows], each).slice(begin) for at, each in enumerate(columns)]
    expected = [b"".join(map(one_by_one, row, columns)) for row in rows[begin:]]
    found = row_bytes(arrays)
    found.validate(full=True)
    assert found.to_pylist() == expected
