"""Positions in order: the same as one sort gives, however many cores take part."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric_engine_spark.incremental import stable_order as module
from odfabric_engine_spark.incremental.stable_order import stable_order


@given(st.lists(st.integers(-3, 3) | st.integers(-(2**63), 2**63 - 1), max_size=200), st.sampled_from([1, 2, 3, 8]))
def test_equal_numbers_keep_their_order(numbers: list[int], cores: int) -> None:
    keys = np.array(numbers, dtype=np.int64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_ALONE_MAX", 4)
        patch.setattr(module.pa, "cpu_count", lambda: cores)
        found = stable_order(keys)
    assert found.tolist() == np.argsort(keys, kind="stable").tolist()


def test_large_unsigned_numbers_come_last() -> None:
    keys = np.array([2**64 - 1, 0, 2**63, 1] * 100_000, dtype=np.uint64)
    assert (stable_order(keys) == np.argsort(keys, kind="stable")).all()
