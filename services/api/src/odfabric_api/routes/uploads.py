"""Routes of uploads in chunks or parts: begin, go on after a break, push.

Source: draft-ietf-httpbis-resumable-upload, of which `Upload-Offset`, `Upload-Complete`, `Upload-Limit` and the media type
`application/partial-upload` are; begin and end are requests of their own, because a push needs to know more than bytes.
"""

from __future__ import annotations

import re
import time
from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import Field

from odfabric.errors import InvalidRequest, Place, UnsupportedMediaType
from odfabric.model.instant import NANOS_PER_SECOND
from odfabric.ports.datasets.part_uploads import PARTS_MAX
from odfabric.usecases.ingestion.commit_result import CommitResult
from odfabric.usecases.ingestion.push_data import PushData
from odfabric.usecases.ingestion.resumable_uploads import ResumableUpload
from odfabric.wiring.composed.resumable import ResumableVerbs
from odfabric_api.auth import Caller, PushableDataset, node_of
from odfabric_api.bodies.jobs_answer import accepted, answer_when_done
from odfabric_api.bodies.json_answer import JsonAnswer
from odfabric_api.bodies.json_body import JsonModel, json_body, read_json
from odfabric_api.bodies.schemas import Accepted, PushResult, answers
from odfabric_api.bodies.streamed_body import chunks_that_arrive
from odfabric_api.bodies.upload_schemas import UploadPartsView, UploadView
from odfabric_api.capacity import Capacity
from odfabric_api.preconditions import IF_MATCH, flag_of, header_parameters, if_match_of, instant_of, wait_s_of

router = APIRouter(tags=["uploads"])

PARTIAL_UPLOAD = "application/partial-upload"
UploadId = Annotated[str, Path(description="Id of the upload")]
_OFFSET = re.compile(r"\d{1,18}", re.ASCII)


class BeginBody(JsonModel):
    """Bytes of the whole file, and its hash if an upload that broke off shall go on."""

    size: int = Field(ge=1, le=2**53)
    digest: str | None = Field(
        None,
        max_length=100,
        description="As at the end; an open upload of this file to this dataset is the answer then",
    )
    parts: bool = Field(
        False,
        description="Send parts to the object store by signed URLs, if the node has one that clients reach; "
        "`partBytes` in the answer says so",
    )


class SentPart(JsonModel):
    """A part of an upload as it was sent."""

    number: int = Field(ge=1, le=PARTS_MAX)
    tag: str = Field(max_length=200, description="`ETag` of the answer of the object store")


class FinishBody(JsonModel):
    """What the upload is, and that it is whole."""

    digest: str = Field(max_length=100, description="`sha-256=` or `sha3-256=` and the hash of the file in hexadecimal")
    media_type: str | None = Field(None, alias="mediaType", max_length=200)
    source_name: str | None = Field(None, alias="sourceName", max_length=1000)
    file_name: str = Field("upload", alias="fileName", max_length=200, description="What errors call the data")
    parts: list[SentPart] = Field(
        default_factory=list, max_length=PARTS_MAX, description="All parts of an upload in parts; none of one in chunks"
    )


_CHUNK: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {PARTIAL_UPLOAD: {"schema": {"type": "string", "format": "binary"}}},
    },
    **header_parameters({"Upload-Offset": "Bytes that are stored already: where this chunk begins"}),
}
_FINISH: dict[str, Any] = {
    **json_body(FinishBody, required=True),
    **header_parameters(
        {
            "odf-event-time": "Event time of rows that have none, RFC 3339",
            "Idempotency-Key": "1 to 255 characters; a repeated push with the same key and file is the same push",
            "odf-allow-shrink": "`true` confirms that a Snapshot loses most of its rows",
            "Prefer": "`respond-async`: 202 at once; `wait=N`: 202 after N seconds",
        },
        IF_MATCH,
    ),
}


@router.post(
    "/{account}/{dataset}/uploads",
    status_code=201,
    summary="Begin an upload in chunks",
    responses=answers(UploadView, status=201, text="The empty upload", also={200: UploadView}),
    openapi_extra=json_body(BeginBody, required=True),
)
async def begin_upload(request: Request, entry: PushableDataset, caller: Caller) -> Response:
    """For files that are too large for one request, or for a connection that breaks.

    With `digest`, an upload of the same file that has some bytes already is the answer (200): go on at its `offset`. With `parts`, an
    answer with `partBytes` takes no chunks: `GET .../parts` says where its parts go.
    """
    node = node_of(request)
    body = await read_json(request, BeginBody, bytes_max=node.settings.json_body_bytes_max)
    upload = await to_thread.run_sync(
        lambda: ResumableVerbs(node).begin(entry, body.size, by=caller, digest=body.digest, in_parts=body.parts)
    )
    answer = _shown(request, upload, status_code=200 if upload.offset else 201)
    answer.headers["location"] = f"/{entry.alias}/uploads/{upload.id}"
    return answer


@router.head("/{account}/{dataset}/uploads/{upload_id}", include_in_schema=False)
@router.get(
    "/{account}/{dataset}/uploads/{upload_id}",
    summary="An upload in chunks",
    responses=answers(UploadView, text="How far it is"),
)
def show_upload(request: Request, entry: PushableDataset, caller: Caller, upload_id: UploadId) -> Response:
    """After a break: the next chunk begins at `offset`."""
    return _shown(request, ResumableVerbs(node_of(request)).find(entry, upload_id, by=caller))


@router.get(
    "/{account}/{dataset}/uploads/{upload_id}/parts",
    summary="Parts of an upload, with URLs for those that are missing",
    responses=answers(UploadPartsView, text="Parts by number"),
)
def list_upload_parts(
    request: Request,
    entry: PushableDataset,
    caller: Caller,
    upload_id: UploadId,
    first: Annotated[int, Query(ge=1, le=PARTS_MAX, description="Number of the first part in the answer")] = 1,
) -> Response:
    """PUT `size` bytes from `offset` on to the `url` of a part; keep the `ETag`.

    A URL allows that and nothing else, for a while; ask again for another one.
    """
    plan, found = ResumableVerbs(node_of(request)).parts(entry, upload_id, first=first, by=caller)
    following = found[-1].number + 1 if found else plan.count + 1
    value = {
        "count": plan.count,
        "partBytes": plan.part_bytes,
        "parts": [
            {
                "number": part.number,
                "offset": part.offset,
                "size": part.size,
                "tag": part.tag,
                "url": part.url,
                "urlExpiresAt": str(part.url_expires_at) if part.url_expires_at else None,
            }
            for part in found
        ],
        "next": following if following <= plan.count else None,
    }
    return JsonAnswer(value, headers={"cache-control": "no-store"})


@router.patch(
    "/{account}/{dataset}/uploads/{upload_id}",
    summary="Send the next chunk of an upload",
    responses=answers(UploadView, text="How far it is now"),
    openapi_extra=_CHUNK,
)
async def append_to_upload(request: Request, entry: PushableDataset, caller: Caller, upload_id: UploadId) -> Response:
    """What has arrived when a connection breaks is kept.

    409 with the offset in its hint if the chunk does not follow.
    """
    offset = _offset_of(request)
    node = node_of(request)
    capacity: Capacity = request.app.state.capacity
    chunks = chunks_that_arrive(request, bytes_max=node.settings.upload_chunk_bytes_max, limit="upload_chunk_bytes_max")
    with capacity.pushes.taking_one():
        upload = await capacity.run_push(
            lambda: ResumableVerbs(node).append(entry, upload_id, chunks, offset=offset, by=caller)
        )
    return _shown(request, upload)


@router.delete(
    "/{account}/{dataset}/uploads/{upload_id}",
    status_code=204,
    summary="Delete an upload",
    responses=answers(None, status=204, text="It is gone"),
)
def delete_upload(request: Request, entry: PushableDataset, caller: Caller, upload_id: UploadId) -> Response:
    """An unfinished upload is deleted by itself a day after it was begun."""
    ResumableVerbs(node_of(request)).drop(entry, upload_id, by=caller)
    return Response(status_code=204)


@router.post(
    "/{account}/{dataset}/uploads/{upload_id}/ingest",
    summary="Push an upload",
    responses=answers(PushResult, text="Committed", also={202: Accepted}),
    openapi_extra=_FINISH,
)
async def ingest_upload(request: Request, entry: PushableDataset, caller: Caller, upload_id: UploadId) -> Response:
    """As a push of the whole file, if its hash is the announced one.

    Repeated it is the same push.
    """
    node = node_of(request)
    capacity: Capacity = request.app.state.capacity
    started = time.monotonic()
    body = await read_json(request, FinishBody, bytes_max=node.settings.json_body_bytes_max)
    event_time = request.headers.get("odf-event-time")
    push = PushData(
        dataset=entry.id,
        body=iter(()),
        file_name=body.file_name,
        source_name=body.source_name,
        media_type=body.media_type,
        event_time=None if event_time is None else instant_of("odf-event-time", event_time),
        idempotency_key=request.headers.get("idempotency-key"),
        if_match=if_match_of(request),
        allow_shrink=flag_of(request, "odf-allow-shrink"),
    )
    wait_s = wait_s_of(request, wait_s_max=node.settings.push_wait_s_max)
    with capacity.pushes.taking_one():
        found = await capacity.run_push(
            lambda: ResumableVerbs(node).finish(
                push,
                entry,
                upload_id,
                body.digest,
                by=caller,
                tags={part.number: part.tag.strip('"') for part in body.parts},
            )
        )
        if isinstance(found, CommitResult):
            return JsonAnswer(found.to_value())
        if wait_s == 0:
            return accepted(found, preference="respond-async")
        return await answer_when_done(request, found, caller, until=started + wait_s)


def _offset_of(request: Request) -> int:
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != PARTIAL_UPLOAD:
        raise UnsupportedMediaType(f"Unsupported media type: {media_type!r}", hint=f"send {PARTIAL_UPLOAD}")
    text = request.headers.get("upload-offset", "")
    if _OFFSET.fullmatch(text) is None:
        raise InvalidRequest(
            "a chunk says where it begins",
            place=Place(field="upload-offset"),
            hint="Upload-Offset: 0 for the first one",
        )
    return int(text)


def _shown(request: Request, upload: ResumableUpload, *, status_code: int = 200) -> Response:
    node = node_of(request)
    chunk_bytes_max = node.settings.upload_chunk_bytes_max
    left_s = max(0, (upload.expires_at.epoch_ns - node.ports.clock.now().epoch_ns) // NANOS_PER_SECOND)
    value = {
        "id": upload.id,
        "offset": upload.offset,
        "size": upload.size,
        "complete": upload.complete,
        "job": upload.job_id,
        "expiresAt": str(upload.expires_at),
        "chunkBytesMax": chunk_bytes_max,
        "partBytes": upload.plan.part_bytes if upload.plan else None,
    }
    headers = {
        "upload-offset": str(upload.offset),
        "upload-complete": "?1" if upload.complete else "?0",
        "upload-limit": f"max-size={node.settings.upload_bytes_max}, max-append-size={chunk_bytes_max}, max-age={left_s}",
        "cache-control": "no-store",
    }
    return JsonAnswer(value, status_code=status_code, headers=headers)
