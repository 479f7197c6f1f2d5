"""Moments on the time axes of a dataset, from text.

Owns how somebody writes them: AS AT takes a time or a block, by hash or sequence number, AS OF takes a time. Source: docs/reference/time.md; RFC 3339.
"""

from __future__ import annotations

import re

from odfabric.errors import InvalidName, InvalidRequest, Place
from odfabric.formats.identifiers.multihash import parse_multihash
from odfabric.model.instant import Instant
from odfabric.model.moment import SystemMoment

_SHOWN_MAX = 100
_LIKE_A_TIME = re.compile(r"[+-]?\d{1,10}-")
_LOST_PLUS = re.compile(r" \d\d:\d\d$")
"""A zone east of Greenwich, of which a URL has made the sign a space."""
_BLOCK_NUMBER = re.compile(r"#?(\d{1,12})", re.ASCII)
"""A year has four digits too, but a time without a month is none."""
_TIME_HINT = "write an RFC 3339 time with its zone: 2026-01-31T12:00:00Z"


def parse_event_moment(text: str, *, field: str) -> Instant:
    """A time of AS OF. Raises InvalidRequest naming `field`."""
    try:
        return Instant.parse(text)
    except ValueError:
        hint = f"{_TIME_HINT}; in a URL write the plus of a zone as %2B" if _LOST_PLUS.search(text) else _TIME_HINT
        raise InvalidRequest(
            f"not an RFC 3339 time: {text[:_SHOWN_MAX]!r}", place=Place(field=field), hint=hint
        ) from None


def parse_system_moment(text: str, *, field: str) -> SystemMoment:
    """A time or block of AS AT. Raises InvalidRequest naming `field`."""
    if _LIKE_A_TIME.match(text):
        return parse_event_moment(text, field=field)
    if number := _BLOCK_NUMBER.fullmatch(text):
        return int(number[1])
    try:
        return parse_multihash(text)
    except InvalidName:
        raise InvalidRequest(
            f"neither an RFC 3339 time nor a block: {text[:_SHOWN_MAX]!r}",
            place=Place(field=field),
            hint=f"{_TIME_HINT}, or a block by its number or hash as in `odf log`: 12 or f1620..",
        ) from None
