"""Organisations: those to which the caller belongs, their members and roles."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from odfabric.errors import InvalidRequest, OdfError, Place
from odfabric.model.people.account import OrganisationRole
from odfabric.usecases.people.accounts import change_account, delete_account
from odfabric.usecases.people.organisations import (
    create_organisation,
    list_members,
    seen_organisation,
    set_member,
)
from odfabric_api.auth import Member, Subject, manages, node_of
from odfabric_api.bodies.forms import read_form
from odfabric_api.page_route import PageRoute
from odfabric_api.web.pages import page, see_other
from odfabric_api.web.submitted import check_typed, submitted, version_in

router = APIRouter(route_class=PageRoute, include_in_schema=False)

ORGANISATIONS = "/-/account/organisations"

Name = Path(description="Name of the organisation")


@router.get(ORGANISATIONS)
def get_organisations(request: Request, caller: Member) -> Response:
    """Those of which the caller is a member, and the form for a new one."""
    return _organisations(request, caller)


@router.post(ORGANISATIONS)
async def post_organisations(request: Request, caller: Member) -> Response:
    """Make one; the caller is its first admin."""
    form = await read_form(request, frozenset({"name", "display_name", "email"}))

    def act() -> Response:
        made = create_organisation(
            form.get("name", ""),
            display_name=form.get("display_name") or None,
            email=form.get("email") or None,
            subject=caller,
            ports=node_of(request).people,
        )
        return see_other(_path(str(made.name)), notice="made")

    return await submitted(
        request, act, lambda error, status: _organisations(request, caller, typed=form, refusal=error, status=status)
    )


@router.get("/-/orgs/{name}")
def get_organisation(request: Request, caller: Member, name: str = Name) -> Response:
    """Members, for members. To others it does not exist."""
    return _organisation(request, caller, name)


@router.post("/-/orgs/{name}")
async def post_organisation(request: Request, caller: Member, name: str = Name) -> Response:
    """Change what it says of itself."""
    form = await read_form(request, frozenset({"display_name", "email", "version"}))

    def act() -> Response:
        people = node_of(request).people
        seen_organisation(name, subject=caller, ports=people)
        change_account(
            name,
            display_name=form.get("display_name"),
            email=form.get("email"),
            version=version_in(form),
            subject=caller,
            ports=people,
        )
        return see_other(_path(name), notice="saved")

    return await submitted(
        request, act, lambda error, status: _organisation(request, caller, name, refusal=error, status=status)
    )


@router.post("/-/orgs/{name}/members")
async def post_member(request: Request, caller: Member, name: str = Name) -> Response:
    """Give somebody a role, or with the role `none` take them out.

    `seen` is the role that the form was made from.
    """
    form = await read_form(request, frozenset({"member", "role", "seen", "version"}))
    member = form.get("member", "").strip()

    def act() -> Response:
        people = node_of(request).people
        set_member(name, member, _role(form), version=version_in(form), subject=caller, ports=people)
        own = caller.account.name if caller.account else None
        leaves = form.get("role") == "none" and own is not None and own.folded == member.lower()
        if leaves and not caller.administers:
            return see_other(ORGANISATIONS, notice="left")
        return see_other(_path(name), notice="role")

    return await submitted(
        request,
        act,
        lambda error, status: _organisation(request, caller, name, typed=form, refusal=error, status=status),
    )


@router.post("/-/orgs/{name}/delete")
async def post_delete(request: Request, caller: Member, name: str = Name) -> Response:
    """Delete it, once it owns no datasets; the name is typed to confirm."""
    form = await read_form(request, frozenset({"confirm"}))

    def act() -> Response:
        people = node_of(request).people
        organisation = seen_organisation(name, subject=caller, ports=people)
        check_typed(form, str(organisation.name))
        delete_account(name, subject=caller, ports=people)
        return see_other(ORGANISATIONS, notice="deleted")

    return await submitted(
        request, act, lambda error, status: _organisation(request, caller, name, refusal=error, status=status)
    )


def _path(name: str) -> str:
    return f"/-/orgs/{quote(name, safe='')}"


def _role(form: dict[str, str]) -> OrganisationRole | None:
    text = form.get("role", "")
    if text == "none":
        return None
    if text not in {role.value for role in OrganisationRole}:
        raise InvalidRequest("not a role of members", place=Place(field="role"), hint="member or admin")
    return OrganisationRole(text)


def _organisations(
    request: Request,
    caller: Subject,
    *,
    typed: dict[str, str] | None = None,
    refusal: OdfError | None = None,
    status: int = 200,
) -> Response:
    values: dict[str, Any] = {
        "organisations": caller.organisations,
        "typed": {"name": "", "display_name": "", "email": "", **(typed or {})},
        "refusal": refusal,
        "tab": "organisations",
    }
    return page(request, "account/organisations.html", values, status=status)


def _organisation(
    request: Request,
    caller: Subject,
    name: str,
    *,
    typed: dict[str, str] | None = None,
    refusal: OdfError | None = None,
    status: int = 200,
) -> Response:
    """Raises NotFound for whoever may not know of it."""
    people = node_of(request).people
    organisation = seen_organisation(name, subject=caller, ports=people)
    values: dict[str, Any] = {
        "organisation": organisation,
        "members": list_members(name, subject=caller, ports=people),
        "manages": manages(request, caller, organisation),
        "typed": {"member": "", "role": "member", "seen": "", **(typed or {})},
        "refusal": refusal,
    }
    return page(request, "account/organisation.html", values, status=status)
