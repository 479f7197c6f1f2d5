"""Parts of all keys: each key in one, halves make the whole, division ends."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric_engine_spark.state.key_range import ALL_KEYS, KeyPart

hashes = st.lists(st.integers(0, 2**64 - 1), max_size=20).map(lambda numbers: np.array(numbers, dtype=np.uint64))


@given(hashes, st.integers(1, 300), st.integers(1, 5))
def test_parts_have_each_key_once(some: np.ndarray, count: int, into: int) -> None:
    for whole in ALL_KEYS.divided(count):
        places = [place for part in whole.divided(into) for place in part.positions(some).tolist()]
        assert sorted(places) == whole.positions(some).tolist()


@given(hashes, st.integers(1, 300), st.integers(1, 5))
def test_of_ascending_hashes_those_of_a_part_follow_one_another(some: np.ndarray, count: int, into: int) -> None:
    some.sort()
    for part in (half for whole in ALL_KEYS.divided(count) for half in whole.divided(into)):
        assert np.arange(len(some))[part.span(some)].tolist() == part.positions(some).tolist()


@pytest.mark.parametrize("number", range(7))
def test_a_part_begins_with_the_least_hash_that_lies_in_it(number: int) -> None:
    edges = [edge + by for part in range(8) for edge in [-(-(part << 32) // 7) << 32] for by in (-1, 0, 1)]
    some = np.array([edge for edge in edges if 0 <= edge < 2**64], dtype=np.uint64)
    part = KeyPart(number, 7)
    assert some[part.span(some)].tolist() == some[part.positions(some)].tolist()


@pytest.mark.parametrize("count", [1, 2, 3, 5, 6, 7, 12, 20, 255, 1_000_003])
def test_what_is_divisible_becomes_smaller_until_it_is_not(count: int) -> None:
    part = KeyPart(count - 1, count)
    for _ in range(64):
        if not part.divisible:
            break
        halves = part.divided(2)
        assert len(halves) == 2
        part = halves[1]
    assert not part.divisible
    assert part.divided(2) == [part]
