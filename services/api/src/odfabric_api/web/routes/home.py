"""The first page: browse and search what the visitor may read; and the page of an account, which is the same of one owner."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from odfabric.errors import InvalidName, NotFound
from odfabric.formats.references import parse_dataset_alias, parse_name
from odfabric.model.account import Account
from odfabric.model.metadata import DatasetKind
from odfabric.wiring.browsing import Search
from odfabric_api.auth import Anybody, Subject, manages, node_of
from odfabric_api.page_route import PageRoute
from odfabric_api.web.pages import page

router = APIRouter(route_class=PageRoute, include_in_schema=False)

PAGE_DATASETS = 25
WORDS_MAX = 10

Words = Annotated[str, Query(max_length=200)]
Kind = Annotated[Literal["", "root", "derivative"], Query()]
Sort = Annotated[Literal["updated", "name"], Query()]
After = Annotated[str, Query(max_length=300)]


@router.get("/")
def get_home(
    request: Request, caller: Anybody, q: Words = "", kind: Kind = "", sort: Sort = "updated", after: After = ""
) -> Response:
    """All datasets that the visitor may read; the address is the whole state of the page."""
    found = _found(request, caller, q=q, kind=kind, sort=sort, after=after, account=None)
    return page(request, "home.html", found)


@router.get("/{account}")
def get_account(
    request: Request,
    caller: Anybody,
    account: Annotated[str, Path()],
    q: Words = "",
    kind: Kind = "",
    sort: Sort = "updated",
    after: After = "",
) -> Response:
    """Datasets of one owner. To a stranger an account without public datasets does not exist. Raises NotFound."""
    owner = _owner(request, account)
    found = _found(request, caller, q=q, kind=kind, sort=sort, after=after, account=owner)
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
    return bool(node_of(request).browsing.search(Search(account=owner.name, limit=1), by=caller))


def _found(
    request: Request, caller: Subject, *, q: str, kind: str, sort: str, after: str, account: Account | None
) -> dict[str, Any]:
    words = tuple(q.split()[:WORDS_MAX])
    asked = Search(
        words=words,
        account=account.name if account else None,
        kind=DatasetKind[kind.upper()] if kind else None,
        newest=sort == "updated",
        after=parse_dataset_alias(after) if after else None,
        limit=PAGE_DATASETS + 1,
    )
    datasets = node_of(request).browsing.search(asked, by=caller)
    shown = datasets[:PAGE_DATASETS]
    following = None
    if len(datasets) > PAGE_DATASETS:
        # What changed last is a first look; pages go on in order of names, which do not move while somebody reads.
        last = {"after": str(shown[-1].entry.alias)} if sort == "name" else {}
        following = f"{request.url.path}?{urlencode({'q': q, 'kind': kind, 'sort': 'name', **last})}"
    return {"q": q, "kind": kind, "sort": sort, "datasets": shown, "following": following}
