"""What RateLimits promise, as tests.

A subclass gives `open_limits`, which makes ends of one store that begins empty.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from odfabric.ports.people.rate_limits import RateLimits

PATIENCE_S = 10.0
LONG_S = 3600
_POLL_S = 0.01
_CLOCK_S = 0.02
"""How far two readings of a clock may be from each other."""


class RateLimitsContract:
    """Between threads, and between ends of one store."""

    @pytest.fixture
    def open_limits(self) -> Callable[[], RateLimits]:
        raise NotImplementedError

    @pytest.mark.parametrize("limit", [1, 5])
    def test_as_many_as_the_limit_are_let_through(self, open_limits: Callable[[], RateLimits], limit: int) -> None:
        limits = open_limits()
        assert [limits.take("key", limit=limit, window_s=LONG_S) for _ in range(limit)] == [None] * limit
        wait_s = limits.take("key", limit=limit, window_s=LONG_S)
        assert wait_s is not None
        assert LONG_S - PATIENCE_S < wait_s <= LONG_S

    def test_keys_do_not_share(self, open_limits: Callable[[], RateLimits]) -> None:
        limits = open_limits()
        keys = ["a", "b", "", "a/b", "{a}", "*", "a b\n", "\u00e9", "e\u0301", "\ud800", "x" * 10_000]
        for key in keys:
            assert limits.take(key, limit=1, window_s=LONG_S) is None, repr(key)
        for key in keys:
            assert limits.take(key, limit=1, window_s=LONG_S) is not None, repr(key)

    def test_a_reset_forgets_one_key(self, open_limits: Callable[[], RateLimits]) -> None:
        limits = open_limits()
        for key in ("one", "other"):
            for _ in range(3):
                limits.take(key, limit=2, window_s=LONG_S)
        limits.reset("one")
        limits.reset("never taken")
        assert [limits.take("one", limit=2, window_s=LONG_S) for _ in range(2)] == [None, None]
        assert limits.take("one", limit=2, window_s=LONG_S) is not None
        assert limits.take("other", limit=2, window_s=LONG_S) is not None

    def test_the_next_is_let_through_when_it_was_said_and_not_before(
        self, open_limits: Callable[[], RateLimits]
    ) -> None:
        """Asking meanwhile counts nothing, else frequent callers would never pass."""
        limits = open_limits()
        begun = time.monotonic()
        assert limits.take("key", limit=1, window_s=1) is None
        said = limits.take("key", limit=1, window_s=1)
        assert said is not None
        said_at = time.monotonic()
        while limits.take("key", limit=1, window_s=1) is not None:
            assert time.monotonic() < begun + PATIENCE_S
            time.sleep(_POLL_S)
        let_through = time.monotonic()
        assert let_through - begun >= 1 - _CLOCK_S
        assert let_through - said_at >= said - 2 * _CLOCK_S

    def test_the_window_moves(self, open_limits: Callable[[], RateLimits]) -> None:
        """One passed late in a second and two early in the next are three within one."""
        limits = open_limits()
        times: list[float] = []
        while len(times) < 5:
            now = time.monotonic()
            is_early = len(times) == 1 and now < times[0] + 0.8
            if not is_early and limits.take("key", limit=2, window_s=1) is None:
                times.append(now)
            assert now < times[0] + PATIENCE_S
            time.sleep(_POLL_S)
        assert all(later - earlier >= 1 - _CLOCK_S for earlier, later in zip(times, times[2:], strict=False))

    def test_of_many_at_once_no_more_are_let_through(self, open_limits: Callable[[], RateLimits]) -> None:
        limits = open_limits()
        with ThreadPoolExecutor(8) as threads:
            answers = list(threads.map(lambda _: limits.take("key", limit=7, window_s=LONG_S), range(80)))
        assert answers.count(None) == 7


class SharedRateLimitsContract(RateLimitsContract):
    """For stores that several processes share."""

    def test_all_ends_count_together(self, open_limits: Callable[[], RateLimits]) -> None:
        here, there = open_limits(), open_limits()
        answers = [end.take("key", limit=3, window_s=LONG_S) for end in (here, there, here, there)]
        assert answers[:3] == [None, None, None]
        assert answers[3] is not None
        there.reset("key")
        assert here.take("key", limit=3, window_s=LONG_S) is None
