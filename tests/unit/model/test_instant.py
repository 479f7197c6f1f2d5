"""Instants: text, calendar and limits."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.model.instant import NANOS_PER_DAY, NANOS_PER_SECOND, Instant
from odfabric.testing.events import instants

FIRST, LAST = Instant.parse("0001-01-01T00:00:00Z"), Instant.parse("9999-12-31T23:59:59.999999999Z")


@given(instants())
def test_text_comes_back_in_all_years(instant: Instant) -> None:
    assert Instant.parse(str(instant)) == instant


@given(instants())
def test_year_and_day_come_back_in_all_years(instant: Instant) -> None:
    year, ordinal = instant.year_day()
    second, nanos = divmod(instant.epoch_ns % NANOS_PER_DAY, NANOS_PER_SECOND)
    assert Instant.from_year_day(year=year, ordinal=ordinal, second=second, nanos=nanos) == instant


@given(st.integers(FIRST.epoch_ns, LAST.epoch_ns).map(Instant))
def test_the_calendar_is_that_of_datetime(instant: Instant) -> None:
    moment = instant.to_datetime()
    assert instant.year_day() == (moment.year, moment.timetuple().tm_yday)
    assert str(instant).startswith(moment.strftime("%Y-%m-%dT%H:%M:%S").rjust(19, "0"))
    assert Instant.from_datetime(moment).epoch_ns == instant.epoch_ns // 1000 * 1000


@pytest.mark.parametrize("year", [1900, 2100, 2023, 1, -1, 10_001])
def test_common_years_have_365_days(year: int) -> None:
    assert Instant.from_year_day(year=year, ordinal=365, second=0, nanos=0)
    with pytest.raises(ValueError, match="is not an instant"):
        Instant.from_year_day(year=year, ordinal=366, second=0, nanos=0)


@pytest.mark.parametrize("year", [2000, 2024, 400, 0, -4, 12_000])
def test_leap_years_have_366_days(year: int) -> None:
    leap_day = Instant.from_year_day(year=year, ordinal=366, second=0, nanos=0)
    assert leap_day.year_day() == (year, 366)
    with pytest.raises(ValueError, match="is not an instant"):
        Instant.from_year_day(year=year, ordinal=367, second=0, nanos=0)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("2020-01-01t12:00:00z", "2020-01-01T12:00:00Z"),
        ("2020-01-01 12:00:00+00:00", "2020-01-01T12:00:00Z"),
        ("2020-01-01T00:30:00+01:00", "2019-12-31T23:30:00Z"),
        ("2020-01-01T12:00:00.120Z", "2020-01-01T12:00:00.120Z"),
        ("0000-02-29T00:00:00Z", "0000-02-29T00:00:00Z"),
        ("-0001-12-31T00:00:00Z", "-0001-12-31T00:00:00Z"),
        ("+10000-01-01T00:00:00Z", "+10000-01-01T00:00:00Z"),
        ("1969-12-31T23:59:59.999999999Z", "1969-12-31T23:59:59.999999999Z"),
    ],
)
def test_texts(text: str, written: str) -> None:
    assert str(Instant.parse(text)) == written


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2020-01-01",
        "2020-01-01T12:00:00",
        "2020-01-01T12:00Z",
        "2020-13-01T12:00:00Z",
        "2021-02-29T12:00:00Z",
        "2020-01-01T24:00:00Z",
        "2020-01-01T12:00:60Z",
        "2020-01-01T12:00:00.1234567890Z",
        "2020-01-01T12:00:00+24:00",
        "12020-01-01T12:00:00Z",
        "2020-01-01T12:00:00Z ",
        "２０２０-01-01T12:00:00Z",
    ],
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError):
        Instant.parse(text)


def test_datetimes_end_where_datetime_does() -> None:
    assert FIRST.to_datetime() == datetime(1, 1, 1, tzinfo=UTC)
    with pytest.raises(OverflowError):
        Instant(FIRST.epoch_ns - 1).to_datetime()
    with pytest.raises(OverflowError):
        Instant(LAST.epoch_ns + 1).to_datetime()
    with pytest.raises(ValueError, match="naive"):
        Instant.from_datetime(datetime(2020, 1, 1))  # noqa: DTZ001 - the refusal of naive values is the point
