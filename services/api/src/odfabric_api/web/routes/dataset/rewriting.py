"""Rewriting history on the settings page: reset and compact, confirmed by name."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from odfabric.errors import InvalidRequest, Place
from odfabric.formats.identifiers.multihash import parse_multihash
from odfabric.model.jobs.requests import CompactRequest
from odfabric.usecases.chain.block_reference import parse_block
from odfabric_api.auth import Caller, RewritableDataset, node_of
from odfabric_api.bodies.forms import read_form
from odfabric_api.page_route import PageRoute
from odfabric_api.web.pages import dataset_path, see_other
from odfabric_api.web.routes.dataset.settings import settings_screen
from odfabric_api.web.submitted import check_typed, submitted

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.post("/{account}/{dataset}/-/reset")
async def post_reset(request: Request, entry: RewritableDataset, caller: Caller) -> Response:
    """Move the head back to the block `to`, a hash or a number, if it is still `head`."""
    form = await read_form(request, frozenset({"to", "head", "confirm"}))

    def act() -> Response:
        check_typed(form, str(entry.alias))
        to = form.get("to", "").strip()
        if not to:
            raise InvalidRequest("a reset goes to one block", place=Place(field="to"), hint="give its number or hash")
        expected = parse_multihash(form.get("head", ""))
        node_of(request).history.reset(entry, parse_block(to), expected=expected, by=caller)
        return see_other(dataset_path(entry, "history"))

    return await submitted(
        request, act, lambda error, status: settings_screen(request, entry, caller, rewriting=error, status=status)
    )


@router.post("/{account}/{dataset}/-/compact")
async def post_compact(request: Request, entry: RewritableDataset, caller: Caller) -> Response:
    """Queue a compaction; with `clear` of all rows."""
    form = await read_form(request, frozenset({"confirm", "clear"}))

    def act() -> Response:
        check_typed(form, str(entry.alias))
        wish = CompactRequest(dataset=entry.id, metadata_only="clear" in form)
        job = node_of(request).history.compact(entry, wish, by=caller)
        return see_other(f"/-/jobs/{job.id}")

    return await submitted(
        request, act, lambda error, status: settings_screen(request, entry, caller, rewriting=error, status=status)
    )
