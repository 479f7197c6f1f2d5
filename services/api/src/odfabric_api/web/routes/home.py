"""The first page and the page of an account, and both as a feed.

The first page browses and searches what the visitor may read; the page of an account does so for one owner.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Path, Query, Request
from starlette.responses import Response

from odfabric.errors import InvalidName, NotFound
from odfabric.formats.identifiers.references import parse_name
from odfabric.model.people.account import Account
from odfabric_api.auth import Anybody, Subject, manages, node_of
from odfabric_api.bodies import search_request
from odfabric_api.bodies.search_request import AskedSearch, ChangedWithin, KindAsked
from odfabric_api.page_route import PageRoute
from odfabric_api.web.feed import MEDIA_TYPE, found_feed
from odfabric_api.web.pages import page
from odfabric_api.web.search_page import FEED_PATH, PAGES_MAX, SearchPage, Sort

router = APIRouter(route_class=PageRoute, include_in_schema=False)

Number = Annotated[int, Query(alias="page", ge=1, le=PAGES_MAX)]


def _asked_of_owner(
    q: search_request.Words = "",
    kind: Annotated[Literal["", "root", "derivative"], Query()] = "",
    keyword: search_request.Keyword = "",
    license: search_request.License = "",
    changed: Annotated[Literal["", "day", "week", "month", "year"], Query()] = "",
) -> AskedSearch:
    """Forms send fields that are empty."""
    return AskedSearch(
        q=q,
        kind=KindAsked(kind) if kind else None,
        keyword=keyword,
        license=license,
        changed=ChangedWithin(changed) if changed else None,
    )


AskedOfOwner = Annotated[AskedSearch, Depends(_asked_of_owner)]


def _asked(asked: AskedOfOwner, account: search_request.Account = "") -> AskedSearch:
    return replace(asked, account=account)


Asked = Annotated[AskedSearch, Depends(_asked)]


@router.get("/")
def get_home(request: Request, caller: Anybody, asked: Asked, sort: Sort = "", number: Number = 1) -> Response:
    """All datasets that the visitor may read.

    The address is the whole state of the page.
    """
    found = SearchPage(path="/", asked=asked, sort=sort, number=number)
    return page(request, "home.html", found.values(request, caller))


@router.get(FEED_PATH)
def get_feed(request: Request, caller: Anybody, asked: Asked) -> Response:
    """The datasets of a search that changed last, as an Atom feed."""
    document = found_feed(request, caller, asked, path=FEED_PATH)
    return Response(document, media_type=MEDIA_TYPE, headers={"cache-control": "no-store"})


@router.get("/{account}")
def get_account(
    request: Request,
    caller: Anybody,
    account: Annotated[str, Path()],
    asked: AskedOfOwner,
    sort: Sort = "",
    number: Number = 1,
) -> Response:
    """Datasets of one owner.

    To a stranger an account without public datasets does not exist. Raises NotFound.
    """
    owner = _owner(request, account)
    found = SearchPage(path=f"/{account}", asked=asked, sort=sort, number=number, owner=owner).values(request, caller)
    is_known = owner is not None and (caller.account is not None or _shows_anything(request, caller, owner))
    if owner is None or not is_known:
        raise NotFound("account", account, hint="check the spelling" if caller.account else "or sign in first")
    return page(request, "account.html", {**found, "owner": owner, "manages": manages(request, caller, owner)})


def _owner(request: Request, account: str) -> Account | None:
    try:
        return node_of(request).ports.accounts.by_name(parse_name(account, type_name="AccountName"))
    except InvalidName:
        return None


def _shows_anything(request: Request, caller: Subject, owner: Account) -> bool:
    node = node_of(request)
    narrowed = AskedSearch(account=str(owner.name)).narrowing(node.ports.clock.now())
    return bool(node.datasets.page(narrowed, by=caller, after=None, limit=1))
