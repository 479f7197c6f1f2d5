"""When flows run next: durations, wall times over clock changes, retries."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.domain.flows.flow_schedule import check_cron, next_start, retry_pause_s
from odfabric.errors import InvalidRequest
from odfabric.formats.manifests.durations import duration_text, parse_duration
from odfabric.model.instant import NANOS_PER_SECOND, Instant
from odfabric.model.jobs.flow import Backoff, Cron, Every, Reactive, RetryPolicy

instants = st.integers(0, 2**61).map(Instant)


def at(text: str) -> Instant:
    return Instant.parse(text)


def firings(expression: str, zone: str, start: str, count: int) -> list[str]:
    now, found = at(start), []
    for _ in range(count):
        following = next_start(Cron(expression, zone), last=None, now=now)
        assert following is not None
        now = following
        found.append(str(now))
    return found


def test_a_time_that_comes_twice_fires_once() -> None:
    assert firings("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", 2) == [
        "2026-10-25T00:30:00Z",
        "2026-10-26T01:30:00Z",
    ]


def test_a_time_that_does_not_come_fires_when_the_clock_has_passed_it() -> None:
    assert firings("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", 2) == [
        "2026-03-29T01:00:00Z",
        "2026-03-30T00:30:00Z",
    ]


def test_each_hour_fires_in_both_hours_of_the_change() -> None:
    assert firings("0 * * * *", "Europe/Berlin", "2026-10-24T23:30:00Z", 3) == [
        "2026-10-25T00:00:00Z",
        "2026-10-25T01:00:00Z",
        "2026-10-25T02:00:00Z",
    ]


def test_a_schedule_of_a_duration_counts_from_the_last_start() -> None:
    hourly = Every(3600)
    now = at("2026-01-01T12:00:00Z")
    assert next_start(hourly, last=None, now=now) == now
    assert next_start(hourly, last=at("2026-01-01T11:30:00Z"), now=now) == at("2026-01-01T12:30:00Z")
    assert next_start(hourly, last=at("2026-01-01T01:00:00Z"), now=now) == now
    assert next_start(Reactive(), last=None, now=now) is None


@given(instants, instants, st.integers(1, 10**7))
def test_the_next_start_is_within_one_duration_whatever_the_clock_was(
    last: Instant, now: Instant, seconds: int
) -> None:
    following = next_start(Every(seconds), last=last, now=now)
    assert following is not None
    assert 0 <= following.epoch_ns - now.epoch_ns <= seconds * NANOS_PER_SECOND


@pytest.mark.parametrize(
    ("backoff", "pauses"),
    [
        (Backoff.FIXED, [10, 10, 10, 10]),
        (Backoff.LINEAR, [10, 20, 30, 40]),
        (Backoff.EXPONENTIAL, [10, 20, 40, 80]),
        (Backoff.EXPONENTIAL_WITH_JITTER, [15, 25, 45, 85]),
    ],
)
def test_pauses_grow_as_the_policy_says(backoff: Backoff, pauses: list[float]) -> None:
    policy = RetryPolicy(attempts_max=4, pause_s=10, backoff=backoff)
    assert [retry_pause_s(policy, attempt, jitter=0.5) for attempt in range(1, 6)] == [*pauses, None]


@given(st.integers(0, 366 * 86_400))
def test_durations_are_read_as_they_are_written(seconds: int) -> None:
    assert parse_duration(duration_text(seconds)) == seconds


@pytest.mark.parametrize("text", ["", "1", "h", "1 hour", "-1h", "1.5h", "٣h", "1h30m"])
def test_other_texts_are_no_durations(text: str) -> None:
    with pytest.raises(InvalidRequest, match="no duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("expression", "zone"),
    [("* * * *", "UTC"), ("60 * * * *", "UTC"), ("0 0 31 4 *", "UTC"), ("0 0 * * *", "Nowhere"), ("0 0 * * *", "../x")],
)
def test_times_that_cannot_come_are_refused(expression: str, zone: str) -> None:
    with pytest.raises(InvalidRequest):
        check_cron(Cron(expression, zone))
