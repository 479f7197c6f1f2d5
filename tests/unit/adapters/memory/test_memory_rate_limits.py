"""Rate limits in memory: against a model, with a clock that the test moves."""

from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.adapters.memory.people.rate_limits import MemoryRateLimits


class Seconds:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


steps = st.lists(st.tuples(st.sampled_from([0.0, 0.25, 1.0, 2.75, 40.0]), st.sampled_from("abc")), max_size=60)


@given(steps, st.integers(1, 4), st.integers(1, 5))
def test_a_window_is_never_too_full_and_never_too_strict(
    takes: list[tuple[float, str]], limit: int, window_s: int
) -> None:
    seconds = Seconds()
    limits = MemoryRateLimits(keys_max=100, seconds=seconds)
    let_through: dict[str, list[float]] = defaultdict(list)
    for pause_s, key in takes:
        seconds.now += pause_s
        recent = [when for when in let_through[key] if when > seconds.now - window_s]
        wait_s = limits.take(key, limit=limit, window_s=window_s)
        assert (wait_s is None) == (len(recent) < limit)
        if wait_s is None:
            let_through[key].append(seconds.now)
        else:
            assert wait_s == recent[-limit] + window_s - seconds.now
            assert wait_s > 0


@given(st.integers(1, 4), st.integers(1, 60), st.floats(0.001, 50))
def test_the_time_that_is_told_is_enough_and_no_less_is(limit: int, window_s: int, pause_s: float) -> None:
    seconds = Seconds()
    limits = MemoryRateLimits(keys_max=100, seconds=seconds)
    seconds.now += pause_s
    for _ in range(limit):
        assert limits.take("key", limit=limit, window_s=window_s) is None
    wait_s = limits.take("key", limit=limit, window_s=window_s)
    assert wait_s is not None
    seconds.now += wait_s - 1e-6
    assert limits.take("key", limit=limit, window_s=window_s) is not None
    seconds.now += 2e-6
    assert limits.take("key", limit=limit, window_s=window_s) is None


@pytest.mark.parametrize("lower", [1, 2, 3])
def test_a_lower_limit_counts_what_was_let_through_before(lower: int) -> None:
    seconds = Seconds()
    limits = MemoryRateLimits(keys_max=100, seconds=seconds)
    for _ in range(4):
        assert limits.take("a", limit=4, window_s=10) is None
        seconds.now += 1
    assert limits.take("a", limit=lower, window_s=10) == 10 - lower


def test_keys_are_bounded_and_who_keeps_trying_stays_counted() -> None:
    limits = MemoryRateLimits(keys_max=10, seconds=Seconds())
    assert limits.take("attacked", limit=1, window_s=60) is None
    for number in range(1000):
        limits.take(f"other {number}", limit=1, window_s=60)
        assert limits.take("attacked", limit=1, window_s=60) is not None
        assert len(limits) <= 10
    assert len(limits) == 10


def test_keys_whose_time_is_over_are_forgotten() -> None:
    seconds = Seconds()
    limits = MemoryRateLimits(keys_max=10_000, seconds=seconds)
    for number in range(1000):
        limits.take(f"address {number}", limit=5, window_s=60)
    assert len(limits) == 1000
    seconds.now += 61
    for _ in range(501):
        limits.take("busy", limit=5, window_s=60)
    assert len(limits) == 1
