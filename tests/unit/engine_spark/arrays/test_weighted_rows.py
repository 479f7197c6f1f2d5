"""Statistics of weighted rows, against exact sums in Python.

A weight is no more than a short way to repeat a row.
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st

from odfabric_engine_spark.arrays.exact_sums import FLOAT_UNIT_BITS
from odfabric_engine_spark.arrays.weighted_rows import WeightedRows
from odfabric_engine_spark.operators.aggregate.accumulators.count_and_sum import (
    Counts,
    CountStatistic,
    FloatSums,
    FloatSumStatistic,
    Multiset,
    Sums,
    SumStatistic,
    Values,
)
from tests.support.turns import examples

weights = st.one_of(st.sampled_from((1, -1, 2, 1023, 1024, 1025, -1025)), st.integers(-(1 << 40), 1 << 40))
longs = st.one_of(st.sampled_from((0, 1, (1 << 62) - 1, 1 << 62, (1 << 63) - 1, -(1 << 63))), st.integers(-9, 9))
doubles = st.one_of(st.sampled_from((0.0, -0.0, math.nan, math.inf, -math.inf)), st.floats())


def weighted(groups: list[list[tuple[Any, int]]], data_type: pa.DataType) -> WeightedRows:
    rows = [row for group in groups for row in group]
    starts = np.cumsum([0, *(len(group) for group in groups[:-1])])
    own = np.array([weight for _, weight in rows], dtype=np.int64)
    return WeightedRows([pa.array([value for value, _ in rows], data_type)], own, starts)


def groups_of(values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[list[tuple[Any, int]]]]:
    rows = st.tuples(st.one_of(st.none(), values), weights)
    return st.lists(st.lists(rows, min_size=1, max_size=6), min_size=1, max_size=4)


@settings(max_examples=examples(200), deadline=None)
@given(groups=groups_of(longs))
@example(groups=[[((1 << 62) - 1, 3), (1, -3)], [(5, 1 << 40), (None, 7)]])
def test_integers(groups: list[list[tuple[int | None, int]]]) -> None:
    rows = weighted(groups, pa.int64())
    sums, counts = SumStatistic("s", 0, 0).of_rows(rows), CountStatistic("c", 0).of_rows(rows)
    assert isinstance(sums, Sums)
    assert isinstance(counts, Counts)
    assert list(sums.units) == [sum((value or 0) * weight for value, weight in group) for group in groups]
    assert counts.counts.tolist() == [sum(weight for value, weight in group if value is not None) for group in groups]


@settings(max_examples=examples(100), deadline=None)
@given(groups=groups_of(st.decimals(-(10**20), 10**20, places=2, allow_nan=False)))
def test_decimals(groups: list[list[tuple[Decimal | None, int]]]) -> None:
    sums = SumStatistic("s", 0, 2).of_rows(weighted(groups, pa.decimal128(38, 2)))
    assert isinstance(sums, Sums)
    assert list(sums.units) == [
        sum(int(Fraction(value or 0) * 100) * weight for value, weight in group) for group in groups
    ]


near = st.sampled_from((0.0, -0.0, 0.1, -0.1, 1.0, math.nextafter(1.0, 0.0), -7.75, 3.3333333333333335, 0.001, -1000.1))
"""Floats of few exponents, so that rows are more than those."""


@given(
    groups=st.lists(
        st.lists(st.tuples(near, st.sampled_from((1, 1, -1, 1 << 20))), min_size=20, max_size=30),
        min_size=1,
        max_size=3,
    )
)
def test_many_floats_of_few_exponents(groups: list[list[tuple[float, int]]]) -> None:
    sums = FloatSumStatistic("f", 0).of_rows(weighted(groups, pa.float64()))
    assert isinstance(sums, FloatSums)
    exact = [sum(Fraction(value) * weight for value, weight in group) for group in groups]
    assert list(sums.units) == [total * (1 << FLOAT_UNIT_BITS) for total in exact]


@settings(max_examples=examples(300), deadline=None)
@given(groups=groups_of(doubles))
@example(groups=[[(0.1, 1025)]])
@example(groups=[[(-0.1, 1 << 40), (0.3, -1025)], [(math.nan, 2), (math.inf, -3)]])
def test_floats(groups: list[list[tuple[float | None, int]]]) -> None:
    sums = FloatSumStatistic("f", 0).of_rows(weighted(groups, pa.float64()))
    assert isinstance(sums, FloatSums)

    def units(group: list[tuple[float | None, int]]) -> Fraction:
        finite = [(value, weight) for value, weight in group if value is not None and math.isfinite(value)]
        return sum((Fraction(value) * weight for value, weight in finite), Fraction()) * (1 << FLOAT_UNIT_BITS)

    def counted(group: list[tuple[float | None, int]], kind: float) -> int:
        same = (lambda value: math.isnan(value)) if math.isnan(kind) else (lambda value: value == kind)
        return sum(weight for value, weight in group if value is not None and same(value))

    assert list(sums.units) == [units(group) for group in groups]
    assert sums.nans.tolist() == [counted(group, math.nan) for group in groups]
    assert sums.infinities.tolist() == [counted(group, math.inf) for group in groups]
    assert sums.negative_infinities.tolist() == [counted(group, -math.inf) for group in groups]


@settings(max_examples=examples(100), deadline=None)
@given(groups=groups_of(st.integers(-3, 3)))
def test_values(groups: list[list[tuple[int | None, int]]]) -> None:
    values = Multiset("v", 0, pa.int64(), least=True, greatest=True).of_rows(weighted(groups, pa.int64()))
    assert isinstance(values, Values)
    told = zip(values.groups.tolist(), values.values.to_pylist(), values.counts.tolist(), strict=True)
    expected = {}
    for number, group in enumerate(groups):
        for value in sorted({value for value, _ in group if value is not None}):
            expected[number, value] = sum(weight for each, weight in group if each == value)
    assert {(group, value): count for group, value, count in told} == {k: n for k, n in expected.items() if n}
