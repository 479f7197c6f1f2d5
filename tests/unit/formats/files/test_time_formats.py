"""Formats of times in texts, the side of Python.

`tests/services/engine` holds that of Spark to it.
"""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.errors import InvalidManifest
from odfabric.formats.files.time_formats import check_date_format, check_timestamp_format, date_format, timestamp_format


@given(moment=st.datetimes(timezones=st.just(UTC)))
def test_what_is_written_is_read(moment: datetime) -> None:
    millis = (
        (moment - datetime(1970, 1, 1, tzinfo=UTC))
        // (datetime(1970, 1, 2, tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC))
        * 86_400_000
    )
    millis += ((moment.hour * 60 + moment.minute) * 60 + moment.second) * 1000 + moment.microsecond // 1000
    assert timestamp_format(None).millis(moment.isoformat()) == millis
    for pattern in ("%Y-%m-%dT%H:%M:%S.%6f%z", "%d %B %Y %I:%M:%S %p.%f", "%Y/%j %T%.6f"):
        text = moment.strftime(pattern.replace("%.6f", ".%f").replace("%6f", "%f").replace("%Y", f"{moment.year:04d}"))
        assert timestamp_format(pattern).millis(text) == millis
    assert date_format("%d.%m.%Y").days(f"{moment:%d.%m.}{moment.year:04d}") == millis // 86_400_000


@pytest.mark.parametrize(
    "text", ["2021-02-29", "2021-13-01", "2021-00-01", "0000-01-01", "21-01-01", "2021-1-1", " 2021-01-01"]
)
def test_days_that_do_not_exist(text: str) -> None:
    assert date_format(None).days(text) is None


def test_a_directive_twice_or_unknown_is_refused_by_option() -> None:
    for pattern in ("%Y %Y", "%Q", "%", "%m/%d"):
        with pytest.raises(InvalidManifest) as caught:
            date_format(pattern)
        assert caught.value.place.field == "dateFormat"


@pytest.mark.parametrize(
    ("java", "instead"),
    [
        ("dd/MM/yyyy HH:mm", "%d/%m/%Y %H:%M"),
        ("yyyy-MM-dd'T'HH:mm:ss.SSSXXX", "%Y-%m-%dT%H:%M:%S.%f%z"),
        ("MM/dd/yy hh:mm a", "%m/%d/%y %I:%M %p"),
        ("YYYY-MM-DD", "%Y-%m-%d"),
        ("d MMM uuuu", "%d %b %Y"),
        ("yyyyDDD", "%Y%j"),
    ],
)
def test_letters_of_java_are_refused_with_the_directives(java: str, instead: str) -> None:
    problem = check_timestamp_format(java)
    assert problem is not None
    assert java in problem.message
    assert problem.hint is not None
    assert f"write `{instead}`" in problem.hint
    assert check_timestamp_format(instead) is None


@pytest.mark.parametrize("text", ["", "iso", "HH:mm", "klingon", "''", "yyyy%"])
def test_what_cannot_be_translated_is_refused_with_the_list(text: str) -> None:
    problem = check_date_format(text)
    assert problem is not None
    assert problem.hint is not None
    assert problem.hint.startswith("known: rfc3339, %Y")


@pytest.mark.parametrize("text", ["%Y-%d", "%I:%M %Y", "%s %f", "%G-%V", "%G-%V-%u %Y", "%V %Y"])
def test_formats_that_leave_a_time_open_are_refused(text: str) -> None:
    assert check_timestamp_format(text) is not None


@given(text=st.text(max_size=12) | st.text("%YmdHMSsbyGVujpI-: T", max_size=12))
def test_every_text_is_a_format_or_refused(text: str) -> None:
    problem = check_timestamp_format(text)
    if problem is None:
        timestamp_format(text).millis("2024-01-01")
    elif problem.hint is not None and problem.hint.startswith("write `"):
        assert check_timestamp_format(problem.hint[len("write `") : problem.hint.index("` (strftime)")]) is None


@given(
    moment=st.datetimes(datetime(1000, 1, 1), datetime(9999, 12, 1)),  # noqa: DTZ001
    hours=st.integers(-18, 18),
    minutes=st.integers(0, 59),
)
def test_offsets_mean_the_same_in_all_three_forms(moment: datetime, hours: int, minutes: int) -> None:
    minutes = 0 if abs(hours) == 18 else minutes
    text = f"{moment:%Y-%m-%d %H:%M:%S}"
    form = timestamp_format(None)
    at = form.millis(text)
    assert at is not None
    shift = (abs(hours) * 60 + minutes) * 60_000 * (-1 if hours < 0 else 1)
    whole = f"{text}{'-' if hours < 0 else '+'}{abs(hours):02d}"
    assert form.millis(f"{whole}:{minutes:02d}") == form.millis(f"{whole}{minutes:02d}") == at - shift
    assert form.millis(whole) == at - abs(hours) * (-3_600_000 if hours < 0 else 3_600_000)


@given(day=st.dates(date(1, 1, 8), date(9999, 12, 20)))
def test_days_of_iso_weeks(day: date) -> None:
    year, week, weekday = day.isocalendar()
    text = f"{year:04d}-W{week:02d}-{weekday}"
    assert date_format("%G-W%V-%u").days(text) == (day - date(1970, 1, 1)).days


def test_a_week_that_the_year_has_not() -> None:
    assert date_format("%G-W%V-%u").days("2020-W53-7") == (date(2021, 1, 3) - date(1970, 1, 1)).days
    assert date_format("%G-W%V-%u").days("2021-W53-1") is None


def test_names_in_any_case_and_halves_that_fit() -> None:
    assert date_format("%d-%b-%y").days("01-JAN-24") == date_format("%d-%b-%y").days("01-jan-24") == 19_723
    assert date_format("%A %d %B %Y").days("MONDAY 01 JANUARY 2024") == 19_723
    form = timestamp_format("%Y-%m-%d %H:%M %p")
    assert form.millis("2024-01-01 14:30 PM") == timestamp_format(None).millis("2024-01-01 14:30:00")
    assert form.millis("2024-01-01 02:30 PM") is None
