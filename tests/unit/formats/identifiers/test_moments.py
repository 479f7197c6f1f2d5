"""Moments as somebody writes them."""

from __future__ import annotations

import pytest

from odfabric.errors import InvalidRequest
from odfabric.formats.identifiers.moments import parse_event_moment


@pytest.mark.parametrize(
    ("text", "same_as"),
    [
        ("2026-01-01T02:00:00+02:00", "2026-01-01T00:00:00Z"),
        ("1969-12-31T19:30:00.5-04:30", "1970-01-01T00:00:00.500Z"),
        ("1912-06-23t00:00:00z", "1912-06-23T00:00:00Z"),
    ],
)
def test_zones_are_moments(text: str, same_as: str) -> None:
    assert parse_event_moment(text, field="asOf") == parse_event_moment(same_as, field="asOf")


@pytest.mark.parametrize("text", ["2026-01-01", "2026-01-01T00:00:00", "2026-02-30T00:00:00Z", "now", ""])
def test_a_refusal_says_what_to_write(text: str) -> None:
    with pytest.raises(
        InvalidRequest, match=r"not an RFC 3339 time: .*write an RFC 3339 time with its zone"
    ) as refused:
        parse_event_moment(text, field="asOf")
    assert refused.value.place.field == "asOf"
    assert "%2B" not in str(refused.value)


def test_a_plus_that_a_url_made_a_space_is_named() -> None:
    with pytest.raises(InvalidRequest, match="in a URL write the plus of a zone as %2B"):
        parse_event_moment("2026-01-01T02:00:00 02:00", field="asOf")
