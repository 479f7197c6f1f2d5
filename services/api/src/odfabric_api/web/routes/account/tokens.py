"""Access tokens of the caller and of accounts that the caller manages.

Make one, see where each is used, revoke.
"""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from odfabric.errors import InvalidRequest, NotFound, OdfError, Place
from odfabric.model.identity import DatasetId
from odfabric.model.instant import Instant
from odfabric.model.people.account import Account, AccountKind
from odfabric.model.people.credential import AccessToken, Scope, TokenKind
from odfabric.usecases.people.accounts import managed_account
from odfabric.usecases.people.tokens import (
    IssuedToken,
    NewToken,
    create_token,
    list_tokens,
    revoke_token,
    state_of,
)
from odfabric_api.auth import Member, Subject, node_of
from odfabric_api.bodies.forms import read_form
from odfabric_api.bodies.token_requests import dataset_of
from odfabric_api.page_route import PageRoute
from odfabric_api.web.pages import page, see_other
from odfabric_api.web.submitted import submitted

router = APIRouter(route_class=PageRoute, include_in_schema=False)

TOKENS = "/-/account/tokens"
PAGE_TOKENS = 100
DAYS = ("7", "30", "90", "365", "")
"""How long a token may live, in days; the empty one is for ever."""
DAYS_DEFAULT = "90"
DAY_NS = 86_400_000_000_000
SCOPES = ("read", "push", "manage", "admin")
FIELDS = frozenset({"account", "name", "datasets", "days", *SCOPES})

Whose = Annotated[str, Query(max_length=100, description="An account that the caller manages; empty: its own")]


@router.get(TOKENS)
def get_tokens(
    request: Request,
    caller: Member,
    account: Whose = "",
    after: Annotated[str, Query(max_length=64, description="Id after which the page begins")] = "",
) -> Response:
    """Those that are not revoked, and the form for a new one."""
    return _tokens(request, caller, account, after=after)


@router.post(TOKENS)
async def post_tokens(request: Request, caller: Member) -> Response:
    """Make a token. The answer shows its secret, and nothing will ever show it again."""
    form = await read_form(request, FIELDS)
    of = form.get("account", "")

    def act() -> Response:
        node = node_of(request)
        owner = _owner(request, caller, of)
        names = form.get("datasets", "").replace(",", " ").split()
        wanted = NewToken(
            name=form.get("name", ""),
            kind=TokenKind.SERVICE if owner.kind is AccountKind.ORGANISATION else TokenKind.PERSONAL,
            scopes=frozenset(Scope(scope) for scope in SCOPES if scope in form),
            datasets=frozenset(dataset_of(name, caller, node) for name in names) if names else None,
            expires_at=_end(form.get("days", DAYS_DEFAULT), node.ports.clock.now()),
        )
        issued = create_token(wanted, of=of or None, subject=caller, ports=node.people)
        return _tokens(request, caller, of, issued=issued, status=201)

    return await submitted(
        request, act, lambda error, status: _tokens(request, caller, of, typed=form, refusal=error, status=status)
    )


@router.post("/-/account/tokens/revoke")
async def post_revoke(request: Request, caller: Member) -> Response:
    """End a token for good."""
    form = await read_form(request, frozenset({"account", "id"}))
    of = form.get("account", "")

    def act() -> Response:
        revoke_token(form.get("id", ""), subject=caller, ports=node_of(request).people)
        return see_other(f"{TOKENS}?account={quote(of)}" if of else TOKENS, notice="revoked")

    return await submitted(
        request, act, lambda error, status: _tokens(request, caller, of, refusal=error, status=status)
    )


def _end(days: str, now: Instant) -> Instant | None:
    if days not in DAYS:
        raise InvalidRequest("not a time to live", place=Place(field="days"), hint="choose one of the list")
    return Instant(now.epoch_ns + int(days) * DAY_NS) if days else None


def _owner(request: Request, caller: Subject, of: str) -> Account:
    assert caller.account is not None
    return managed_account(of, subject=caller, ports=node_of(request).people) if of else caller.account


def _tokens(
    request: Request,
    caller: Subject,
    of: str,
    *,
    after: str = "",
    issued: IssuedToken | None = None,
    typed: dict[str, str] | None = None,
    refusal: OdfError | None = None,
    status: int = 200,
) -> Response:
    node = node_of(request)
    owner = _owner(request, caller, of)
    found = list_tokens(of=of or None, after=after or None, limit=PAGE_TOKENS + 1, subject=caller, ports=node.people)
    shown, now = found[:PAGE_TOKENS], node.ports.clock.now()
    values: dict[str, Any] = {
        "account": of,
        "owner": owner,
        "tokens": [(each, state_of(each, now), _names(each, request, caller)) for each in shown],
        "following": shown[-1].id if len(found) > PAGE_TOKENS else None,
        "issued": issued,
        "issued_datasets": _names(issued.token, request, caller) if issued else None,
        "typed": {"name": "", "datasets": "", "days": DAYS_DEFAULT, **(typed or {"read": "on"})},
        "days": DAYS,
        "refusal": refusal,
        "tab": "tokens",
    }
    return page(request, "account/tokens.html", values, status=status)


def _names(token: AccessToken, request: Request, caller: Subject) -> list[str] | None:
    """Names of the datasets of a token; None for all.

    Hidden or deleted datasets are named by their identities.
    """
    if token.datasets is None:
        return None
    return sorted(_name(each, request, caller) for each in token.datasets)


def _name(dataset: DatasetId, request: Request, caller: Subject) -> str:
    try:
        return str(node_of(request).seen_by(caller).resolve(dataset).alias)
    except NotFound:
        return str(dataset)
