"""Pages of signing in.

A password, an invitation, a device to be approved, an identity to be linked.
"""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import Request
from starlette.responses import HTMLResponse

from odfabric_api.web.pages import page


def login_page(
    request: Request,
    *,
    then: str,
    login: str = "",
    problem: str | None = None,
    providers: Sequence[tuple[str, str]] = (),
    status: int = 200,
) -> HTMLResponse:
    """Form for name and password.

    `then` is the page of this node that follows, `providers` are names and labels of identity providers.
    """
    values = {"then": then, "login": login, "problem": problem, "providers": providers}
    return page(request, "sign_in/login.html", values, status=status)


def setup_page(
    request: Request,
    *,
    code: str,
    name: str | None,
    is_new: bool,
    characters_min: int,
    typed: tuple[str, str] = ("", ""),
    problem: str | None = None,
    status: int = 200,
) -> HTMLResponse:
    """A new account, or a new password for `name`.

    `typed` are the name and the display name of a form that was refused.
    """
    values = {
        "code": code,
        "name": name,
        "is_new": is_new,
        "characters_min": characters_min,
        "typed_name": typed[0],
        "typed_display_name": typed[1],
        "problem": problem,
    }
    return page(request, "sign_in/setup.html", values, status=status)


def device_page(
    request: Request,
    *,
    user_code: str | None,
    client: str | None,
    account: str,
    csrf: str,
    problem: str | None = None,
    status: int = 200,
) -> HTMLResponse:
    """Ask for the code, or whether the device with this code may act as the account."""
    values = {"user_code": user_code, "client": client, "account": account, "proof": csrf, "problem": problem}
    return page(request, "sign_in/device.html", values, status=status)


def link_page(request: Request, *, label: str, account: str, href: str) -> HTMLResponse:
    """Ask whether somebody wants to sign in by a provider from now on.

    A page elsewhere may have led them here.
    """
    return page(request, "sign_in/link.html", {"label": label, "account": account, "href": href})


def message_page(
    request: Request, title: str, message: str, *, following: tuple[str, str] | None = None, status: int = 200
) -> HTMLResponse:
    """What was done or cannot be done.

    `following` are the address and the text of a link to what comes next.
    """
    values = {"title": title, "message": message, "following": following}
    return page(request, "sign_in/message.html", values, status=status)
