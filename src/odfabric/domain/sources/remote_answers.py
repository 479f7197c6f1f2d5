"""What an HTTP status of a source or peer means for anyone who asked.

Owns which answers are final and which are worth a repetition. Invariant: pure; an answer that says of the request what is wrong with it
(4xx, a redirect that leads nowhere) is final, because the same request gets the same answer, and one that says it of the moment (408, 425,
429, 5xx) or is no refusal at all (2xx, 304 that nobody asked for) is not. Not here: webhooks, whose schedule goes on for days (`delivery`).
"""

from __future__ import annotations

from urllib.parse import urlsplit

from odfabric.errors import AccessDenied, Determinate, InvalidRequest, NotFound, OdfError, Place

RETRY_AFTER_S_MAX = 31 * 24 * 3600
"""A wish for later than this is not sensible."""

SOURCE = "source"
"""What polling asks for: the `what` of its failures."""
SEND_CREDENTIAL = (
    "give the fetch step a header, `headers: [{name: Authorization, value: 'Bearer ${{ env.TOKEN }}'}]`, "
    "and its value to the dataset, `odf variables set DATASET TOKEN --secret`"
)

_OF_THE_MOMENT = frozenset({408, 425, 429})
_GONE = frozenset({404, 410})
_NOT_MODIFIED = 304


def is_final(status: int) -> bool:
    """Whether the same request would be answered the same way again."""
    return (300 <= status <= 399 and status != _NOT_MODIFIED) or (400 <= status <= 499 and status not in _OF_THE_MOMENT)


def login_hint(url: str) -> str:
    """What to do where the node of a URL wants to know who asks."""
    parts = urlsplit(url)
    origin = f"{parts.scheme}://{parts.netloc}"
    return f"`odf login {origin}` signs you in there; programs set the token of {origin} in ODF_REMOTE_TOKENS"


def failed_answer(
    status: int, *, url: str, what: str, name: str | None = None, said: str = "", retry_after_s: int | None = None
) -> OdfError:
    """The error for an answer that is not what was asked for.

    `url` is shown, so it has no secrets; `what` was asked for; a NotFound names it by `name` (default: the URL). `said`
    is the beginning of the answer's body, `retry_after_s` when the server wants to be asked again.
    """
    message = f"{url}: HTTP request failed with status code {status}" + (f", message: {said}" if said else "")
    place = Place(field="url")
    if not is_final(status):
        return Determinate(message, retry_after_s=retry_after_s)
    if status in _GONE:
        hidden = f"; some servers hide so what wants a credential: {SEND_CREDENTIAL}" if what == SOURCE else ""
        return NotFound(what, name or url, hint=f"{url} answered with status {status}: check the URL{hidden}")
    if status == 401:
        return AccessDenied(message, place=place, hint=f"it wants a credential: {SEND_CREDENTIAL}")
    if status == 403:
        correct = f"or correct the credential: {SEND_CREDENTIAL}" if what == SOURCE else "or correct the credentials"
        return AccessDenied(message, place=place, hint=f"ask its owner for access, {correct}")
    if status < 400:
        return InvalidRequest(message, place=place, hint="the redirect leads nowhere: give the URL of the data itself")
    return InvalidRequest(message, place=place, hint="the server refuses the request: correct its URL and headers")


def sensible_pause_s(wished: str | int | None) -> int | None:
    """The pause in seconds that a server wishes, as a number or its digits.

    None if it says none, or one that is not sensible.
    """
    if isinstance(wished, str):
        wished = int(wished) if wished.isascii() and wished.isdecimal() and len(wished) <= 9 else None
    return wished if wished is not None and 0 <= wished <= RETRY_AFTER_S_MAX else None
