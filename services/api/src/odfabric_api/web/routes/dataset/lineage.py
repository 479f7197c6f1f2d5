"""Where a dataset comes from and what is made of it, as a drawing and as a list."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from odfabric_api.auth import Caller, ReadableDataset, node_of
from odfabric_api.page_route import PageRoute
from odfabric_api.web.dataset_page import dataset_frame
from odfabric_api.web.lineage_drawing import draw
from odfabric_api.web.pages import page

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/{account}/{dataset}/-/lineage")
def get_lineage(
    request: Request, entry: ReadableDataset, caller: Caller, depth: Annotated[int, Query(ge=1, le=10)] = 1
) -> Response:
    """Steps up and down; one by default, the neighbours that people ask for."""
    lineage = node_of(request).browsing.lineage(entry, depth=depth, by=caller)
    values = {"lineage": lineage, "drawing": draw(lineage, entry.id), "depth": depth}
    return page(request, "lineage.html", {**dataset_frame(request, entry, caller), **values, "tab": "lineage"})
