"""Formats that messages suggest for a text: each of them reads it."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.formats.files.time_formats import date_format, timestamp_format
from odfabric.formats.files.time_guess import epoch_function, formats_of, is_day_serial

DAYS = st.dates(date(1970, 1, 1), date(2068, 12, 31))
DAY_SHAPES = [
    "%Y-%m-%d",
    "%d.%m.%Y",
    "%m/%d/%Y",
    "%d/%m/%y",
    "%d-%b-%y",
    "%d %B %Y",
    "%b %d, %Y",
    "%Y%m%d",
    "%G-W%V-%u",
]
CLOCK_SHAPES = [" %H:%M", "T%H:%M:%S", " %I:%M %p", " %I:%M:%S%p", " %H:%M:%S.%f", ", %H:%M:%S,%f", " %H%M%S"]


@given(day=DAYS, shape=st.sampled_from(DAY_SHAPES), capitals=st.booleans())
def test_a_date_gets_the_format_that_it_is_written_in(day: date, shape: str, capitals: bool) -> None:
    text = day.strftime(shape)
    text = text.upper() if capitals else text
    found = formats_of(text, is_date=True)
    days = (day - date(1970, 1, 1)).days
    assert days in [date_format(form).days(text) for form in found]
    assert None not in [date_format(form).days(text) for form in found]


@given(
    moment=st.datetimes(datetime(1970, 1, 1), datetime(2068, 12, 31)),  # noqa: DTZ001
    day=st.sampled_from(DAY_SHAPES),
    clock=st.sampled_from(CLOCK_SHAPES),
    zone=st.sampled_from(["", "Z", "+02", " +0530", "-03:00"]),
    weekday=st.sampled_from(["", "%a, ", "%A "]),
)
def test_a_time_gets_the_format_that_it_is_written_in(
    moment: datetime, day: str, clock: str, zone: str, weekday: str
) -> None:
    shape = weekday + day + clock
    text = moment.strftime(shape) + zone
    wanted = timestamp_format(shape + ("" if not zone else " %z" if zone.startswith(" ") else "%z")).millis(text)
    found = formats_of(text, is_date=False)
    assert wanted in [timestamp_format(form).millis(text) for form in found]
    assert len(found) <= 2


@given(st.text("0123456789-/.: TZWPMJanFeb,+", max_size=24), st.booleans())
def test_whatever_is_suggested_reads_the_text(text: str, is_date: bool) -> None:
    for form in formats_of(text, is_date=is_date):
        read = date_format(form).days if is_date else timestamp_format(form).millis
        assert read(text) is not None


def test_both_meanings_are_named() -> None:
    assert formats_of("01/02/2024", is_date=True) == ["%d/%m/%Y", "%m/%d/%Y"]
    assert formats_of("13/02/2024", is_date=True) == ["%d/%m/%Y"]
    assert formats_of("2024-02-30 10:00", is_date=False) == []
    assert formats_of("2024-02-28 10:00", is_date=True) == []


@given(moment=st.datetimes(datetime(2001, 9, 10), datetime(2286, 1, 1), timezones=st.just(UTC)))  # noqa: DTZ001
def test_counts_since_1970_are_known_by_their_digits(moment: datetime) -> None:
    seconds = int(moment.timestamp())
    assert epoch_function(f"{seconds}") == "timestamp_seconds"
    assert epoch_function(f"{seconds}{moment.microsecond // 1000:03d}") == "timestamp_millis"
    assert epoch_function(f"{seconds}{moment.microsecond:06d}") == "timestamp_micros"
    assert not is_day_serial(str(seconds))


@pytest.mark.parametrize(("text", "is_serial"), [("45292", True), ("45292.4375", True), ("80000", False), ("1", False)])
def test_days_of_spreadsheets(text: str, is_serial: bool) -> None:
    assert is_day_serial(text) is is_serial
