"""Durations, dates and times as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.cli.people.times import time_after, time_before
from odfabric.errors import InvalidRequest
from odfabric.model.instant import NANOS_PER_SECOND, Instant

NOW = Instant.parse("2026-11-28T08:00:00Z")
HOURS = {"h": 1, "d": 24, "w": 168}


@given(st.integers(1, 99_999), st.sampled_from("hdw"))
def test_a_duration_is_as_far_ahead_as_back(number: int, unit: str) -> None:
    text = f"{number}{unit}"
    after, before = time_after(text, begin=NOW, field="x"), time_before(text, begin=NOW, field="x")
    assert after is not None
    assert (
        after.epoch_ns - NOW.epoch_ns
        == NOW.epoch_ns - before.epoch_ns
        == number * HOURS[unit] * 3600 * NANOS_PER_SECOND
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2027-01-31", "2027-01-31T00:00:00Z"),
        ("2027-01-31T12:00:00+02:00", "2027-01-31T10:00:00Z"),
        ("30d", "2026-12-28T08:00:00Z"),
    ],
)
def test_dates_and_times_are_utc(text: str, expected: str) -> None:
    assert str(time_after(text, begin=NOW, field="x")) == expected


def test_never_is_no_time() -> None:
    assert time_after("never", begin=NOW, field="x") is None
    with pytest.raises(InvalidRequest):
        time_before("never", begin=NOW, field="x")


@pytest.mark.parametrize(
    "text", ["", "0d", "30", "d", "1m", "-1d", "1.5d", "100000d", "2027-02-30", "2027-1-1", "tomorrow", "١d"]
)
def test_what_is_no_time_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidRequest, match="not a time") as refused:
        time_after(text, begin=NOW, field="--expires")
    assert refused.value.place.field == "--expires"
    assert "30d" in str(refused.value.hint)
