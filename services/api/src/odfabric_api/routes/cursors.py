"""Routes of cursors: a consumer reads a dataset at its own pace.

A baseline first if it wishes, then every change.
"""

from __future__ import annotations

from typing import Annotated

from anyio import to_thread
from fastapi import APIRouter, Path, Request, Response
from pydantic import Field

from odfabric.usecases.reading.cursors import cursor_value, held_value
from odfabric_api.auth import Caller, FollowableDataset, node_of, querying
from odfabric_api.bodies.json_answer import JsonAnswer
from odfabric_api.bodies.json_body import JsonModel, json_body, read_json
from odfabric_api.bodies.schemas import CursorHeld, CursorList, CursorView, Fetched, answers
from odfabric_api.capacity import Capacity

router = APIRouter(tags=["cursors"])

Consumer = Annotated[str, Path(description="Name of the consumer")]
FENCE_CHARACTERS_MAX = 64
POSITION_CHARACTERS_MAX = 200


class CursorBody(JsonModel):
    """Who reads, and where it begins."""

    consumer: str = Field(
        min_length=1,
        max_length=100,
        description="Letters, digits, dots, hyphens, underscores; one cursor for each name",
    )
    start: str = Field(
        "baseline",
        max_length=100,
        alias="from",
        description="`baseline`: the rows as they are now, then changes; `now`: changes from now on; `start`: all changes; "
        "or the hash of a block: changes after it",
    )


class ClaimBody(JsonModel):
    """The fence of the last holder, if it is known.

    Without it the cursor is had when its lease is over.
    """

    fence: str | None = Field(None, max_length=FENCE_CHARACTERS_MAX)


class FetchBody(JsonModel):
    """Of whom, and at most how many rows."""

    fence: str = Field(max_length=FENCE_CHARACTERS_MAX)
    limit: int | None = Field(None, ge=1, le=2**63 - 1, description="Default and maximum: the node's `fetch_rows_max`")


class AcknowledgeBody(JsonModel):
    """What the consumer has stored safely: all before this position of a fetch."""

    fence: str = Field(max_length=FENCE_CHARACTERS_MAX)
    position: str = Field(max_length=POSITION_CHARACTERS_MAX)


@router.post(
    "/{account}/{dataset}/cursors",
    status_code=201,
    summary="Make a cursor",
    responses=answers(CursorHeld, status=201, text="The cursor, held by its maker"),
    openapi_extra=json_body(CursorBody, required=True),
)
async def create_cursor(request: Request, entry: FollowableDataset, caller: Caller) -> Response:
    """Reading and acknowledging take the fence; either prolongs the lease."""
    node = node_of(request)
    body = await read_json(request, CursorBody, bytes_max=node.settings.json_body_bytes_max)
    made = await to_thread.run_sync(lambda: node.cursors.of(caller).create(entry, body.consumer, start=body.start))
    return JsonAnswer(held_value(made), status_code=201)


@router.get(
    "/{account}/{dataset}/cursors",
    summary="Cursors of a dataset",
    responses=answers(CursorList, text="All of them, by name"),
)
def list_cursors(request: Request, entry: FollowableDataset, caller: Caller) -> Response:
    """Without their fences."""
    return JsonAnswer({"cursors": [cursor_value(found) for found in node_of(request).cursors.of(caller).list(entry)]})


@router.get(
    "/{account}/{dataset}/cursors/{consumer}",
    summary="A cursor",
    responses=answers(CursorView, text="What its consumer has acknowledged"),
)
def get_cursor(request: Request, entry: FollowableDataset, caller: Caller, consumer: Consumer) -> Response:
    """Without its fence."""
    return JsonAnswer(cursor_value(node_of(request).cursors.of(caller).get(entry, consumer)))


@router.post(
    "/{account}/{dataset}/cursors/{consumer}/claim",
    summary="Become the holder of a cursor",
    responses=answers(CursorHeld, text="The cursor with a new fence; the old one is worth nothing any more"),
    openapi_extra=json_body(ClaimBody, required=False),
)
async def claim_cursor(request: Request, entry: FollowableDataset, caller: Caller, consumer: Consumer) -> Response:
    """409 if the fence is not the last one, or without a fence while another holds it.

    Of several claims one succeeds.
    """
    node = node_of(request)
    body = await read_json(request, ClaimBody, bytes_max=node.settings.json_body_bytes_max)
    held = await to_thread.run_sync(lambda: node.cursors.of(caller).claim(entry, consumer, fence=body.fence))
    return JsonAnswer(held_value(held))


@router.post(
    "/{account}/{dataset}/cursors/{consumer}/fetch",
    summary="Read what comes next",
    responses=answers(Fetched, text="An event, or none if there is nothing yet, and the position to acknowledge"),
    openapi_extra=json_body(FetchBody, required=True),
)
async def fetch(request: Request, entry: FollowableDataset, caller: Caller, consumer: Consumer) -> Response:
    """The same event, byte for byte, until it is acknowledged.

    409 if another holds the cursor now.
    """
    node = node_of(request)
    capacity: Capacity = request.app.state.capacity
    body = await read_json(request, FetchBody, bytes_max=node.settings.json_body_bytes_max)
    with querying(request, caller):
        # A baseline is added up when its first portion is read, which takes its time as a query does.
        return await capacity.run_query(
            lambda: JsonAnswer(
                node.cursors.of(caller).fetch(entry, consumer, fence=body.fence, limit=body.limit).to_value()
            )
        )


@router.post(
    "/{account}/{dataset}/cursors/{consumer}/ack",
    summary="Acknowledge what was read",
    responses=answers(CursorView, text="The cursor as it is now"),
    openapi_extra=json_body(AcknowledgeBody, required=True),
)
async def acknowledge(request: Request, entry: FollowableDataset, caller: Caller, consumer: Consumer) -> Response:
    """Doing it again is fine, and an older position is passed over.

    409 if another holds the cursor now.
    """
    node = node_of(request)
    body = await read_json(request, AcknowledgeBody, bytes_max=node.settings.json_body_bytes_max)
    moved = await to_thread.run_sync(
        lambda: node.cursors.of(caller).acknowledge(entry, consumer, fence=body.fence, position=body.position)
    )
    return JsonAnswer(cursor_value(moved))


@router.delete(
    "/{account}/{dataset}/cursors/{consumer}",
    status_code=204,
    summary="Delete a cursor",
    responses=answers(None, status=204),
)
def delete_cursor(request: Request, entry: FollowableDataset, caller: Caller, consumer: Consumer) -> Response:
    """Anyone who holds it."""
    node_of(request).cursors.of(caller).delete(entry, consumer)
    return Response(status_code=204)
