"""Copies of a dataset elsewhere: sources, targets, and the last transfers."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from odfabric.errors import OdfError
from odfabric.model.commit import CatalogEntry
from odfabric.model.jobs.job import Job, JobKind
from odfabric.model.jobs.requests import SendWish
from odfabric.model.people.account import Visibility
from odfabric.model.transfer.repository import AliasKind
from odfabric_api.auth import Caller, Subject, WritableDataset, node_of
from odfabric_api.bodies.forms import read_form
from odfabric_api.page_route import PageRoute
from odfabric_api.web.dataset_page import dataset_frame
from odfabric_api.web.job_views import job_view
from odfabric_api.web.pages import dataset_path, page, see_other
from odfabric_api.web.problem_places import places_of
from odfabric_api.web.submitted import submitted

router = APIRouter(route_class=PageRoute, include_in_schema=False)

JOBS_LOOKED_AT = 200
JOBS_SHOWN = 5


@router.get("/{account}/{dataset}/-/copies")
def get_copies(request: Request, entry: WritableDataset, caller: Caller) -> Response:
    """Aliases, repositories that are known, and the last pulls and pushes."""
    return _screen(request, entry, caller)


@router.post("/{account}/{dataset}/-/copies")
async def post_push(request: Request, entry: WritableDataset, caller: Caller) -> Response:
    """Queue a push to `to`.

    With `public` everybody may read a dataset that is new on a node."""
    form = await read_form(request, frozenset({"to", "public"}))

    def act() -> Response:
        visibility = Visibility.PUBLIC if "public" in form else Visibility.PRIVATE
        to = form.get("to", "").strip()
        node = node_of(request)
        node.sharing.names.push_target(entry, to or None, caller)
        job = node.sharing.push(entry, SendWish(to=to or None, visibility=visibility), by=caller)
        return see_other(f"/-/jobs/{job.id}")

    def again(error: OdfError, status: int) -> Response:
        return _screen(request, entry, caller, to=form.get("to", ""), error=error, status=status)

    return await submitted(request, act, again)


@router.post("/{account}/{dataset}/-/copies/forget")
async def post_forget(request: Request, entry: WritableDataset, caller: Caller) -> Response:
    """Forget where the dataset was pushed to; what is there stays."""
    form = await read_form(request, frozenset({"target"}))

    def act() -> Response:
        node_of(request).sharing.repositories.forget_alias(entry, form.get("target", ""), by=caller)
        return see_other(dataset_path(entry, "copies"), notice="forgotten")

    return await submitted(
        request, act, lambda error, status: _screen(request, entry, caller, error=error, status=status)
    )


def _screen(
    request: Request,
    entry: CatalogEntry,
    caller: Subject,
    *,
    to: str = "",
    error: OdfError | None = None,
    status: int = 200,
) -> Response:
    node = node_of(request)
    aliases = node.sharing.repositories.aliases(entry, by=caller)
    values: dict[str, Any] = {
        "pulled_from": [each.target for each in aliases if each.kind is AliasKind.PULL],
        "pushed_to": [each.target for each in aliases if each.kind is AliasKind.PUSH],
        "repositories": [each.name.text for each in node.sharing.names.known(caller)],
        "transfers": [job_view(each) for each in _transfers(request, entry, caller)],
        "to": to,
        "problems": places_of(error),
        "tab": "settings",
    }
    return page(request, "publish/copies.html", {**dataset_frame(request, entry, caller), **values}, status=status)


def _transfers(request: Request, entry: CatalogEntry, caller: Subject) -> list[Job]:
    """The last pushes of the dataset, and pulls of a copy, newest first."""
    browsing = node_of(request).browsing
    found = list(browsing.transfers_seen(entry, limit=JOBS_SHOWN, by=caller))
    if entry.remote_url is not None:
        queued = browsing.jobs_seen(entry, limit=JOBS_LOOKED_AT, by=caller)
        found += [each for each in queued if each.kind is JobKind.PULL]
    return sorted(found, key=lambda each: each.created_at, reverse=True)[:JOBS_SHOWN]
