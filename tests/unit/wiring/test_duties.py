"""Reports of the node's own duties: when one is news, and what state it gives."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.domain.flows.duties import REPORT_S, ROUND_S, SILENT_S, DutyState, is_news, next_report, state_of
from odfabric.model.instant import NANOS_PER_SECOND, Instant
from odfabric.model.jobs.duty import Duty, DutyReport

START = Instant.parse("2026-01-01T00:00:00Z")
outcomes = st.lists(st.tuples(st.integers(0, 90), st.sampled_from([None, "a", "b"])), min_size=1, max_size=30)


def after(seconds: float) -> Instant:
    return Instant(START.epoch_ns + int(seconds * NANOS_PER_SECOND))


def report(error: str | None = None) -> DutyReport:
    return DutyReport(duty=Duty.RELAY, worker="w", at=START, error=error, failing_since=START if error else None)


@pytest.mark.parametrize("duty", Duty)
def test_a_duty_is_silent_before_its_first_report_and_long_after_its_last(duty: Duty) -> None:
    assert state_of(None, duty, now=START) is DutyState.SILENT
    enough = SILENT_S + 2 * ROUND_S.get(duty, 0)
    assert state_of(report(), duty, now=after(enough)) is DutyState.WORKS
    assert state_of(report("x"), duty, now=after(enough)) is DutyState.FAILS
    assert state_of(report("x"), duty, now=after(enough + 1)) is DutyState.SILENT


@given(outcomes)
def test_a_change_is_reported_at_once_and_the_same_within_a_minute(rounds: list[tuple[int, str | None]]) -> None:
    stored: DutyReport | None = None
    seconds = 0
    failing: Instant | None = None
    for pause, error in rounds:
        seconds += pause
        now = after(seconds)
        found = next_report(stored, duty=Duty.RELAY, worker="w", error=error, now=now)
        if is_news(stored, found):
            failing = None if error is None else failing or now
            stored = found
        assert stored is not None
        assert stored.error == error
        assert stored.failing_since == failing
        assert now.epoch_ns - stored.at.epoch_ns < REPORT_S * NANOS_PER_SECOND
