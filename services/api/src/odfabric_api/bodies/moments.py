"""Parameters that name moments: AS AT and AS OF."""

from __future__ import annotations

from fastapi import Query

from odfabric.formats.identifiers.moments import parse_event_moment, parse_system_moment
from odfabric.model.instant import Instant
from odfabric.model.moment import SystemMoment

AS_AT = Query(
    alias="asAt",
    max_length=200,
    description="What was known then: a block by its number or hash, or an RFC 3339 time for the last block at or before it",
)
AS_OF = Query(
    alias="asOf",
    max_length=100,
    description="What held then: an RFC 3339 time, compared with the event times of the rows",
)


def system_moment_of(text: str | None) -> SystemMoment | None:
    """The value of `asAt`. Raises InvalidRequest."""
    return None if text is None else parse_system_moment(text, field="asAt")


def event_moment_of(text: str | None) -> Instant | None:
    """The value of `asOf`. Raises InvalidRequest."""
    return None if text is None else parse_event_moment(text, field="asOf")
