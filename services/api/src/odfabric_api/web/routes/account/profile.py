"""Who I am: profile, password, the places where I am signed in, and signing out."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from odfabric.errors import OdfError
from odfabric.model.people.account import Account
from odfabric.usecases.people.accounts import change_account
from odfabric.usecases.people.sessions import end_other_sessions, list_sessions
from odfabric.usecases.people.sign_in import change_password, open_session
from odfabric.usecases.people.tokens import revoke_token
from odfabric_api.auth import Anybody, Member, Subject, node_of
from odfabric_api.bodies.forms import read_form
from odfabric_api.page_route import PageRoute
from odfabric_api.routes.sign_in import with_session
from odfabric_api.sessions import close_cookie, cookie_of
from odfabric_api.web.devices import device_name
from odfabric_api.web.pages import page, see_other
from odfabric_api.web.submitted import submitted, version_in

router = APIRouter(route_class=PageRoute, include_in_schema=False)

PROFILE, SESSIONS = "/-/account", "/-/account/sessions"


@router.get(PROFILE)
def get_profile(request: Request, caller: Member) -> Response:
    """Display name, e-mail address, password."""
    return _profile(request, _account(caller))


@router.post(PROFILE)
async def post_profile(request: Request, caller: Member) -> Response:
    """Change display name and e-mail address."""
    form = await read_form(request, frozenset({"display_name", "email", "version"}))
    account = _account(caller)

    def act() -> Response:
        change_account(
            str(account.name),
            display_name=form.get("display_name"),
            email=form.get("email"),
            version=version_in(form),
            subject=caller,
            ports=node_of(request).people,
        )
        return see_other(PROFILE, notice="saved")

    return await submitted(
        request, act, lambda error, status: _profile(request, account, typed=form, refusal=error, status=status)
    )


@router.post("/-/account/password")
async def post_password(request: Request, caller: Member) -> Response:
    """Change the password; all sessions end, the caller's continues as a new one."""
    form = await read_form(request, frozenset({"old", "new"}))
    account = _account(caller)

    def act() -> Response:
        people = node_of(request).people
        change_password(form.get("old") or None, form.get("new", ""), subject=caller, ports=people)
        answer = see_other(PROFILE, notice="password")
        if not _is_session(request):
            return answer
        device = request.headers.get("user-agent", "")
        issued = open_session(account, how="password", device=device, address=caller.address, ports=people)
        return with_session(request, answer, issued)

    return await submitted(
        request, act, lambda error, status: _profile(request, account, password_refusal=error, status=status)
    )


@router.get(SESSIONS)
def get_sessions(request: Request, caller: Member) -> Response:
    """Browsers in which the account is signed in."""
    return _sessions(request, caller)


@router.post(SESSIONS)
async def post_sessions(request: Request, caller: Member) -> Response:
    """End the session `id`, or without one all others."""
    form = await read_form(request, frozenset({"id"}))
    people = node_of(request).people

    def act() -> Response:
        if (session := form.get("id")) is not None:
            revoke_token(session, subject=caller, ports=people)
        else:
            end_other_sessions(subject=caller, ports=people)
        return see_other(SESSIONS, notice="ended")

    return await submitted(request, act, lambda error, status: _sessions(request, caller, refusal=error, status=status))


@router.post("/-/sign-out")
def post_sign_out(request: Request, caller: Anybody) -> Response:
    """End the browser's session and forget its cookie.

    Whoever has none, or one that ended, is signed out as well.
    """
    if caller.token is not None and _is_session(request):
        revoke_token(caller.token, subject=caller, ports=node_of(request).people)
    answer = RedirectResponse("/", status_code=303)
    close_cookie(request, answer)
    return answer


def _account(caller: Subject) -> Account:
    account = caller.account
    assert account is not None
    return account


def _is_session(request: Request) -> bool:
    """Whether the caller has a session, which goes as far as they do.

    Only then may one follow it.
    """
    return cookie_of(request) is not None and "authorization" not in request.headers


def _profile(
    request: Request,
    account: Account,
    *,
    typed: dict[str, str] | None = None,
    refusal: OdfError | None = None,
    password_refusal: OdfError | None = None,
    status: int = 200,
) -> Response:
    people = node_of(request).people
    shown = {"display_name": account.display_name, "email": account.email or "", "version": str(account.version)}
    values: dict[str, Any] = {
        "account": account,
        "typed": {**shown, **(typed or {})},
        "refusal": refusal,
        "password_refusal": password_refusal,
        "has_password": people.accounts.password_hash(account.id) is not None,
        "characters_min": people.password_rules.characters_min,
        "identities": people.accounts.identities(account.id),
        "providers": [(each.name, each.label) for each in node_of(request).ports.identities.providers()],
        "tab": "profile",
    }
    return page(request, "account/profile.html", values, status=status)


def _sessions(request: Request, caller: Subject, *, refusal: OdfError | None = None, status: int = 200) -> Response:
    found = list_sessions(subject=caller, ports=node_of(request).people)
    values = {
        "sessions": [(each, device_name(each.token.name)) for each in found],
        "refusal": refusal,
        "tab": "sessions",
    }
    return page(request, "account/sessions.html", values, status=status)
