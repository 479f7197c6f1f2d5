"""Routes of a dataset's data: ingest, tail, metadata."""

from __future__ import annotations

import time
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from odfabric.model.commit import CatalogEntry
from odfabric.model.instant import Instant
from odfabric.model.jobs.job import Job
from odfabric.usecases.ingestion.commit_result import CommitResult
from odfabric.usecases.ingestion.push_data import PushData
from odfabric.usecases.reading.read_tail import ReadTail
from odfabric.wiring.composed.uploads import UploadVerbs
from odfabric_api.auth import Caller, PushableDataset, ReadableDataset, Subject, node_of
from odfabric_api.bodies.jobs_answer import accepted, answer_when_done
from odfabric_api.bodies.json_answer import JsonAnswer
from odfabric_api.bodies.moments import AS_AT, system_moment_of
from odfabric_api.bodies.row_formats import DATA_FORMAT, SCHEMA_FORMAT
from odfabric_api.bodies.schemas import Accepted, Metadata, PushResult, Rows, TrialResult, answers
from odfabric_api.bodies.streamed_body import body_chunks
from odfabric_api.capacity import Capacity
from odfabric_api.preconditions import (
    IF_MATCH,
    flag_of,
    header_parameters,
    if_match_of,
    instant_of,
    media_type_of,
    wait_s_of,
)

router = APIRouter(tags=["data"])

_PUSH_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "Data; without Content-Type it is read as the source declares",
        "content": {
            media_type: {"schema": {"type": "string", "format": "binary"}}
            for media_type in (
                "application/x-ndjson",
                "application/json",
                "application/geo+json",
                "application/x-ndgeojson",
                "text/csv",
                "application/vnd.apache.parquet",
                "application/vnd.shp",
            )
        },
    },
    **header_parameters(
        {
            "odf-event-time": "Event time of rows that have none, RFC 3339",
            "Idempotency-Key": "1 to 255 characters; a repeated push with the same key and body is the same push",
            "Odf-Allow-Shrink": "`true`: a Snapshot may lose more of its rows than `snapshot_shrink_max`",
            "Prefer": "`respond-async`: 202 at once; `wait=N`: 202 after N seconds",
        },
        IF_MATCH,
    ),
}


@router.post(
    "/{account}/{dataset}/ingest",
    summary="Push data",
    responses=answers(PushResult | TrialResult, text="Committed, or tried", also={202: Accepted}),
    openapi_extra=_PUSH_BODY,
)
async def ingest(
    request: Request,
    entry: PushableDataset,
    caller: Caller,
    source_name: Annotated[str | None, Query(alias="sourceName", description="Of several push sources, which")] = None,
    dry_run: Annotated[
        bool, Query(alias="dryRun", description="Commit nothing; say what would become of the rows")
    ] = False,
) -> Response:
    """200 once the data is committed, 202 with a job if the caller's wait ends first.

    With `dryRun` nothing is committed: the answer has `rows` read, records by `operations`, `changes`, a `sample` of records; or the
    `problem` for which the push would be refused, and the first of all values that are.

    Blocks, offsets and rows are those of the commit, which may hold other pushes that arrived at the same time.
    """
    node = node_of(request)
    capacity: Capacity = request.app.state.capacity
    started = time.monotonic()
    wait_s = wait_s_of(request, wait_s_max=node.settings.push_wait_s_max)
    if dry_run:
        return await _tried(request, entry, caller, source_name, until=started + wait_s)
    push = PushData(
        dataset=entry.id,
        body=body_chunks(request, bytes_max=node.settings.push_body_bytes_max),
        source_name=source_name,
        media_type=media_type_of(request),
        event_time=_event_time(request),
        idempotency_key=request.headers.get("idempotency-key"),
        if_match=if_match_of(request),
        allow_shrink=flag_of(request, "odf-allow-shrink"),
    )
    with capacity.pushes.taking_one():
        found = await capacity.run_push(lambda: node.requests.push(push, by=caller))
        if isinstance(found, CommitResult):
            return JsonAnswer(found.to_value())
        if wait_s == 0:
            return accepted(found, preference="respond-async")
        return await answer_when_done(request, found, caller, until=started + wait_s)


@router.get("/{account}/{dataset}/tail", summary="The last rows", responses=answers(Rows, text="The rows"))
def tail(
    request: Request,
    entry: ReadableDataset,
    skip: Annotated[int, Query(ge=0)] = 0,
    limit: Annotated[int, Query(ge=0)] = 100,
    as_at: Annotated[str | None, AS_AT] = None,
    corrects: Annotated[
        bool, Query(description="Say which record each correction or withdrawal among the rows is about")
    ] = False,
    data_format: Annotated[str, DATA_FORMAT] = "JsonAoS",
    schema_format: Annotated[str | None, SCHEMA_FORMAT] = None,
) -> Response:
    """Rows in order of offset, the last `limit` after leaving out the last `skip`.

    With `asAt` the last ones known then; the answer names their `block`. With `corrects` it has for each correction and withdrawal, by its
    offset, the record that it is about: of a new row the old half before it, of a withdrawal the record that wrote the row.
    """
    asked = ReadTail(
        skip=skip,
        limit=limit,
        data_format=data_format,
        schema_format=schema_format,
        as_at=system_moment_of(as_at),
        corrects=corrects,
    )
    return JsonAnswer(node_of(request).rows.tail(entry, asked))


@router.get("/{account}/{dataset}/metadata", summary="Current metadata", responses=answers(Metadata, text="The parts"))
def metadata(
    request: Request,
    entry: ReadableDataset,
    include: Annotated[
        str, Query(description="Comma list of Attachments, Info, License, Refs, Schema, Seed, Vocab")
    ] = "seed",
    schema_format: Annotated[str, Query(alias="schemaFormat")] = "ArrowJson",
) -> Response:
    """Parts of the current metadata; what the chain does not have is left out."""
    parts = frozenset(part.strip().lower() for part in include.split(",") if part.strip())
    return JsonAnswer({"output": node_of(request).datasets.metadata(entry, parts, schema_format)})


async def _tried(
    request: Request, entry: CatalogEntry, caller: Subject, source_name: str | None, *, until: float
) -> Response:
    """What a push would do."""
    node = node_of(request)
    capacity: Capacity = request.app.state.capacity
    chunks = body_chunks(request, bytes_max=node.settings.push_body_bytes_max)
    media_type = media_type_of(request)

    def take() -> Job:
        return UploadVerbs(node).try_push(
            entry, chunks, file_name="body", source_name=source_name, media_type=media_type, by=caller
        )

    with capacity.pushes.taking_one():
        return await answer_when_done(request, await capacity.run_push(take), caller, until=until)


def _event_time(request: Request) -> Instant | None:
    text = request.headers.get("odf-event-time")
    return None if text is None else instant_of("odf-event-time", text)
