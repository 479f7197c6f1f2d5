"""Routes of accounts and organisations: who there is, who belongs where."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal

from anyio import to_thread
from fastapi import APIRouter, Path, Request, Response
from pydantic import Field

from odfabric.model.people.account import OrganisationRole
from odfabric.usecases.people.accounts import change_account, delete_account, find_account
from odfabric.usecases.people.organisations import create_organisation, list_members, set_member
from odfabric.usecases.people.sign_in import change_password
from odfabric.usecases.people.values import account_value, myself_value, role_value
from odfabric_api.auth import Member, manages, node_of
from odfabric_api.bodies.json_answer import JsonAnswer
from odfabric_api.bodies.json_body import JsonModel, json_body, read_json
from odfabric_api.bodies.people_answers import managed_answer
from odfabric_api.bodies.people_schemas import (
    AccountView,
    ManagedAccountView,
    MemberList,
    MemberView,
    Myself,
)
from odfabric_api.bodies.schemas import answers
from odfabric_api.preconditions import VERSION_MATCH, header_parameters, version_of, version_tag

router = APIRouter(tags=["accounts"])

AccountName = Annotated[str, Path(description="Name of the account")]
MemberName = Annotated[str, Path(description="Name of the member's account")]


class OrganisationBody(JsonModel):
    """A new organisation."""

    name: str = Field(max_length=100)
    display_name: str | None = Field(None, alias="displayName", max_length=200)
    email: str | None = Field(None, max_length=254)


class AccountBody(JsonModel):
    """What an account says of itself.

    What is left out stays, an empty `email` removes it.
    """

    display_name: str | None = Field(None, alias="displayName", max_length=200)
    email: str | None = Field(None, max_length=254)


class PasswordBody(JsonModel):
    """A new password; `oldPassword` is needed where there is one."""

    old_password: str | None = Field(None, alias="oldPassword", max_length=1024)
    password: str = Field(max_length=1024)


class MemberBody(JsonModel):
    """The role of a member."""

    role: Literal["member", "admin"]


@router.get("/accounts/me", summary="Who I am", responses=answers(Myself, text="Account, organisations, scopes"))
def get_myself(request: Request, caller: Member) -> Response:
    """Of the token or session that the request carries."""
    account = caller.account
    assert account is not None
    return JsonAnswer(myself_value(caller, account))


@router.put(
    "/accounts/me/password",
    status_code=204,
    summary="Change my password",
    responses=answers(None, status=204),
    openapi_extra=json_body(PasswordBody, required=True),
)
async def put_password(request: Request, caller: Member) -> Response:
    """All browser sessions of the account end."""
    node = node_of(request)
    body = await read_json(request, PasswordBody, bytes_max=node.settings.json_body_bytes_max)
    change = partial(change_password, body.old_password, body.password, subject=caller, ports=node.people)
    await to_thread.run_sync(change)
    return Response(status_code=204)


@router.get("/accounts/{name}", summary="An account", responses=answers(AccountView, text="The account"))
def get_account(request: Request, caller: Member, name: AccountName) -> Response:
    """With e-mail, limits and version for itself and its admins."""
    node = node_of(request)
    account = find_account(name, subject=caller, ports=node.people)
    return managed_answer(account) if manages(request, caller, account) else JsonAnswer(account_value(account))


@router.patch(
    "/accounts/{name}",
    summary="Change an account",
    responses=answers(ManagedAccountView, text="As it is now"),
    openapi_extra={**json_body(AccountBody, required=True), **header_parameters(VERSION_MATCH)},
)
async def patch_account(request: Request, caller: Member, name: AccountName) -> Response:
    """Display name and e-mail; names do not change."""
    node = node_of(request)
    body = await read_json(request, AccountBody, bytes_max=node.settings.json_body_bytes_max)
    change = partial(
        change_account,
        name,
        display_name=body.display_name,
        email=body.email,
        version=version_of(request),
        subject=caller,
        ports=node.people,
    )
    return managed_answer(await to_thread.run_sync(change))


@router.delete("/accounts/{name}", status_code=204, summary="Delete an account", responses=answers(None, status=204))
def remove_account(request: Request, caller: Member, name: AccountName) -> Response:
    """One that owns no datasets, an organisation too; its tokens and roles go with it."""
    delete_account(name, subject=caller, ports=node_of(request).people)
    return Response(status_code=204)


@router.post(
    "/orgs",
    status_code=201,
    summary="Make an organisation",
    responses=answers(ManagedAccountView, status=201, text="The organisation"),
    openapi_extra=json_body(OrganisationBody, required=True),
)
async def post_organisation(request: Request, caller: Member) -> Response:
    """The caller is its first admin."""
    node = node_of(request)
    body = await read_json(request, OrganisationBody, bytes_max=node.settings.json_body_bytes_max)
    create = partial(
        create_organisation,
        body.name,
        display_name=body.display_name,
        email=body.email,
        subject=caller,
        ports=node.people,
    )
    made = await to_thread.run_sync(create)
    return managed_answer(made, status=201, headers={"location": f"/accounts/{made.name}"})


@router.get("/orgs/{name}/members", summary="Members", responses=answers(MemberList, text="All of them, by name"))
def get_members(request: Request, caller: Member, name: AccountName) -> Response:
    """For members, and for admins of the node."""
    found = list_members(name, subject=caller, ports=node_of(request).people)
    return JsonAnswer({"members": [role_value(account, membership) for account, membership in found]})


@router.put(
    "/orgs/{name}/members/{member}",
    summary="Give somebody a role in an organisation",
    responses=answers(MemberView, text="The role as it is now"),
    openapi_extra={**json_body(MemberBody, required=True), **header_parameters(VERSION_MATCH)},
)
async def put_member(request: Request, caller: Member, name: AccountName, member: MemberName) -> Response:
    """`member` edits the organisation's datasets, `admin` owns them and its members."""
    node = node_of(request)
    body = await read_json(request, MemberBody, bytes_max=node.settings.json_body_bytes_max)

    def change() -> Response:
        made = set_member(
            name,
            member,
            OrganisationRole(body.role),
            version=version_of(request),
            subject=caller,
            ports=node.people,
        )
        assert made is not None
        account = find_account(member, subject=caller, ports=node.people)
        return JsonAnswer(role_value(account, made), headers={"etag": version_tag(made.version)})

    return await to_thread.run_sync(change)


@router.delete(
    "/orgs/{name}/members/{member}",
    status_code=204,
    summary="Take somebody out of an organisation",
    responses=answers(None, status=204),
    openapi_extra=header_parameters(VERSION_MATCH),
)
def delete_member(request: Request, caller: Member, name: AccountName, member: MemberName) -> Response:
    """Members may leave by themselves; the last admin may not."""
    set_member(name, member, None, version=version_of(request), subject=caller, ports=node_of(request).people)
    return Response(status_code=204)
