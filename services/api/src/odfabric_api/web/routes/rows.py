"""Rows of a dataset: the state as of a block, or the changelog as it was written."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from odfabric.errors import InvalidRequest, LimitExceeded
from odfabric.formats.multihash import parse_multihash
from odfabric.model.commit import CatalogEntry
from odfabric.usecases.describe_dataset import DatasetDescription
from odfabric.usecases.read_state import ReadState
from odfabric.usecases.read_tail import ReadTail
from odfabric_api.auth import Caller, ReadableDataset, node_of, querying
from odfabric_api.capacity import Capacity
from odfabric_api.page_route import PageRoute
from odfabric_api.web.dataset_page import dataset_frame
from odfabric_api.web.pages import page

router = APIRouter(route_class=PageRoute, include_in_schema=False)

PAGE_ROWS = 50
COLUMNS_SHOWN = 40


@router.get("/{account}/{dataset}/-/rows")
async def get_rows(
    request: Request,
    entry: ReadableDataset,
    caller: Caller,
    view: Annotated[Literal["changelog", "state"], Query()] = "changelog",
    block: Annotated[str, Query(max_length=200, description="As of this block; default: the head")] = "",
    skip: Annotated[int, Query(ge=0)] = 0,
    columns: Annotated[int, Query(ge=0, description="Columns left out")] = 0,
) -> Response:
    """A page of rows; newest first in the changelog, in order of key in the state."""
    capacity: Capacity = request.app.state.capacity

    def render() -> Response:
        frame = dataset_frame(request, entry, caller)
        try:
            found = (
                _state(request, entry, block=block, skip=skip)
                if view == "state"
                else _changelog(request, entry, frame["about"], skip=skip)
            )
        except (InvalidRequest, LimitExceeded) as error:
            found = {"names": [], "rows": [], "total": 0, "refusal": error}
        asked = {"view": view, "block": block, "skip": skip, "limit": PAGE_ROWS}
        values = {**asked, **found, "first_column": columns, "columns_shown": COLUMNS_SHOWN}
        return page(request, "rows.html", {**frame, **values, "tab": "rows"})

    if view == "changelog":
        return await capacity.run_query(render)
    with querying(request, caller):
        return await capacity.run_query(render)


def _changelog(request: Request, entry: CatalogEntry, about: DatasetDescription, *, skip: int) -> dict[str, Any]:
    asked = ReadTail(skip=skip, limit=PAGE_ROWS, data_format="JsonAoA", schema_format=None)
    answer = node_of(request).tail(entry, asked)
    rows = answer["data"]
    assert isinstance(rows, list)
    names = [each.name for each in about.columns]
    operation = about.state.vocabulary.operation_type
    return {
        "names": names,
        "rows": rows[::-1],
        "total": about.rows,
        "operation_at": names.index(operation) if operation in names else None,
        "refusal": None,
    }


def _state(request: Request, entry: CatalogEntry, *, block: str, skip: int) -> dict[str, Any]:
    as_of = parse_multihash(block) if block else None
    asked = ReadState(as_of_block=as_of, skip=skip, limit=PAGE_ROWS, data_format="JsonAoA", schema_format="OdfJson")
    answer: dict[str, Any] = node_of(request).state(entry, asked)
    return {
        "names": [field["name"] for field in answer["schema"]["fields"]],
        "rows": answer["data"],
        "total": answer["rows"],
        "operation_at": None,
        "as_of": {"block": answer["block"], "sequence": answer["sequenceNumber"], "time": answer["systemTime"]},
        "refusal": None,
    }
