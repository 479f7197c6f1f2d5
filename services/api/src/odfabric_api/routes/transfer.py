"""Routes of the Simple Transfer Protocol: ref, blocks, data, checkpoints.

Objects never change, so their entity tag is their name and any range of one may be asked for: other tools read Parquet that way.
Whether the caller may have the object is decided before any condition is looked at.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Path, Query, Request, Response
from starlette.responses import PlainTextResponse, StreamingResponse

from odfabric.errors import InvalidRequest, Place
from odfabric.formats.blocks.block_stretch import HEADER, MEDIA_TYPE
from odfabric.formats.heads.head_log import SEGMENT_BYTES_MAX
from odfabric.formats.identifiers.multihash import parse_multihash
from odfabric.model.commit import CatalogEntry
from odfabric.usecases.transfer.serve_objects import ServedObject
from odfabric_api.auth import ReadableDataset, WritableDataset, node_of, recheck
from odfabric_api.bodies.json_answer import JsonAnswer
from odfabric_api.bodies.json_body import read_body
from odfabric_api.bodies.schemas import answers
from odfabric_api.bodies.streamed_body import body_chunks
from odfabric_api.bodies.transfer_schemas import HeadsAnswer
from odfabric_api.capacity import Capacity
from odfabric_api.preconditions import (
    BLOCKS_AT_ONCE,
    IF_NONE_MATCH,
    RANGE,
    blocks_at_once,
    header_parameters,
    is_known,
    range_of,
)
from odfabric_api.problems import plain_problem

router = APIRouter(tags=["transfer"])

CHUNK_BYTES = 256 * 1024
OCTETS = "application/octet-stream"
FOREVER = {"cache-control": "private, max-age=31536000, immutable", "accept-ranges": "bytes"}

ObjectName = Annotated[str, Path(description="Multihash of the object, `f1620` and 64 digits")]
RefName = Annotated[
    str, Path(description="`head`; `head.log`, `head.log.<number>` and `head.sig` of a dataset whose heads are signed")
]

_REF_ANSWERS = {
    **answers(None),
    200: {"description": "The hash, without a line end", "content": {"text/plain": {"schema": {"type": "string"}}}},
    206: {"description": "The asked range of the head log", "content": {"text/plain": {"schema": {"type": "string"}}}},
    304: {"description": "The caller has it"},
}
_BYTES: dict[str, Any] = {OCTETS: {"schema": {"type": "string", "format": "binary"}}}
_OBJECT_ANSWERS = {
    **answers(None),
    200: {"description": "The stored bytes", "content": _BYTES},
    206: {"description": "The asked range", "content": _BYTES},
    304: {"description": "The caller has it"},
    307: {"description": "The bytes are at a link that lives shortly (objects in S3)"},
}
_BLOCK_ANSWERS = {
    **_OBJECT_ANSWERS,
    200: {
        "description": "The stored bytes; several blocks, if that was asked for",
        "content": {**_BYTES, MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}},
    },
}
_KEPT = {
    **answers(None),
    200: {"description": "It is kept", "content": {"text/plain": {"schema": {"type": "string", "maxLength": 0}}}},
}
_UPLOAD: dict[str, Any] = {"requestBody": {"required": True, "content": _BYTES}}
_REF_HEADERS = header_parameters(IF_NONE_MATCH, RANGE)
_OBJECT_HEADERS = header_parameters(IF_NONE_MATCH, RANGE)


@router.head("/{account}/{dataset}/refs/{name}", include_in_schema=False)
@router.get(
    "/{account}/{dataset}/refs/{name}",
    summary="The head of a dataset",
    responses=_REF_ANSWERS,
    openapi_extra=_REF_HEADERS,
)
def get_ref(request: Request, entry: ReadableDataset, name: RefName) -> Response:
    """Text of the head's hash.

    `head.log` and `head.sig` are the signed log of its moves.
    """
    if name != "head":
        return _log_file(request, entry, name)
    head = str(node_of(request).serving.head(entry))
    headers = {"etag": f'"{head}"', "cache-control": "no-cache"}
    if is_known(request, headers["etag"]):
        return Response(status_code=304, headers=headers)
    return PlainTextResponse(head, headers=headers)


@router.put(
    "/{account}/{dataset}/refs/{name}",
    summary="Continue the head log",
    responses=_KEPT,
    openapi_extra={"requestBody": {"required": True, "content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def put_ref(request: Request, entry: WritableDataset, name: RefName) -> Response:
    """After the blocks that it signs.

    Full segments first, oldest first, then `head.log`, then `head.sig`.
    """
    node = node_of(request)
    body = await read_body(request, bytes_max=SEGMENT_BYTES_MAX, limit="ref_bytes_max")
    await to_thread.run_sync(lambda: node.heads.accept(entry, f"refs/{name}", body))
    return PlainTextResponse("")


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


@router.head("/{account}/{dataset}/blocks/{name}", include_in_schema=False)
@router.get(
    "/{account}/{dataset}/blocks/{name}",
    summary="A metadata block",
    responses=_BLOCK_ANSWERS,
    openapi_extra=header_parameters(IF_NONE_MATCH, RANGE, BLOCKS_AT_ONCE),
)
def get_block(request: Request, entry: ReadableDataset, name: ObjectName) -> Response:
    """The stored bytes.

    With `odf-blocks: N` the answer has the block and up to N - 1 of its predecessors: each block's length in four bytes, least significant first,
    then its bytes. Servers that do not know the header answer with the one block.
    """
    count = blocks_at_once(request) if request.method == "GET" else None
    if count is not None:
        body = node_of(request).serving.stretch(entry, parse_multihash(name), count=count)
        return Response(body, media_type=MEDIA_TYPE, headers={"cache-control": "no-store", "vary": HEADER})
    answer = _object(request, entry, "blocks", name)
    answer.headers["vary"] = HEADER
    return answer


@router.head("/{account}/{dataset}/data/{name}", include_in_schema=False)
@router.get(
    "/{account}/{dataset}/data/{name}",
    summary="A data slice",
    responses=_OBJECT_ANSWERS,
    openapi_extra=_OBJECT_HEADERS,
)
def get_data(request: Request, entry: ReadableDataset, name: ObjectName) -> Response:
    """A Parquet file."""
    return _object(request, entry, "data", name)


@router.head("/{account}/{dataset}/checkpoints/{name}", include_in_schema=False)
@router.get(
    "/{account}/{dataset}/checkpoints/{name}",
    summary="A checkpoint",
    responses=_OBJECT_ANSWERS,
    openapi_extra=_OBJECT_HEADERS,
)
def get_checkpoint(request: Request, entry: ReadableDataset, name: ObjectName) -> Response:
    """An opaque file."""
    return _object(request, entry, "checkpoints", name)


@router.put(
    "/{account}/{dataset}/data/{name}",
    summary="Upload a data slice",
    responses=_KEPT,
    openapi_extra=_UPLOAD,
)
async def put_data(request: Request, entry: WritableDataset, name: ObjectName) -> Response:
    """Before the blocks that name it come. Nobody sees it until a chain names it."""
    return await _uploaded(request, entry, "data", name)


@router.put(
    "/{account}/{dataset}/checkpoints/{name}",
    summary="Upload a checkpoint",
    responses=_KEPT,
    openapi_extra=_UPLOAD,
)
async def put_checkpoint(request: Request, entry: WritableDataset, name: ObjectName) -> Response:
    """Before the blocks that name it come. Nobody sees it until a chain names it."""
    return await _uploaded(request, entry, "checkpoints", name)


async def _uploaded(request: Request, entry: CatalogEntry, folder: str, name: str) -> Response:
    node, object_hash = node_of(request), parse_multihash(name)
    announced = request.headers.get("content-length")
    if announced is None:
        raise InvalidRequest(
            "an upload says how long it is", place=Place(field="content-length"), hint="send Content-Length"
        )
    arriving = body_chunks(request, bytes_max=node.settings.object_bytes_max, limit="object_bytes_max")
    chunks = _while_allowed(arriving, recheck(request))
    capacity: Capacity = request.app.state.capacity
    with capacity.pushes.taking_one():
        await capacity.run_push(
            lambda: node.sharing.accept_object(entry, folder, object_hash, chunks, size=int(announced))
        )
    return PlainTextResponse("")


def _while_allowed(chunks: Iterator[bytes], check: Callable[[], None]) -> Iterator[bytes]:
    """Chunks of an upload, until the right to send them is withdrawn.

    Raises as `check`.
    """
    for chunk in chunks:
        check()
        yield chunk
    check()


def _log_file(request: Request, entry: CatalogEntry, name: str) -> Response:
    """A file of the head log, whole or a range of it."""
    data = node_of(request).heads.file(entry, f"refs/{name}")
    headers = {
        "etag": f'"{hashlib.sha256(data).hexdigest()}"',
        "cache-control": "no-cache",
        "accept-ranges": "bytes",
    }
    if is_known(request, headers["etag"]):
        return Response(status_code=304, headers=headers)
    asked = range_of(request, headers["etag"], len(data)) if request.method == "GET" else None
    begin, end = asked or (0, len(data))
    if asked is not None and begin == end:
        message = f"the file has {len(data)} bytes"
        return plain_problem(416, "range-not-satisfiable", message, {"content-range": f"bytes */{len(data)}"})
    if asked is not None:
        headers["content-range"] = f"bytes {begin}-{end - 1}/{len(data)}"
    return PlainTextResponse(data[begin:end], 200 if asked is None else 206, headers=headers)


def _object(request: Request, entry: CatalogEntry, folder: str, name: str) -> Response:
    object_hash = parse_multihash(name)
    served = node_of(request).serving.object(entry, folder, object_hash)
    headers = {"etag": f'"{object_hash}"', **FOREVER}
    asked = range_of(request, headers["etag"], served.size) if request.method == "GET" else None
    begin, end = asked or (0, served.size)
    if is_known(request, headers["etag"]):
        answer = Response(status_code=304, headers=headers)
    elif asked is not None and begin == end:
        message = f"the object has {served.size} bytes"
        answer = plain_problem(416, "range-not-satisfiable", message, {"content-range": f"bytes */{served.size}"})
    elif request.method == "HEAD":
        answer = Response(headers={**headers, "content-length": str(served.size)}, media_type=OCTETS)
    elif served.link is not None:
        # The link carries no token of ours and ends soon: anyone who keeps it keeps nothing.
        answer = Response(status_code=307, headers={"location": served.link, "cache-control": "no-store"})
    else:
        headers["content-length"] = str(end - begin)
        if asked is not None:
            headers["content-range"] = f"bytes {begin}-{end - 1}/{served.size}"
        chunks = _read(served, begin, end, recheck(request))
        answer = StreamingResponse(chunks, 200 if asked is None else 206, headers=headers, media_type=OCTETS)
    return answer


def _read(served: ServedObject, begin: int, end: int, check: Callable[[], None]) -> Iterator[bytes]:
    with served.open() as stream:
        stream.seek(begin)
        while begin < end and (chunk := stream.read(min(CHUNK_BYTES, end - begin))):
            check()
            begin += len(chunk)
            yield chunk
