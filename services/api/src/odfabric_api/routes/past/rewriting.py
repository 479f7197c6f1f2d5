"""Routes that rewrite the history of a dataset on purpose, and say that it was."""

from __future__ import annotations

from functools import partial

from anyio import to_thread
from fastapi import APIRouter, Request, Response
from pydantic import Field

from odfabric.errors import InvalidRequest, Place
from odfabric.model.instant import Instant
from odfabric.model.jobs.requests import CompactRequest
from odfabric.model.multihash import Multihash
from odfabric.usecases.chain.block_reference import parse_block
from odfabric_api.auth import Caller, ReadableDataset, RewritableDataset, WritableDataset, node_of
from odfabric_api.bodies.history_schemas import HistoryAnswer, ResetAnswer, WatermarkAnswer
from odfabric_api.bodies.jobs_answer import accepted
from odfabric_api.bodies.json_answer import JsonAnswer
from odfabric_api.bodies.json_body import JsonModel, json_body, read_json
from odfabric_api.bodies.schemas import Accepted, answers
from odfabric_api.preconditions import IF_MATCH, header_parameters, if_match_of

router = APIRouter(tags=["history"])


class ResetBody(JsonModel):
    """The block that the head goes back to, by its hash or its number."""

    to: str | None = Field(None, max_length=200, description="A block of the chain, by its hash or number")
    to_sequence: int | None = Field(None, alias="toSequence", ge=0, description="Sequence number of that block")


class CompactBody(JsonModel):
    """What a compaction makes."""

    metadata_only: bool = Field(
        False, alias="metadataOnly", description="Drop all rows; sources, transform and schema stay"
    )
    slice_bytes_max: int | None = Field(
        None,
        alias="sliceBytesMax",
        ge=1,
        description="Largest slice that is made, in bytes; default: as the node is set",
    )
    slice_records_max: int | None = Field(
        None, alias="sliceRecordsMax", ge=1, description="Most records of a slice that is made"
    )


class WatermarkBody(JsonModel):
    """The time up to which all rows are there."""

    watermark: str = Field(max_length=64, description="RFC 3339 time")
    force: bool = Field(
        False,
        description="Also a time that is further ahead than `watermark_ahead_s_max`; takes the right to rewrite history",
    )


@router.get(
    "/{account}/{dataset}/history",
    summary="Whether history was rewritten",
    responses=answers(HistoryAnswer, text="Rewrites, newest first"),
)
def get_history(request: Request, entry: ReadableDataset, caller: Caller) -> Response:
    """Resets and compactions of the dataset, and of inputs that it has not followed.

    A derivative with `rewrittenInputs` keeps its rows and takes nothing new until it is pulled with `recompute`.
    """
    history = node_of(request).history
    return JsonAnswer(
        {
            "rewrites": [rewrite.to_value() for rewrite in history.rewrites(entry)],
            "rewrittenInputs": [one.to_value() for one in history.rewritten_inputs(entry, by=caller)],
        }
    )


@router.post(
    "/{account}/{dataset}/reset",
    summary="Move the head back to an earlier block",
    responses=answers(ResetAnswer, text="What is out of the chain"),
    openapi_extra={**json_body(ResetBody, required=True), **header_parameters(IF_MATCH)},
)
async def reset(request: Request, entry: RewritableDataset, caller: Caller) -> Response:
    """`If-Match` names the head that the caller has seen, and is required.

    Blocks above are out of the chain; consumers get a reset event, and derivatives that have read them are marked.
    """
    node = node_of(request)
    expected = if_match_of(request)
    body = await read_json(request, ResetBody, bytes_max=node.settings.json_body_bytes_max)
    if expected is None:
        raise InvalidRequest(
            "a reset takes If-Match",
            place=Place(field="if-match"),
            hint="send the head that you have seen, a block hash",
        )
    to = _target(body)
    done = await to_thread.run_sync(lambda: node.history.reset(entry, to, expected=expected, by=caller))
    return JsonAnswer(done.to_value())


@router.post(
    "/{account}/{dataset}/compact",
    status_code=202,
    summary="Compact a dataset",
    responses=answers(Accepted, status=202, text="The job"),
    openapi_extra=json_body(CompactBody, required=False),
)
async def compact(request: Request, entry: RewritableDataset, caller: Caller) -> Response:
    """The same rows and offsets in fewer, larger slices, in a chain of new blocks.

    202 with the job; its result is `{oldHead, head, blocksBefore, blocksAfter, rows, upToDate}`.
    """
    node = node_of(request)
    body = await read_json(request, CompactBody, bytes_max=node.settings.json_body_bytes_max)
    wish = CompactRequest(
        dataset=entry.id,
        metadata_only=body.metadata_only,
        slice_bytes_max=body.slice_bytes_max,
        slice_records_max=body.slice_records_max,
    )
    return accepted(await to_thread.run_sync(partial(node.history.compact, entry, wish, by=caller)))


@router.put(
    "/{account}/{dataset}/watermark",
    summary="Set the watermark of a root dataset",
    responses=answers(WatermarkAnswer, text="The watermark in force"),
    openapi_extra=json_body(WatermarkBody, required=True),
)
async def put_watermark(request: Request, entry: WritableDataset, caller: Caller) -> Response:
    """An earlier watermark changes nothing, and `upToDate` is true."""
    node = node_of(request)
    body = await read_json(request, WatermarkBody, bytes_max=node.settings.json_body_bytes_max)
    try:
        watermark = Instant.parse(body.watermark)
    except ValueError as error:
        raise InvalidRequest(str(error), place=Place(field="watermark"), hint="e.g. 2026-01-31T12:00:00Z") from None

    def act() -> Response:
        done = node.history.set_watermark(entry, watermark, force=body.force, by=caller)
        return JsonAnswer(done.to_value(node.datasets.head(entry)))

    return await to_thread.run_sync(act)


def _target(body: ResetBody) -> Multihash | int:
    match body.to, body.to_sequence:
        case str(text), None:
            return parse_block(text)
        case None, int(number):
            return number
        case _:
            raise InvalidRequest("a reset goes to one block", place=Place(field="to"), hint="give `to` or `toSequence`")
