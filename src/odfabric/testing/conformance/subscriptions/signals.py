"""What Signals promise, as tests.

A subclass gives `open_signals`, which makes ends that have begun to listen.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from odfabric.ports.subscriptions.signals import Signals, Topic

PATIENCE_S = 10.0


class SignalsContract:
    """Between threads, and between ends that reach each other."""

    reach_others = False
    """Whether ends hear each other."""

    @pytest.fixture
    def open_signals(self) -> Callable[[], Signals]:
        raise NotImplementedError

    def test_who_waits_hears(self, open_signals: Callable[[], Signals]) -> None:
        signals = open_signals()
        with ThreadPoolExecutor(1) as other:
            waiting = other.submit(signals.wait, Topic.JOBS, timeout_s=PATIENCE_S)
            signals.send(Topic.JOBS)
            assert waiting.result()

    def test_what_came_meanwhile_counts_at_once(self, open_signals: Callable[[], Signals]) -> None:
        signals = open_signals()
        signals.wait(Topic.JOBS, timeout_s=0.0)
        signals.send(Topic.JOBS)
        signals.send(Topic.JOBS)
        assert signals.wait(Topic.JOBS, timeout_s=0.0)
        assert not signals.wait(Topic.JOBS, timeout_s=0.0)

    def test_other_topics_are_not_heard(self, open_signals: Callable[[], Signals]) -> None:
        signals = open_signals()
        signals.wait(Topic.OUTBOX, timeout_s=0.0)
        signals.send(Topic.JOBS)
        assert not signals.wait(Topic.OUTBOX, timeout_s=0.01)

    def test_the_other_end_hears_if_it_is_in_reach(self, open_signals: Callable[[], Signals]) -> None:
        here, there = open_signals(), open_signals()
        with ThreadPoolExecutor(1) as other:
            waiting = other.submit(there.wait, Topic.OUTBOX, timeout_s=PATIENCE_S if self.reach_others else 0.05)
            while not waiting.done():
                here.send(Topic.OUTBOX)
            assert waiting.result() == self.reach_others
