"""Routes of the node's admins.

Accounts, invitations, limits, audit, and who may do what and why.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal
from urllib.parse import urlencode

from anyio import to_thread
from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import Field

from odfabric.formats.identifiers.references import parse_dataset_ref
from odfabric.model.people.account import AccountKind, AccountLimits
from odfabric.model.people.audit import AuditOutcome
from odfabric.usecases.people.accounts import (
    create_account,
    list_accounts,
    named_account,
    set_admin,
    set_limits,
    set_suspended,
)
from odfabric.usecases.people.explain import explain
from odfabric.usecases.people.invitations import (
    IssuedInvitation,
    invite,
    list_invitations,
    reset_password,
    revoke_invitation,
)
from odfabric.usecases.people.values import audit_value, invitation_url, invitation_value, managed_value
from odfabric_api.auth import Admin, node_of
from odfabric_api.bodies.json_answer import JsonAnswer
from odfabric_api.bodies.json_body import JsonModel, json_body, read_json
from odfabric_api.bodies.people_answers import managed_answer
from odfabric_api.bodies.people_schemas import (
    AccountPage,
    AuditPage,
    Explanation,
    InvitationList,
    InvitationMade,
    ManagedAccountView,
)
from odfabric_api.bodies.schemas import answers
from odfabric_api.preconditions import VERSION_MATCH, check_page_limit, header_parameters, instant_of, version_of
from odfabric_api.sessions import public_origin

router = APIRouter(tags=["admin"])

AccountName = Annotated[str, Path(description="Name of the account")]
Limit = Annotated[int, Query(description="Most entries of the page")]
PAGE_ROWS_DEFAULT = 100
INT64_MAX = 2**63 - 1


class NewAccountBody(JsonModel):
    """A user who cannot sign in yet."""

    name: str = Field(max_length=100)
    display_name: str | None = Field(None, alias="displayName", max_length=200)
    email: str | None = Field(None, max_length=254)


class StandingBody(JsonModel):
    """What an admin decides about an account; what is left out stays."""

    is_admin: bool | None = Field(None, alias="isAdmin", description="Whether it is an admin of the node")
    is_suspended: bool | None = Field(None, alias="isSuspended", description="Whether it may do nothing")


class LimitsBody(JsonModel):
    """Limits of one account; null leaves it to the node's settings."""

    datasets_max: int | None = Field(None, alias="datasetsMax", ge=0, le=INT64_MAX)
    stored_bytes_max: int | None = Field(None, alias="storedBytesMax", ge=0, le=INT64_MAX)
    pushes_per_minute_max: int | None = Field(None, alias="pushesPerMinuteMax", ge=0, le=INT64_MAX)
    queries_at_once_max: int | None = Field(None, alias="queriesAtOnceMax", ge=0, le=INT64_MAX)


class InvitationBody(JsonModel):
    """For whom: nobody, a name, or with `resetOf` an account for a new password."""

    name: str | None = Field(None, max_length=100, description="The name that they get; null: they choose")
    email: str | None = Field(None, max_length=254)
    is_admin: bool = Field(False, alias="isAdmin", description="Whether they become an admin of the node")
    reset_of: str | None = Field(None, alias="resetOf", max_length=100)


@router.get("/admin/accounts", summary="All accounts", responses=answers(AccountPage, text="A page"))
def get_accounts(
    request: Request,
    caller: Admin,
    kind: Annotated[Literal["user", "organisation"] | None, Query(description="Only these")] = None,
    limit: Limit = PAGE_ROWS_DEFAULT,
    after: Annotated[str | None, Query(description="Name after which the page begins")] = None,
) -> Response:
    """In order of names."""
    node = node_of(request)
    check_page_limit(limit, node.settings.page_rows_max)
    found = list_accounts(
        subject=caller, kind=AccountKind(kind) if kind else None, after=after, limit=limit, ports=node.people
    )
    headers = {}
    if len(found) == limit:
        asked = {"limit": limit, "after": str(found[-1].name)} | ({"kind": kind} if kind else {})
        headers["link"] = f'</admin/accounts?{urlencode(asked)}>; rel="next"'
    return JsonAnswer({"accounts": [managed_value(each) for each in found]}, headers=headers)


@router.post(
    "/admin/accounts",
    status_code=201,
    summary="Make a user",
    responses=answers(ManagedAccountView, status=201, text="The account"),
    openapi_extra=json_body(NewAccountBody, required=True),
)
async def post_account(request: Request, caller: Admin) -> Response:
    """Make an account that cannot sign in yet.

    Its person needs a password first, by an invitation with `resetOf`, or comes from an identity provider.
    """
    node = node_of(request)
    body = await read_json(request, NewAccountBody, bytes_max=node.settings.json_body_bytes_max)
    create = partial(
        create_account,
        body.name,
        display_name=body.display_name,
        email=body.email,
        subject=caller,
        ports=node.people,
    )
    made = await to_thread.run_sync(create)
    return managed_answer(made, status=201, headers={"location": f"/accounts/{made.name}"})


@router.patch(
    "/admin/accounts/{name}",
    summary="Make an account an admin of the node, suspend it, or take that back",
    responses=answers(ManagedAccountView, text="As it is now"),
    openapi_extra={**json_body(StandingBody, required=True), **header_parameters(VERSION_MATCH)},
)
async def patch_standing(request: Request, caller: Admin, name: AccountName) -> Response:
    """The node's last admin who is not suspended stays one."""
    node = node_of(request)
    body = await read_json(request, StandingBody, bytes_max=node.settings.json_body_bytes_max)

    def change() -> Response:
        account, version = named_account(name, ports=node.people), version_of(request)
        if body.is_admin is not None:
            account = set_admin(name, body.is_admin, version=version, subject=caller, ports=node.people)
            version = None if version is None else account.version
        if body.is_suspended is not None:
            account = set_suspended(name, body.is_suspended, version=version, subject=caller, ports=node.people)
        return managed_answer(account)

    return await to_thread.run_sync(change)


@router.put(
    "/admin/accounts/{name}/limits",
    summary="Set the limits of an account",
    responses=answers(ManagedAccountView, text="As it is now"),
    openapi_extra={**json_body(LimitsBody, required=True), **header_parameters(VERSION_MATCH)},
)
async def put_limits(request: Request, caller: Admin, name: AccountName) -> Response:
    """All of them; null leaves one to the node's settings."""
    node = node_of(request)
    body = await read_json(request, LimitsBody, bytes_max=node.settings.json_body_bytes_max)
    limits = AccountLimits(
        datasets_max=body.datasets_max,
        stored_bytes_max=body.stored_bytes_max,
        pushes_per_minute_max=body.pushes_per_minute_max,
        queries_at_once_max=body.queries_at_once_max,
    )
    change = partial(set_limits, name, limits, version=version_of(request), subject=caller, ports=node.people)
    return managed_answer(await to_thread.run_sync(change))


@router.post(
    "/admin/invitations",
    status_code=201,
    summary="Invite somebody, or let an account choose a new password",
    responses=answers(InvitationMade, status=201, text="The link, shown once"),
    openapi_extra=json_body(InvitationBody, required=False),
)
async def post_invitation(request: Request, caller: Admin) -> Response:
    """The link works once."""
    node = node_of(request)
    body = await read_json(request, InvitationBody, bytes_max=node.settings.json_body_bytes_max)

    def create() -> IssuedInvitation:
        if body.reset_of is not None:
            return reset_password(body.reset_of, subject=caller, ports=node.people)
        return invite(name=body.name, email=body.email, is_admin=body.is_admin, subject=caller, ports=node.people)

    issued = await to_thread.run_sync(create)
    value = {**_invitation(issued, body.reset_of), "url": invitation_url(public_origin(request), issued.code)}
    return JsonAnswer(value, status_code=201)


@router.get(
    "/admin/invitations", summary="Links that can still be used", responses=answers(InvitationList, text="All of them")
)
def get_invitations(request: Request, caller: Admin) -> Response:
    """Newest first, without their codes."""
    node = node_of(request)
    found = list_invitations(subject=caller, ports=node.people)
    accounts = {each.account: node.ports.accounts.by_id(each.account) for each in found if each.account}
    values = [invitation_value(each, accounts[each.account] if each.account else None) for each in found]
    return JsonAnswer({"invitations": values})


@router.delete(
    "/admin/invitations/{invitation_id}",
    status_code=204,
    summary="Withdraw an invitation",
    responses=answers(None, status=204),
)
def delete_invitation(
    request: Request, caller: Admin, invitation_id: Annotated[str, Path(description="As the answer 201 told it")]
) -> Response:
    """Its link is worth nothing any more."""
    revoke_invitation(invitation_id, subject=caller, ports=node_of(request).people)
    return Response(status_code=204)


@router.get(
    "/admin/explain",
    summary="What an account may do with a dataset, and why",
    responses=answers(Explanation, text="Role, reasons, actions"),
)
def get_explanation(
    request: Request,
    caller: Admin,
    dataset: Annotated[str, Query(description="`account/name` or id", max_length=250)],
    account: Annotated[str | None, Query(description="Default: a stranger", max_length=100)] = None,
) -> Response:
    """By the same policy that decides requests."""
    node = node_of(request)
    entry = node.datasets.resolve(parse_dataset_ref(dataset))
    return JsonAnswer(explain(entry, account, subject=caller, ports=node.people).to_value())


@router.get("/admin/audit", summary="The audit", responses=answers(AuditPage, text="A page, oldest first"))
def get_audit(
    request: Request,
    caller: Admin,
    limit: Limit = PAGE_ROWS_DEFAULT,
    after: Annotated[int, Query(ge=0, le=INT64_MAX, description="Id after which the page begins")] = 0,
    kind: Annotated[str | None, Query(description="Comma list of kinds", max_length=1000)] = None,
    account: Annotated[str | None, Query(description="Id of the account that did it", max_length=200)] = None,
    target: Annotated[str | None, Query(description="To what it was done", max_length=250)] = None,
    outcome: Annotated[Literal["done", "refused"] | None, Query(description="Only these")] = None,
    since: Annotated[str | None, Query(description="RFC 3339", max_length=40)] = None,
    until: Annotated[str | None, Query(description="RFC 3339", max_length=40)] = None,
) -> Response:
    """What was done to rights, accounts, tokens and datasets, and what was refused.

    All of it goes on into `system/audit`.
    """
    node = node_of(request)
    check_page_limit(limit, node.settings.page_rows_max)
    found = node.ports.audit.page(
        after=after,
        kinds=frozenset(part.strip() for part in kind.split(",")) if kind else None,
        account=account,
        target=target,
        outcome=AuditOutcome(outcome) if outcome else None,
        since=instant_of("since", since) if since is not None else None,
        until=instant_of("until", until) if until is not None else None,
        limit=limit,
    )
    headers = {}
    if len(found) == limit:
        given = {"kind": kind, "account": account, "target": target, "outcome": outcome, "since": since, "until": until}
        asked = {name: value for name, value in given.items() if value is not None}
        page = urlencode({"limit": limit, "after": found[-1].id, **asked})
        headers["link"] = f'</admin/audit?{page}>; rel="next"'
    return JsonAnswer({"entries": [audit_value(each) for each in found]}, headers=headers)


def _invitation(issued: IssuedInvitation, account: str | None) -> dict[str, object]:
    return {**invitation_value(issued.invitation, None), "account": account}
