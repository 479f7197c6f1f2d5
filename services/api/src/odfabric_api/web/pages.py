"""Answers that are pages: the frame around each, and its headers.

Owns what every page is given - who looks at it, where it stands - and the content security policy. Invariant: nothing on a page comes from
another origin, and no script or style stands in the page itself.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from fastapi import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from odfabric.domain.people.access import STRANGER
from odfabric.model.commit import CatalogEntry
from odfabric_api.auth import Subject, node_of
from odfabric_api.sessions import cookie_of, csrf_token
from odfabric_api.web.rendering import environment

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'{nonce}; img-src 'self' data:; connect-src 'self'; font-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)


def page(
    request: Request, template: str, values: Mapping[str, Any] | None = None, *, status: int = 200, editor: bool = False
) -> HTMLResponse:
    """A page from a template.

    `editor` lets the SQL editor put its style rules into the page, by a nonce.
    """
    nonce = secrets.token_urlsafe(16) if editor else None
    text = environment().get_template(template).render(**_frame(request, nonce), **(values or {}))
    headers = {
        "content-security-policy": _POLICY.format(nonce=f" 'nonce-{nonce}'" if nonce else ""),
        "cache-control": "no-store",
        "referrer-policy": "same-origin",
    }
    return HTMLResponse(text, status_code=status, headers=headers)


def see_other(path: str, *, notice: str | None = None) -> Response:
    """After a form was done: go to `path`, which shows what happened.

    `notice` is the key of a text in `base.html`.
    """
    mark = "&" if "?" in path else "?"
    return RedirectResponse(f"{path}{mark}done={quote(notice)}" if notice else path, status_code=303)


def dataset_path(entry: CatalogEntry, *parts: str) -> str:
    """The address of a dataset's page, or of a screen below it."""
    below = "/-/" + "/".join(quote(part, safe="") for part in parts) if parts else ""
    return f"/{quote(str(entry.alias.account))}/{quote(str(entry.alias.name))}{below}"


def _frame(request: Request, nonce: str | None) -> dict[str, Any]:
    subject: Subject = getattr(request.state, "subject", STRANGER)
    session = cookie_of(request)
    return {
        "node_name": node_of(request).settings.public_url or request.url.netloc,
        "path": request.url.path,
        "here": quote(f"{request.url.path}?{request.url.query}" if request.url.query else request.url.path, safe=""),
        "visitor": subject.account,
        "is_admin": subject.administers,
        "csrf": csrf_token(session) if session and subject.account is not None else None,
        "session_ended": bool(getattr(request.state, "session_ended", False)),
        "done": request.query_params.get("done", "")[:100],
        "nonce": nonce,
        "now": node_of(request).ports.clock.now(),
        "dataset_path": dataset_path,
        "scripts": request.app.state.assets,
    }
