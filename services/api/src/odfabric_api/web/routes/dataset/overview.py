"""The overview of a dataset."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from odfabric.usecases.verification.verify_block import JOBS_LOOKED_AT
from odfabric.wiring.composed.verifying import VerifyVerbs
from odfabric_api.auth import Caller, ReadableDataset, node_of
from odfabric_api.page_route import PageRoute
from odfabric_api.sessions import public_origin
from odfabric_api.web.dataset_page import dataset_frame
from odfabric_api.web.exports import EXPORT_NAMES
from odfabric_api.web.pages import page

router = APIRouter(route_class=PageRoute, include_in_schema=False)

COLUMNS_SHOWN = 100
REPORTS_SHOWN = 10


@router.get("/{account}/{dataset}")
def get_dataset(
    request: Request,
    entry: ReadableDataset,
    caller: Caller,
    column: Annotated[str, Query(max_length=200, description="Part of the names of columns to show")] = "",
    first: Annotated[int, Query(ge=0, description="Columns left out")] = 0,
) -> Response:
    """What it is, its columns, its publisher's words, its head."""
    frame = dataset_frame(request, entry, caller)
    found = [each for each in frame["about"].columns if column.lower() in each.name.lower()]
    values = {
        "column": column,
        "first": first,
        "columns": found[first : first + COLUMNS_SHOWN],
        "columns_found": len(found),
        "columns_shown": COLUMNS_SHOWN,
        "address": f"{public_origin(request)}/{entry.alias}",
        "origin": public_origin(request),
        "exports": EXPORT_NAMES,
        "verified": VerifyVerbs(node_of(request)).last(entry, by=caller),
        "jobs_looked_at": JOBS_LOOKED_AT,
        "rewritten_inputs": node_of(request).history.rewritten_inputs(entry, by=caller),
        "signer": node_of(request).heads.signer(entry),
        "reports": node_of(request).reports.of_dataset(entry)[:REPORTS_SHOWN],
    }
    return page(request, "overview.html", {**frame, **values, "tab": "overview"})
