"""Groups' values added up, against a counter: every type, any parts."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odfabric.formats.slices.canonical_rows import row_bytes
from odfabric_engine_spark.operators.aggregate.accumulators.count_and_sum import Values, merge_values
from tests.support.turns import examples

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
TYPES: dict[pa.DataType, list[Any]] = {
    pa.int64(): [-(1 << 63), -1, 0, 1, (1 << 63) - 1],
    pa.int16(): [-3, 0, 2],
    pa.bool_(): [False, True],
    pa.date32(): [dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(2026, 1, 1)],
    pa.timestamp("us", "UTC"): [EPOCH - dt.timedelta(days=1), EPOCH, EPOCH + dt.timedelta(microseconds=1)],
    pa.string(): ["", "a", "a\x00", "b", "ä"],
    pa.decimal128(20, 2): [Decimal("-1.50"), Decimal("0.00"), Decimal("7.25")],
}
Entry = tuple[int, int, int]
entries = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4), st.sampled_from((-1, 1, 1, 2))), max_size=20)


def columns(entries: list[Entry], data_type: pa.DataType) -> tuple[Any, pa.Array, Any]:
    known = TYPES[data_type]
    values = pa.array([known[value % len(known)] for _, value, _ in entries], data_type)
    return (
        np.array([group for group, _, _ in entries], dtype=np.int64),
        values,
        np.array([count for _, _, count in entries], dtype=np.int64),
    )


def counted(*parts: tuple[Any, pa.Array, Any]) -> dict[tuple[int, Any], int]:
    found: Counter[tuple[int, Any]] = Counter()
    for groups, values, counts in parts:
        for group, value, count in zip(groups.tolist(), values.to_pylist(), counts.tolist(), strict=True):
            found[group, value] += count
    return {key: count for key, count in found.items() if count}


@pytest.mark.parametrize("data_type", TYPES, ids=str)
@settings(max_examples=60, deadline=None)
@given(rows=entries)
def test_equal_values_are_added_up_in_the_order_of_canonical_bytes(rows: list[Entry], data_type: pa.DataType) -> None:
    given_rows = columns(rows, data_type)
    groups, values, counts = merge_values(*given_rows)
    told = zip(groups.tolist(), values.to_pylist(), counts.tolist(), strict=True)
    assert {(group, value): count for group, value, count in told} == counted(given_rows)
    assert values.type == data_type
    keys = list(zip(groups.tolist(), row_bytes([values]).to_pylist(), strict=True))
    assert keys == sorted(set(keys)), "each value of a group once"


@settings(max_examples=examples(100), deadline=None)
@given(parts=st.lists(entries, max_size=4), own=entries)
def test_parts_together_are_parts_one_after_the_other(parts: list[list[Entry]], own: list[Entry]) -> None:
    def value_of(rows: list[Entry]) -> Values:
        return Values(4, *merge_values(*columns(rows, pa.int64())))

    together, one_by_one = value_of(own), value_of(own)
    places = [np.roll(np.arange(4), number) for number in range(len(parts))]
    together.add_all([(place, value_of(rows)) for place, rows in zip(places, parts, strict=True)])
    for place, rows in zip(places, parts, strict=True):
        one_by_one.add_at(place, value_of(rows))
    assert together.groups.tolist() == one_by_one.groups.tolist()
    assert together.values.equals(one_by_one.values)
    assert together.counts.tolist() == one_by_one.counts.tolist()
