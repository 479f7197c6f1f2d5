"""Request headers of several routes: conditions, ranges, wishes, media type."""

from __future__ import annotations

import re
from typing import Any

from starlette.requests import Request

from odfabric.errors import InvalidRequest, Place
from odfabric.formats.blocks.block_stretch import COUNT_MAX, HEADER
from odfabric.formats.identifiers.multihash import parse_multihash
from odfabric.model.instant import Instant
from odfabric.model.multihash import Multihash

_WAIT = re.compile(r"wait=(\d{1,6})", re.ASCII)
_RANGE = re.compile(r"bytes=(\d{0,19})-(\d{0,19})", re.ASCII)
_VERSION = re.compile(r'"v(\d{1,9})"', re.ASCII)
_FORM = "application/x-www-form-urlencoded"

IF_MATCH = {"If-Match": "The head that the caller expects, a block hash; another one is answered with 409"}
IF_NONE_MATCH = {"If-None-Match": "Entity tags that the caller has; 304 if the answer would be one of them"}
RANGE = {"Range": "One range of bytes, `bytes=0-1023`; several are answered whole"}

BLOCKS_AT_ONCE = {HEADER: "How many blocks may come at once, 1 to 1000: the block, then predecessors, newest first"}


def header_parameters(*groups: dict[str, str]) -> dict[str, Any]:
    """What the OpenAPI document says about request headers, from name to description."""
    return {
        "parameters": [
            {"name": name, "in": "header", "required": False, "description": text, "schema": {"type": "string"}}
            for group in groups
            for name, text in group.items()
        ]
    }


def if_match_of(request: Request) -> Multihash | None:
    """The head that the caller expects.

    Raises InvalidRequest for lists and `*`, InvalidName.
    """
    text = request.headers.get("if-match")
    if text is None:
        return None
    tag = text.strip().removeprefix('"').removesuffix('"')
    if not tag or tag == "*" or "," in tag:
        raise InvalidRequest("If-Match takes one block hash", place=Place(field="if-match"))
    return parse_multihash(tag)


def blocks_at_once(request: Request) -> int | None:
    """How many blocks may come at once; None if one is asked for as it is stored.

    Raises InvalidRequest.
    """
    text = request.headers.get(HEADER)
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= 4 and 1 <= int(text) <= COUNT_MAX):
        raise InvalidRequest(
            f"{HEADER} is a number of blocks from 1 to {COUNT_MAX}", place=Place(field=HEADER), hint="leave it out"
        )
    return int(text)


def flag_of(request: Request, name: str) -> bool:
    """A header that is `true` or `false`; it is false where it is not there.

    Raises InvalidRequest for anything else.
    """
    text = request.headers.get(name, "false").lower()
    if text not in ("true", "false"):
        raise InvalidRequest(f"{name} is true or false", place=Place(field=name))
    return text == "true"


VERSION_MATCH = {"If-Match": "Entity tag of the version that the caller has seen; 412 if there is another one now"}


def version_of(request: Request) -> int | None:
    """The version that the caller has seen, None if it does not say.

    Raises InvalidRequest.
    """
    text = request.headers.get("if-match")
    if text is None:
        return None
    match = _VERSION.fullmatch(text.strip())
    if match is None:
        raise InvalidRequest(
            "If-Match takes the entity tag of this resource", place=Place(field="if-match"), hint='as read: `"v1"`'
        )
    return int(match[1])


def version_tag(version: int) -> str:
    """The entity tag of a version; 0 stands for what is not there."""
    return f'"v{version}"'


def is_known(request: Request, etag: str) -> bool:
    """Whether `If-None-Match` names this entity tag (quoted), by weak comparison."""
    given = ",".join(request.headers.getlist("if-none-match"))
    return any(tag.strip().removeprefix("W/") in (etag, "*") for tag in given.split(",")) if given else False


def range_of(request: Request, etag: str, size: int) -> tuple[int, int] | None:
    """First byte and the byte after the last of a single range.

    None if all is wanted, or the range is not one we serve.

    An empty interval says that the range cannot be satisfied. `If-Range` with another entity tag wants all.
    """
    match = _RANGE.fullmatch(request.headers.get("range", ""))
    if match is None or match[0] == "bytes=-" or request.headers.get("if-range", etag) != etag:
        return None
    first, last = match[1], match[2]
    if not first:
        return max(0, size - int(last)), size
    if last and int(last) < int(first):
        return None
    begin = int(first)
    return (begin, min(int(last) + 1, size) if last else size) if begin < size else (size, size)


def instant_of(field: str, text: str) -> Instant:
    """The time that a parameter, header or member names.

    Raises InvalidRequest naming `field`.
    """
    try:
        return Instant.parse(text)
    except ValueError:
        raise InvalidRequest(
            f"not an RFC 3339 time: {text[:100]!r}", place=Place(field=field), hint="e.g. 2026-01-31T12:00:00Z"
        ) from None


def check_page_limit(limit: int, maximum: int) -> None:
    """Raises InvalidRequest unless a page may have so many entries."""
    if not 1 <= limit <= maximum:
        raise InvalidRequest(f"limit is between 1 and {maximum}", place=Place(field="limit"), hint="use pages")


def wait_s_of(request: Request, *, wait_s_max: float) -> float:
    """How long the caller waits for a job, in seconds.

    `Prefer: respond-async` not at all, `Prefer: wait=N` at most N seconds.
    """
    wishes = [wish.strip().lower() for wish in ",".join(request.headers.getlist("prefer")).split(",")]
    if "respond-async" in wishes:
        return 0.0
    asked = [float(found[1]) for wish in wishes if (found := _WAIT.fullmatch(wish))]
    return min([wait_s_max, *asked])


def media_type_of(request: Request) -> str | None:
    """The body's media type as sent.

    None if nobody chose one, which many clients say by the type of web forms.
    """
    text = request.headers.get("content-type")
    if text is None or text.partition(";")[0].strip().lower() == _FORM:
        return None
    return text
