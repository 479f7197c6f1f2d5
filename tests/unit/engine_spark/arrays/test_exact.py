"""Decimals as integers and back, few or many bits wide."""

from __future__ import annotations

from decimal import Decimal, localcontext

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric_engine_spark.arrays.exact_sums import decimal_units, object_array, units_to_decimal

EDGES = st.sampled_from((0, -1, (1 << 63) - 1, -(1 << 63), 1 << 63, -(1 << 63) - 1, (1 << 64) - 1, 1 << 64, 10**37))


@pytest.mark.parametrize("data_type", [pa.decimal128(38, 3), pa.decimal256(76, 3)])
@given(units=st.lists(EDGES | st.integers(-9, 9), max_size=6))
def test_there_and_back(data_type: pa.DataType, units: list[int]) -> None:
    found = units_to_decimal(object_array(units), data_type)
    found.validate(full=True)
    with localcontext() as context:
        context.prec = 80
        assert found.to_pylist() == [Decimal(each).scaleb(-3) for each in units]
    assert decimal_units(found).tolist() == units
    assert decimal_units(found.slice(1)).tolist() == units[1:]


def test_nulls_are_zero() -> None:
    found = units_to_decimal(object_array([1, 2]), pa.decimal128(38, 0), valid=np.array([True, False]))
    assert found.to_pylist() == [Decimal(1), None]
    assert decimal_units(found).tolist() == [1, 0]
