"""Formats of times in texts, the Python side; `tests/services/engine` holds Spark's side to it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.errors import InvalidManifest
from odfabric_engine_spark.read.time_formats import date_format, timestamp_format


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
