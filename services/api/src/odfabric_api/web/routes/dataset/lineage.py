"""Where a dataset comes from and what is made of it, as a drawing and as a list."""

from __future__ import annotations

from typing import Annotated

from anyio import to_thread
from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from odfabric.model.identity import DatasetId
from odfabric.usecases.datasets.read_lineage import Lineage
from odfabric_api.auth import Caller, ReadableDataset, node_of, querying
from odfabric_api.capacity import Capacity
from odfabric_api.page_route import PageRoute
from odfabric_api.web.dataset_page import dataset_frame
from odfabric_api.web.lineage_drawing import draw
from odfabric_api.web.pages import page

router = APIRouter(route_class=PageRoute, include_in_schema=False)


DERIVATIVES_MAX = 10
"""Derivatives of a page whose columns are explained: each is a call to the engine."""


@router.get("/{account}/{dataset}/-/lineage")
async def get_lineage(
    request: Request,
    entry: ReadableDataset,
    caller: Caller,
    depth: Annotated[int, Query(ge=1, le=10)] = 1,
    columns: Annotated[bool, Query(description="Ask the engine which columns come from which")] = False,
) -> Response:
    """Steps up and down; one by default, the neighbours that people ask for.

    Columns follow in a second request, for the engine has to look at the queries.
    """
    node = node_of(request)

    def render() -> Response:
        lineage = node.browsing.lineage(entry, depth=depth, by=caller)
        targets = sorted({edge.target for edge in lineage.edges}, key=lambda each: _nearness(lineage, each))
        asked = targets[:DERIVATIVES_MAX] if columns else []
        values = {
            "lineage": lineage,
            "drawing": draw(lineage, entry.id),
            "depth": depth,
            "columns": columns,
            "columns_of": [node.provenance.columns(lineage.entries[each], by=caller) for each in asked],
            "columns_left": max(0, len(targets) - DERIVATIVES_MAX),
        }
        return page(request, "lineage.html", {**dataset_frame(request, entry, caller), **values, "tab": "lineage"})

    if not columns:
        return await to_thread.run_sync(render)
    capacity: Capacity = request.app.state.capacity
    with querying(request, caller):
        return await capacity.run_query(render)


def _nearness(lineage: Lineage, dataset: DatasetId) -> tuple[int, str]:
    """The dataset itself first, then its neighbours."""
    return abs(lineage.levels[dataset]), str(lineage.entries[dataset].alias)
