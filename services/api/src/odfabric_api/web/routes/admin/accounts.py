"""All accounts for the node's admins: find, invite, suspend, limit, delete."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from odfabric.errors import InvalidRequest, OdfError, Place
from odfabric.model.people.account import AccountKind, AccountLimits
from odfabric.usecases.people.accounts import (
    delete_account,
    list_accounts,
    named_account,
    set_admin,
    set_limits,
    set_suspended,
)
from odfabric.usecases.people.invitations import (
    IssuedInvitation,
    invite,
    list_invitations,
    reset_password,
    revoke_invitation,
)
from odfabric.usecases.people.values import invitation_url
from odfabric_api.auth import Admin, Subject, node_of
from odfabric_api.bodies.forms import read_form
from odfabric_api.page_route import PageRoute
from odfabric_api.sessions import public_origin
from odfabric_api.web.pages import page, see_other
from odfabric_api.web.submitted import check_typed, submitted, version_in

router = APIRouter(route_class=PageRoute, include_in_schema=False)

ACCOUNTS = "/-/admin/accounts"
PAGE_ACCOUNTS = 50
LIMITS = ("datasets_max", "stored_bytes_max", "pushes_per_minute_max", "queries_at_once_max")
INT64_MAX = 2**63 - 1

Name = Annotated[str, Path(description="Name of the account")]


@router.get(ACCOUNTS)
def get_accounts(
    request: Request,
    caller: Admin,
    q: Annotated[str, Query(max_length=100, description="Part of a name or an e-mail address")] = "",
    kind: Annotated[Literal["", "user", "organisation"], Query()] = "",
    after: Annotated[str, Query(max_length=100, description="Name after which the page begins")] = "",
) -> Response:
    """In order of names, the links of open invitations, and the form for a new one."""
    return _accounts(request, caller, q=q, kind=kind, after=after)


@router.post("/-/admin/invitations")
async def post_invitation(request: Request, caller: Admin) -> Response:
    """Invite somebody. The answer shows the link, and nothing will ever show it again."""
    form = await read_form(request, frozenset({"name", "email", "admin"}))

    def act() -> Response:
        issued = invite(
            name=form.get("name", "").strip() or None,
            email=form.get("email") or None,
            is_admin="admin" in form,
            subject=caller,
            ports=node_of(request).people,
        )
        return _accounts(request, caller, issued=issued, status=201)

    return await submitted(
        request, act, lambda error, status: _accounts(request, caller, typed=form, refusal=error, status=status)
    )


@router.post("/-/admin/invitations/revoke")
async def post_revoke(request: Request, caller: Admin) -> Response:
    """Make the link of an invitation worthless."""
    form = await read_form(request, frozenset({"id"}))

    def act() -> Response:
        revoke_invitation(form.get("id", ""), subject=caller, ports=node_of(request).people)
        return see_other(ACCOUNTS, notice="withdrawn")

    return await submitted(request, act, lambda error, status: _accounts(request, caller, refusal=error, status=status))


@router.get(f"{ACCOUNTS}/{{name}}")
def get_account(request: Request, caller: Admin, name: Name) -> Response:
    """One account: what it is, what it uses, and what an admin decides about it."""
    return _account(request, name)


@router.post(f"{ACCOUNTS}/{{name}}/standing")
async def post_standing(request: Request, caller: Admin, name: Name) -> Response:
    """Suspend an account or readmit it, make it an admin of the node or revoke that."""
    form = await read_form(request, frozenset({"change", "version"}))

    def act() -> Response:
        people, change, version = node_of(request).people, form.get("change"), version_in(form)
        if change in ("suspend", "resume"):
            set_suspended(name, change == "suspend", version=version, subject=caller, ports=people)
        elif change in ("admin", "no-admin"):
            set_admin(name, change == "admin", version=version, subject=caller, ports=people)
        else:
            raise InvalidRequest("not a change of an account", place=Place(field="change"))
        return see_other(_path(name), notice=change)

    return await submitted(request, act, lambda error, status: _account(request, name, refusal=error, status=status))


@router.post(f"{ACCOUNTS}/{{name}}/limits")
async def post_limits(request: Request, caller: Admin, name: Name) -> Response:
    """Limits of the account; an empty one leaves it to the node's settings."""
    form = await read_form(request, frozenset({*LIMITS, "version"}))

    def act() -> Response:
        limits = AccountLimits(**{field: _limit(form, field) for field in LIMITS})
        people = node_of(request).people
        set_limits(name, limits, version=version_in(form), subject=caller, ports=people)
        return see_other(_path(name), notice="limits")

    return await submitted(
        request, act, lambda error, status: _account(request, name, typed=form, refusal=error, status=status)
    )


@router.post(f"{ACCOUNTS}/{{name}}/reset")
async def post_reset(request: Request, caller: Admin, name: Name) -> Response:
    """A link by which its person chooses a new password, shown once."""
    await read_form(request, frozenset())

    def act() -> Response:
        issued = reset_password(name, subject=caller, ports=node_of(request).people)
        return _account(request, name, issued=issued, status=201)

    return await submitted(request, act, lambda error, status: _account(request, name, refusal=error, status=status))


@router.post(f"{ACCOUNTS}/{{name}}/delete")
async def post_delete(request: Request, caller: Admin, name: Name) -> Response:
    """Delete it, once it owns no datasets; the name is typed to confirm."""
    form = await read_form(request, frozenset({"confirm"}))

    def act() -> Response:
        people = node_of(request).people
        check_typed(form, str(named_account(name, ports=people).name))
        delete_account(name, subject=caller, ports=people)
        return see_other(ACCOUNTS, notice="deleted")

    return await submitted(request, act, lambda error, status: _account(request, name, refusal=error, status=status))


def _path(name: str) -> str:
    return f"{ACCOUNTS}/{quote(name, safe='')}"


def _limit(form: dict[str, str], field: str) -> int | None:
    text = form.get(field, "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 20 and int(text) <= INT64_MAX):
        raise InvalidRequest("not a limit", place=Place(field=field), hint="a whole number, or nothing")
    return int(text)


def _accounts(
    request: Request,
    caller: Subject,
    *,
    q: str = "",
    kind: str = "",
    after: str = "",
    issued: IssuedInvitation | None = None,
    typed: dict[str, str] | None = None,
    refusal: OdfError | None = None,
    status: int = 200,
) -> Response:
    people = node_of(request).people
    found = list_accounts(
        subject=caller,
        kind=AccountKind(kind) if kind else None,
        containing=q.strip(),
        after=after or None,
        limit=PAGE_ACCOUNTS + 1,
        ports=people,
    )
    shown, following = found[:PAGE_ACCOUNTS], None
    if len(found) > PAGE_ACCOUNTS:
        following = f"{ACCOUNTS}?{urlencode({'q': q, 'kind': kind, 'after': shown[-1].name})}"
    values: dict[str, Any] = {
        "q": q,
        "kind": kind,
        "accounts": shown,
        "following": following,
        "invitations": [
            (each, people.accounts.by_id(each.account) if each.account else None)
            for each in list_invitations(subject=caller, ports=people)
        ],
        "link": invitation_url(public_origin(request), issued.code) if issued else None,
        "issued": issued,
        "typed": {"name": "", "email": "", **(typed or {})},
        "refusal": refusal,
        "tab": "accounts",
    }
    return page(request, "admin/accounts.html", values, status=status)


def _account(
    request: Request,
    name: str,
    *,
    issued: IssuedInvitation | None = None,
    typed: dict[str, str] | None = None,
    refusal: OdfError | None = None,
    status: int = 200,
) -> Response:
    """Raises NotFound, InvalidName."""
    node = node_of(request)
    account = named_account(name, ports=node.people)
    own = {field: getattr(account.limits, field) for field in LIMITS}
    values: dict[str, Any] = {
        "account": account,
        "own_path": _path(str(account.name)),
        "use": node.ports.usage.of_account(account.name),
        "limits": own,
        "defaults": {field: getattr(node.quotas.defaults, field) for field in LIMITS},
        "typed": {**{field: "" if limit is None else str(limit) for field, limit in own.items()}, **(typed or {})},
        "link": invitation_url(public_origin(request), issued.code) if issued else None,
        "issued": issued,
        "refusal": refusal,
        "tab": "accounts",
    }
    return page(request, "admin/account.html", values, status=status)
