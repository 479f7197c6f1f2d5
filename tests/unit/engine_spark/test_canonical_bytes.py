"""Canonical bytes of rows do not depend on how a column lies in memory."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from odfabric_engine_spark.incremental.canonical import row_bytes

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
