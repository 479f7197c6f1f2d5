"""Upload a large file to a node, going on where it broke off.

Owns the chunks and the patience with a connection that breaks. A node whose object store can be reached from here gets parts there
instead (`sent_parts`), and no chunk passes through it. Invariant: after a break the node says where to go on, so nothing is sent
twice that it has; the hash of the file at the beginning decides at the end whether the node has that file. Source:
`odfabric_api.routes.uploads`.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import httpx

from odfabric.cli.backends.backend import JobFailed, PushFile
from odfabric.cli.backends.node_connection import LOOK_EVERY_S_MAX, NodeConnection
from odfabric.cli.backends.sent_parts import StoreNotReached, send_parts
from odfabric.errors import Determinate, Indeterminate

UPLOAD_FROM_BYTES = 64 * 1024 * 1024
"""Smaller files are pushed in one request."""
CHUNK_BYTES = 16 * 1024 * 1024
BREAKS_S_MAX = 120.0
"""How long breaks may follow each other without a byte getting through."""
_PIECE_BYTES = 1024 * 1024
_NOT_THE_NEXT = 409
_PART_TYPE = "application/partial-upload"


def is_large(push: PushFile, *, from_bytes: int = UPLOAD_FROM_BYTES) -> bool:
    """Whether a file is uploaded in chunks; what is no regular file is not."""
    path = Path(push.path)
    return path.is_file() and path.stat().st_size >= from_bytes


def push_in_chunks(
    connection: NodeConnection,
    dataset: str,
    push: PushFile,
    *,
    chunk_bytes: int = CHUNK_BYTES,
    sleep: Callable[[float], None] = time.sleep,
    store: httpx.Client | None = None,
) -> httpx.Response:
    """The node's answer to the push of the file, in parts or chunks.

    `dataset` is the path of the dataset. Raises as `NodeConnection.attempt`.
    """
    with Path(push.path).open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        size = file.tell()
        # An upload that an earlier command began is found by the hash, and goes on.
        about = {"size": size, "digest": f"sha-256={digest}"}
        begun = _patient(connection, "POST", f"{dataset}/uploads", json={**about, "parts": True}).json()
        parts = None
        if begun.get("partBytes"):
            parts = _in_parts(connection, f"{dataset}/uploads/{begun['id']}", file, sleep, store)
        if parts is None:
            if begun.get("partBytes"):
                begun = _patient(connection, "POST", f"{dataset}/uploads", json=about).json()
            upload, chunk_bytes = f"{dataset}/uploads/{begun['id']}", min(chunk_bytes, int(begun["chunkBytesMax"]))
            _send(connection, upload, file, range(int(begun["offset"]), size), chunk_bytes, sleep)
        upload = f"{dataset}/uploads/{begun['id']}"
    headers = {
        "odf-event-time": str(push.event_time) if push.event_time else None,
        "idempotency-key": push.idempotency_key,
        "odf-allow-shrink": "true" if push.allow_shrink else None,
    }
    return _patient(
        connection,
        "POST",
        f"{upload}/ingest",
        json={
            "digest": f"sha-256={digest}",
            "mediaType": push.media_type,
            "sourceName": push.source_name,
            "fileName": Path(push.name).name[:200] or "upload",
            **({"parts": parts} if parts else {}),
        },
        headers={name: value for name, value in headers.items() if value is not None},
    )


def _in_parts(
    connection: NodeConnection,
    upload: str,
    file: BinaryIO,
    sleep: Callable[[float], None],
    store: httpx.Client | None,
) -> list[dict[str, object]] | None:
    """The parts that the object store has; None, and no upload, if it is out of reach."""

    def listed(first: int) -> dict[str, object]:
        return dict(_patient(connection, "GET", f"{upload}/parts", params={"first": first}).json())

    try:
        return send_parts(listed, file, http=store, sleep=sleep)
    except StoreNotReached:
        with suppress(JobFailed):  # gone already, if the answer to a first attempt was lost
            _patient(connection, "DELETE", upload)
        return None


def _send(
    connection: NodeConnection,
    upload: str,
    file: BinaryIO,
    missing: range,
    chunk_bytes: int,
    sleep: Callable[[float], None],
) -> None:
    """Send chunks until the node has the `missing` bytes.

    Raises Determinate or Indeterminate once breaks take too long.
    """
    offset, size, got_through_at = missing.start, missing.stop, time.monotonic()
    while offset < size:
        file.seek(offset)
        try:
            answer = connection.ask(
                "PATCH",
                upload,
                content=_pieces(file, min(chunk_bytes, size - offset)),
                headers={"content-type": _PART_TYPE, "upload-offset": str(offset)},
            )
        except (Determinate, Indeterminate):
            if time.monotonic() - got_through_at > BREAKS_S_MAX:
                raise
            sleep(LOOK_EVERY_S_MAX)
            answer = _patient(connection, "GET", upload)
        if answer.status_code == _NOT_THE_NEXT:
            answer = _patient(connection, "GET", upload)
        if not answer.is_success:
            raise JobFailed(connection.problem(answer))
        now_at = int(answer.json()["offset"])
        if now_at > offset:
            got_through_at = time.monotonic()
        offset = now_at


def _patient(connection: NodeConnection, method: str, path: str, **arguments: object) -> httpx.Response:
    """An answer to a request that may be repeated.

    A second upload that is begun harms nobody, a repeated push of one is the same.
    """
    return connection.patiently(lambda: connection.attempt(method, path, **arguments), repeats=True)


def _pieces(file: BinaryIO, size: int) -> Iterator[bytes]:
    while size and (piece := file.read(min(size, _PIECE_BYTES))):
        size -= len(piece)
        yield piece
