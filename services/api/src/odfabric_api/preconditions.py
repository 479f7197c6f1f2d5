"""Conditional requests and other headers that several routes read."""

from __future__ import annotations

import re

from starlette.requests import Request

from odfabric.errors import InvalidRequest, Place
from odfabric.formats.multihash import parse_multihash
from odfabric.model.multihash import Multihash

_WAIT = re.compile(r"wait=(\d{1,6})", re.ASCII)


def if_match_of(request: Request) -> Multihash | None:
    """The head that the caller expects. Raises InvalidRequest for lists and `*`."""
    text = request.headers.get("if-match")
    if text is None:
        return None
    tag = text.strip().removeprefix('"').removesuffix('"')
    if not tag or tag == "*" or "," in tag:
        raise InvalidRequest("If-Match takes one block hash", place=Place(field="if-match"))
    return parse_multihash(tag)


def wait_s_of(request: Request, *, wait_s_max: float) -> float:
    """How long the caller waits for a job: `Prefer: respond-async` not at all, `Prefer: wait=N` at most N seconds."""
    wishes = [wish.strip().lower() for wish in request.headers.get("prefer", "").split(",")]
    if "respond-async" in wishes:
        return 0.0
    asked = [float(found[1]) for wish in wishes if (found := _WAIT.fullmatch(wish))]
    return min([wait_s_max, *asked])


def media_type_of(request: Request) -> str | None:
    """The body's media type as sent; None if nobody chose one, which many clients say by the type of web forms."""
    text = request.headers.get("content-type")
    if text is None or text.partition(";")[0].strip().lower() == "application/x-www-form-urlencoded":
        return None
    return text
