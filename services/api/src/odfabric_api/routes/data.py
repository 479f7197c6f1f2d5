"""Routes of a dataset's data: ingest, tail, metadata."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator

from anyio import from_thread, to_thread
from fastapi import APIRouter, Request, Response
from starlette.responses import JSONResponse

from odfabric.domain.access import Action
from odfabric.errors import InvalidRequest, LimitExceeded, Place
from odfabric.model.instant import Instant
from odfabric.usecases.commit_result import CommitResult
from odfabric.usecases.push_data import PushData
from odfabric.usecases.read_tail import ReadTail
from odfabric_api.auth import dataset_of, node_of
from odfabric_api.jobs_answer import accepted, answer_when_done
from odfabric_api.preconditions import if_match_of, media_type_of, wait_s_of

router = APIRouter(tags=["data"])

_DATA_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            media_type: {"schema": {"type": "string", "format": "binary"}}
            for media_type in (
                "application/x-ndjson",
                "application/json",
                "text/csv",
                "application/vnd.apache.parquet",
            )
        },
    }
}


@router.post("/{account}/{dataset}/ingest", summary="Push data", openapi_extra=_DATA_BODY)
async def ingest(request: Request, account: str, dataset: str, sourceName: str | None = None) -> Response:
    """200 once the data is committed, 202 with a job if that takes longer than the caller waits.

    Headers: `Content-Type`, `odf-event-time` (RFC 3339), `Idempotency-Key`, `If-Match` (a block hash), `Prefer`.
    """
    node = node_of(request)
    entry = await to_thread.run_sync(dataset_of, request, account, dataset, Action.WRITE)
    started = time.monotonic()
    push = PushData(
        dataset=entry.id,
        account=str(node.account),
        body=_chunks(request, bytes_max=node.settings.push_body_bytes_max),
        source_name=sourceName,
        media_type=media_type_of(request),
        event_time=_event_time(request),
        idempotency_key=request.headers.get("idempotency-key"),
        if_match=if_match_of(request),
    )
    wait_s = wait_s_of(request, wait_s_max=node.settings.push_wait_s_max)
    found = await to_thread.run_sync(node.accept_push, push)
    if isinstance(found, CommitResult):
        return JSONResponse(found.to_value())
    if wait_s == 0:
        return accepted(found)
    return await answer_when_done(node, found, until=started + wait_s)


@router.get("/{account}/{dataset}/tail", summary="The last rows")
def tail(
    request: Request,
    account: str,
    dataset: str,
    skip: int = 0,
    limit: int = 100,
    dataFormat: str = "JsonAoS",
    schemaFormat: str | None = None,
) -> Response:
    """Rows in order of offset, the last `limit` after leaving out the last `skip`."""
    entry = dataset_of(request, account, dataset, Action.READ)
    asked = ReadTail(skip=skip, limit=limit, data_format=dataFormat, schema_format=schemaFormat)
    return JSONResponse(node_of(request).tail(entry, asked))


@router.get("/{account}/{dataset}/metadata", summary="Current metadata")
def metadata(
    request: Request,
    account: str,
    dataset: str,
    include: str = "seed",
    schemaFormat: str = "ArrowJson",
) -> Response:
    """Parts named by `include`, a comma list of attachments, info, license, refs, schema, seed, vocab."""
    entry = dataset_of(request, account, dataset, Action.READ)
    parts = frozenset(part.strip().lower() for part in include.split(",") if part.strip())
    return JSONResponse({"output": node_of(request).metadata(entry, parts, schemaFormat)})


def _event_time(request: Request) -> Instant | None:
    text = request.headers.get("odf-event-time")
    if text is None:
        return None
    try:
        return Instant.parse(text)
    except ValueError:
        raise InvalidRequest(
            f"not an RFC 3339 time: {text!r}", place=Place(field="odf-event-time"), hint="e.g. 2026-01-31T12:00:00Z"
        ) from None


def _chunks(request: Request, *, bytes_max: int) -> Iterator[bytes]:
    """The body, pulled by the thread that stages it from the event loop that receives it. Raises LimitExceeded."""
    announced = request.headers.get("content-length")
    if announced is not None and int(announced) > bytes_max:
        raise LimitExceeded("the body is too large", limit="push_body_bytes_max", maximum=bytes_max)
    stream = request.stream()
    size = 0
    while True:
        chunk = from_thread.run(_next_chunk, stream)
        if chunk is None:
            return
        size += len(chunk)
        if size > bytes_max:
            raise LimitExceeded("the body is too large", limit="push_body_bytes_max", maximum=bytes_max)
        yield chunk


async def _next_chunk(stream: AsyncIterator[bytes]) -> bytes | None:
    return await anext(stream, None)
