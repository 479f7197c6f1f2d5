"""Browser sessions: the cookie, and proof that the node's own page asks.

Owns name and attributes of the cookie and the CSRF token. Invariants: the cookie is `HttpOnly`, `SameSite=Lax` and `Secure` unless the node is
reached by plain HTTP on the loopback; a request that changes something and is let in by the cookie carries the CSRF token of that session, or
is one of which the browser says itself that a page of this node sent it (Fetch Metadata, which no page can forge); its Origin, if it has one,
is the node's. Not here: what a session may do (it is an access token).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import ipaddress
from urllib.parse import urlsplit

from fastapi import Request
from starlette.responses import Response

from odfabric.errors import AccessDenied, InvalidRequest

SECURE_COOKIE = "__Host-odf-session"
PLAIN_COOKIE = "odf-session"
CSRF_HEADER = "x-csrf-token"
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


def session_of(request: Request) -> str | None:
    """The session token of a request's cookie, None without one.

    Raises AccessDenied for a request that changes something and does not prove that it comes from a page of this node.
    """
    token = cookie_of(request)
    if token is None:
        return None
    if request.method not in SAFE_METHODS:
        _check_own_page(request, token)
    return token


def cookie_of(request: Request) -> str | None:
    """Session token of a request's cookie, for pages that check CSRF themselves."""
    return request.cookies.get(_cookie_name(request))


def csrf_token(session: str) -> str:
    """The CSRF token of a session, for its pages."""
    digest = hmac.digest(hashlib.sha256(session.encode()).digest(), b"odfabric csrf", "sha256")
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def open_cookie(request: Request, response: Response, session: str, *, lifetime_s: float) -> None:
    """Let the browser keep a session.

    Raises InvalidRequest where the cookie would travel in the clear.
    """
    if not is_secure(request) and not _on_loopback(request):
        raise InvalidRequest(
            "signing in needs HTTPS here",
            hint="set ODF_PUBLIC_URL to the https:// address of this node, or use a token",
        )
    response.set_cookie(
        _cookie_name(request),
        session,
        max_age=int(lifetime_s),
        path="/",
        secure=is_secure(request),
        httponly=True,
        samesite="lax",
    )


def close_cookie(request: Request, response: Response) -> None:
    """Let the browser forget the session."""
    response.delete_cookie(_cookie_name(request), path="/", secure=is_secure(request), httponly=True, samesite="lax")


def is_secure(request: Request) -> bool:
    """Whether people reach this node by HTTPS, which a proxy may do for it."""
    return public_origin(request).startswith("https://")


def public_origin(request: Request) -> str:
    """Scheme, host and port of this node: the setting, else those of the request."""
    public: str | None = request.app.state.node.settings.public_url
    if public is not None:
        parts = urlsplit(public)
        return f"{parts.scheme}://{parts.netloc}"
    return f"{request.url.scheme}://{request.url.netloc}"


def _cookie_name(request: Request) -> str:
    return SECURE_COOKIE if is_secure(request) else PLAIN_COOKIE


def _check_own_page(request: Request, session: str) -> None:
    origin = request.headers.get("origin")
    given = request.headers.get(CSRF_HEADER, "")
    own = public_origin(request)
    is_form_of_ours = origin == own and request.headers.get("sec-fetch-site") == "same-origin"
    foreign = origin is not None and origin != own
    proven = is_form_of_ours or hmac.compare_digest(given.encode(), csrf_token(session).encode())
    if foreign or not proven:
        raise AccessDenied(
            "the request does not come from a page of this node",
            hint=f"send the session's CSRF token in the header {CSRF_HEADER}, or use an access token",
        )


def _on_loopback(request: Request) -> bool:
    host = urlsplit(public_origin(request)).hostname or ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
