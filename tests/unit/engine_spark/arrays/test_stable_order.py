"""Positions in order equal one stable sort, however numbers are packed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric_engine_spark.arrays import stable_order as module
from odfabric_engine_spark.arrays.stable_order import order_by, stable_order

NUMBERS = st.lists(st.integers(-3, 3) | st.integers(-(2**63), 2**63 - 1), max_size=200)


@given(NUMBERS)
def test_equal_numbers_keep_their_order(numbers: list[int]) -> None:
    keys = np.array(numbers, dtype=np.int64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "FEW", 0)
        found = stable_order(keys)
    assert found.tolist() == np.argsort(keys, kind="stable").tolist()


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=2, max_size=200), st.integers(0, 2**40))
def test_numbers_that_differ_in_their_last_bits_only(numbers: list[tuple[int, int]], between: int) -> None:
    keys = np.array([high * (2**61) + low * between for high, low in numbers], dtype=np.uint64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "FEW", 0)
        found = stable_order(keys)
    assert found.tolist() == np.argsort(keys, kind="stable").tolist()


@given(NUMBERS | st.lists(st.integers(0, 2**64 - 1), max_size=200), st.integers(1, 5))
def test_halves_are_sorted_at_the_same_time(numbers: list[int], cores: int) -> None:
    keys = np.array(numbers, dtype=np.int64 if min(numbers, default=0) < 0 else np.uint64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "FEW", 0)
        patch.setattr(module, "MANY", 8)
        patch.setattr(module.pa, "cpu_count", lambda: cores)
        found = stable_order(keys)
    assert found.tolist() == np.argsort(keys, kind="stable").tolist()


def test_large_unsigned_numbers_come_last() -> None:
    keys = np.array([2**64 - 1, 0, 2**63, 1] * 100_000, dtype=np.uint64)
    assert (stable_order(keys) == np.argsort(keys, kind="stable")).all()


@pytest.mark.parametrize("kind", [np.int8, np.uint16, np.int32, np.int64])
def test_numbers_of_any_width(kind: type[np.signedinteger]) -> None:
    keys = np.random.default_rng(3).integers(np.iinfo(kind).min, np.iinfo(kind).max, 50_000).astype(kind)
    assert (stable_order(keys) == np.argsort(keys, kind="stable")).all()


@given(
    st.lists(st.tuples(st.booleans(), st.integers(-2, 2), st.integers(-(2**63), 2**63 - 1)), min_size=1, max_size=100),
    st.sampled_from([0, 1, 40, 60]),
)
def test_several_numbers_order_as_one_after_the_other(rows: list[tuple[bool, int, int]], narrower: int) -> None:
    columns = [
        np.array([row[0] for row in rows]),
        np.array([row[1] for row in rows], dtype=np.int8),
        np.array([row[2] >> narrower for row in rows], dtype=np.int64),
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "FEW", 0)
        found = order_by(*columns)
        first_two = order_by(*columns[:2])
    assert found.tolist() == np.lexsort(tuple(reversed(columns))).tolist()
    assert first_two.tolist() == np.lexsort((columns[1], columns[0])).tolist()
