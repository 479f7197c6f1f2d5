"""The route of a dataset's signed heads: the log of its moves as people read it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from odfabric_api.auth import ReadableDataset, node_of
from odfabric_api.bodies.json_answer import JsonAnswer
from odfabric_api.bodies.schemas import answers
from odfabric_api.bodies.transfer_schemas import HeadsAnswer

router = APIRouter(tags=["transfer"])


@router.get(
    "/{account}/{dataset}/heads",
    summary="The signed log of a dataset's head",
    responses=answers(HeadsAnswer, text="Who signs, and moves of the head, newest first"),
)
def heads(
    request: Request,
    entry: ReadableDataset,
    before: Annotated[int | None, Query(ge=0, description="Only entries with smaller numbers")] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
) -> Response:
    """404 for a dataset whose heads nobody has signed."""
    return JsonAnswer(node_of(request).heads.described(entry, before=before, limit=limit).to_value())
