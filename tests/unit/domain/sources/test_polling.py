"""What is remembered of an answer, and which event time it gives."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.domain.sources.polling import etag_state, last_modified_state, url_event_time, url_state
from odfabric.model.instant import Instant
from odfabric.model.source import EventTimeSourceFromMetadata

NOW = Instant.parse("2026-11-29T12:00:00Z")
TIMES = st.integers(0, 4 * 10**18).map(Instant)


@given(TIMES)
def test_no_date_of_a_server_gives_an_event_time_in_the_future(moment: Instant) -> None:
    found = url_event_time(EventTimeSourceFromMetadata(), last_modified_state(moment), NOW)
    assert found == (moment if moment <= NOW else NOW)


@pytest.mark.parametrize(
    ("etag", "date", "expected"),
    [
        ('"1"', "Fri, 01 Jan 2038 00:00:00 GMT", etag_state('"1"')),
        (None, "Fri, 01 Jan 2038 00:00:00 GMT", last_modified_state(Instant.parse("2038-01-01T00:00:00Z"))),
        (None, "yesterday", None),
        ("", None, None),
    ],
)
def test_the_tag_is_remembered_before_the_date(etag: str | None, date: str | None, expected: object) -> None:
    assert url_state(etag=etag, last_modified=date) == expected
