"""Routes of access tokens: make, list, look at, revoke."""

from __future__ import annotations

from typing import Annotated, Literal
from urllib.parse import quote

from anyio import to_thread
from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import Field

from odfabric.model.people.account import Account
from odfabric.model.people.credential import AccessToken, Scope, TokenKind
from odfabric.usecases.people.tokens import (
    DATASETS_MAX,
    LISTED_KINDS,
    NewToken,
    create_token,
    list_tokens,
    revoke_token,
    state_of,
)
from odfabric.usecases.people.values import KINDS_OF_TOKENS, token_value
from odfabric.wiring import Node
from odfabric_api.auth import Member, Subject, node_of
from odfabric_api.bodies.json_answer import JsonAnswer
from odfabric_api.bodies.json_body import JsonModel, json_body, read_json
from odfabric_api.bodies.people_schemas import TokenMade, TokenPage, TokenView
from odfabric_api.bodies.schemas import answers
from odfabric_api.bodies.token_requests import dataset_of, inspected
from odfabric_api.preconditions import check_page_limit, instant_of

router = APIRouter(tags=["tokens"])

TokenId = Annotated[str, Path(description="Id of the token, as the answer 201 told it")]
AccountQuery = Annotated[str | None, Query(description="Whose: an account that the caller manages; default: its own")]

PAGE_ROWS_DEFAULT = 100


class TokenBody(JsonModel):
    """A new token."""

    name: str = Field(min_length=1, max_length=200, description="What it is for")
    kind: Literal["personal", "service", "reference"] = Field(
        "personal", description="`service`: of a program; `reference`: in the form of the reference, made by admins"
    )
    scopes: list[Literal["read", "push", "manage", "admin"]] = Field(default=["read"], max_length=4)
    datasets: list[str] | None = Field(
        None, max_length=DATASETS_MAX, description="Names or ids; null: all that the account may"
    )
    expires_at: str | None = Field(None, alias="expiresAt", max_length=40, description="RFC 3339; null: never")
    account: str | None = Field(None, max_length=100, description="Whose; default: the caller's own")


class InspectBody(JsonModel):
    """A token that somebody has found."""

    token: str = Field(max_length=512)


@router.post(
    "/tokens",
    status_code=201,
    summary="Make an access token",
    responses=answers(TokenMade, status=201, text="The token, shown once"),
    openapi_extra=json_body(TokenBody, required=True),
)
async def post_token(request: Request, caller: Member) -> Response:
    """Make a token: at most the rights of the one that makes it and of its account."""
    node = node_of(request)
    body = await read_json(request, TokenBody, bytes_max=node.settings.json_body_bytes_max)

    def create() -> Response:
        issued = create_token(_wanted(body, caller, node), of=body.account, subject=caller, ports=node.people)
        account = node.ports.accounts.by_id(issued.token.account)
        assert account is not None
        value = {**_value(issued.token, account, node), "token": issued.text}
        return JsonAnswer(value, status_code=201, headers={"location": f"/tokens/{issued.token.id}"})

    return await to_thread.run_sync(create)


@router.get("/tokens", summary="Access tokens", responses=answers(TokenPage, text="A page"))
def get_tokens(
    request: Request,
    caller: Member,
    account: AccountQuery = None,
    kind: Annotated[
        Literal["token", "session"], Query(description="`session`: where the account is signed in by a browser")
    ] = "token",
    limit: Annotated[int, Query(description="Most entries of the page")] = PAGE_ROWS_DEFAULT,
    after: Annotated[str | None, Query(description="Id after which the page begins", max_length=64)] = None,
) -> Response:
    """Those that are not revoked, without their secrets."""
    node = node_of(request)
    check_page_limit(limit, node.settings.page_rows_max)
    kinds = frozenset({TokenKind.SESSION}) if kind == "session" else LISTED_KINDS
    found = list_tokens(of=account, kinds=kinds, after=after, limit=limit, subject=caller, ports=node.people)
    headers = {}
    if len(found) == limit:
        whose = f"&account={quote(account)}" if account else ""
        headers["link"] = f'</tokens?limit={limit}&kind={kind}{whose}&after={found[-1].id}>; rel="next"'
    owners = {each.account: node.ports.accounts.by_id(each.account) for each in found}
    values = [_value(each, owner, node) for each in found if (owner := owners[each.account]) is not None]
    return JsonAnswer({"tokens": values}, headers=headers)


@router.post(
    "/tokens/inspect",
    summary="Find out whose a token is",
    responses=answers(TokenView, text="The token without its secret"),
    openapi_extra=json_body(InspectBody, required=True),
)
async def post_inspect(request: Request, caller: Member) -> Response:
    """One of the caller's accounts; for admins of the node anybody's.

    To end it: `DELETE /tokens/{id}`.
    """
    node = node_of(request)
    body = await read_json(request, InspectBody, bytes_max=node.settings.json_body_bytes_max)

    def inspect() -> Response:
        token, account = inspected(body.token, caller, node)
        return JsonAnswer(_value(token, account, node))

    return await to_thread.run_sync(inspect)


@router.delete("/tokens/{token_id}", status_code=204, summary="Revoke a token", responses=answers(None, status=204))
def delete_token(request: Request, caller: Member, token_id: TokenId) -> Response:
    """It stops to count at once. A token may always revoke itself."""
    revoke_token(token_id, subject=caller, ports=node_of(request).people)
    return Response(status_code=204)


def _wanted(body: TokenBody, caller: Subject, node: Node) -> NewToken:
    return NewToken(
        name=body.name,
        kind=KINDS_OF_TOKENS[body.kind],
        scopes=frozenset(map(Scope, body.scopes)),
        datasets=None if body.datasets is None else frozenset(dataset_of(each, caller, node) for each in body.datasets),
        expires_at=None if body.expires_at is None else instant_of("expiresAt", body.expires_at),
    )


def _value(token: AccessToken, account: Account, node: Node) -> dict[str, object]:
    return token_value(token, account, state_of(token, node.ports.clock.now()))
