"""Routes of the Simple Transfer Protocol: ref, blocks, data, checkpoints."""

from __future__ import annotations

from collections.abc import Iterator

from fastapi import APIRouter, Request, Response
from starlette.responses import PlainTextResponse, StreamingResponse

from odfabric.domain.access import Action
from odfabric.errors import NotFound
from odfabric.formats.multihash import parse_multihash
from odfabric.usecases.serve_objects import ServedObject
from odfabric_api.auth import dataset_of, node_of

router = APIRouter(tags=["transfer"])

CHUNK_BYTES = 256 * 1024
FOREVER = {"cache-control": "private, max-age=31536000, immutable", "x-content-type-options": "nosniff"}


@router.head("/{account}/{dataset}/refs/{name}", include_in_schema=False)
@router.get("/{account}/{dataset}/refs/{name}", summary="The head of a dataset")
def ref(request: Request, account: str, dataset: str, name: str) -> Response:
    """Text of the head's hash; `head` is the only ref."""
    entry = dataset_of(request, account, dataset, Action.READ)
    if name != "head":
        raise NotFound("ref", name)
    head = str(node_of(request).served_head(entry))
    return PlainTextResponse(head, headers={"etag": f'"{head}"', "cache-control": "no-cache"})


@router.head("/{account}/{dataset}/blocks/{name}", include_in_schema=False)
@router.get("/{account}/{dataset}/blocks/{name}", summary="A metadata block")
def block(request: Request, account: str, dataset: str, name: str) -> Response:
    """The stored bytes."""
    return _object(request, account, dataset, "blocks", name)


@router.head("/{account}/{dataset}/data/{name}", include_in_schema=False)
@router.get("/{account}/{dataset}/data/{name}", summary="A data slice")
def data(request: Request, account: str, dataset: str, name: str) -> Response:
    """A Parquet file."""
    return _object(request, account, dataset, "data", name)


@router.head("/{account}/{dataset}/checkpoints/{name}", include_in_schema=False)
@router.get("/{account}/{dataset}/checkpoints/{name}", summary="A checkpoint")
def checkpoint(request: Request, account: str, dataset: str, name: str) -> Response:
    """An opaque file."""
    return _object(request, account, dataset, "checkpoints", name)


def _object(request: Request, account: str, dataset: str, folder: str, name: str) -> Response:
    entry = dataset_of(request, account, dataset, Action.READ)
    served = node_of(request).served_object(entry, folder, parse_multihash(name))
    headers = {"content-length": str(served.size), "etag": f'"{name}"', **FOREVER}
    if request.method == "HEAD":
        served.stream.close()
        return Response(headers=headers, media_type="application/octet-stream")
    return StreamingResponse(_read(served), headers=headers, media_type="application/octet-stream")


def _read(served: ServedObject) -> Iterator[bytes]:
    with served.stream as stream:
        while chunk := stream.read(CHUNK_BYTES):
            yield chunk
