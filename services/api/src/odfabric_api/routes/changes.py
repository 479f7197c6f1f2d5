"""Routes of changes for consumers that keep their position themselves.

One answer, an answer that waits, or a stream.

Positions are those of cursors, so what is read at one is the same for ever; a stream that breaks goes on at the id of its last event.
"""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Annotated

from anyio import to_thread
from fastapi import APIRouter, Query, Request, Response
from starlette.responses import StreamingResponse

from odfabric.errors import OdfError
from odfabric.model.commit import CatalogEntry
from odfabric.usecases.jobs.problem import problem_document
from odfabric_api.auth import Caller, FollowableDataset, Subject, node_of, recheck
from odfabric_api.bodies.json_answer import JsonAnswer
from odfabric_api.bodies.schemas import Changes, answers
from odfabric_api.capacity import Capacity
from odfabric_api.edge import ONLY_WAITS
from odfabric_api.head_watch import HeadWatch
from odfabric_api.preconditions import header_parameters, wait_s_of
from odfabric_api.shared_reads import ReadEvent, SharedReads

router = APIRouter(tags=["cursors"])

STREAM = "text/event-stream"
KEEP_ALIVE_S = 15.0
"""Pause after which a stream without events says that it lives, and its reader's rights are looked at again."""
_MOVING = frozenset(("baseline", "now"))
"""Places to start from that are another position with each commit."""
_HEADERS = {
    "Accept": f"`{STREAM}`: a stream of server-sent events, whose ids are positions",
    "Last-Event-ID": "The position after which a stream goes on; goes before `from`",
    "Prefer": "`wait=N`: wait up to N seconds for the next event if there is none yet",
}

From = Annotated[
    str,
    Query(
        alias="from",
        max_length=200,
        description="`baseline`, `now`, `start`, the hash of a block, or a position that an answer has told",
    ),
]
Limit = Annotated[int | None, Query(ge=1, le=2**31, description="At most so many rows in one event")]


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads for one request."""

    request: Request
    entry: CatalogEntry
    caller: Subject
    limit: int | None

    @property
    def watch(self) -> HeadWatch:
        found: HeadWatch = self.request.app.state.head_watch
        return found

    def slot(self) -> AbstractContextManager[None]:
        """One of the places that streams and waiting requests have.

        Raises LimitExceeded when entered.
        """
        capacity: Capacity = self.request.app.state.capacity
        return capacity.streaming(str(self.caller.account.id) if self.caller.account else "")

    async def read(self, position: str) -> tuple[ReadEvent, bytes]:
        """What is at the position, and its frame.

        Raises InvalidRequest, LimitExceeded, NotFound, Corrupt.
        """

        def look() -> ReadEvent:
            head = self.watch.head(self.entry.id)
            event, after = node_of(self.request).cursors.read_at(self.entry, position, limit=self.limit)
            return ReadEvent(head, event, after)

        app = self.request.app
        capacity: Capacity = app.state.capacity
        shared: SharedReads = app.state.shared_reads
        if position in _MOVING:
            return await shared.alone(lambda: capacity.run_stream(look))
        return await shared.get((self.entry.id, position, self.limit), lambda: capacity.run_stream(look))


@router.get(
    "/{account}/{dataset}/changes",
    summary="Read changes, or have them streamed",
    responses={
        200: {
            "description": "An event, or none if there is nothing yet, and the position after it; or a stream of them",
            "model": Changes,
            "content": {STREAM: {"schema": {"type": "string"}}},
        },
        **{status: found for status, found in answers(None, status=204).items() if status != 204},
    },
    openapi_extra=header_parameters(_HEADERS),
)
async def get_changes(
    request: Request, entry: FollowableDataset, caller: Caller, start: From = "now", limit: Limit = None
) -> Response:
    """Every change in order, each with the position after it.

    A baseline comes first if it is wished for. If the chain was replaced, an event `reset` says so.
    """
    reader = _Reader(request, entry, caller, limit)
    settings, position = node_of(request).settings, request.headers.get("last-event-id") or start
    with reader.slot():
        read, frame = await reader.read(position)
        if STREAM not in request.headers.get("accept", ""):
            wait_s = wait_s_of(request, wait_s_max=settings.changes_wait_s_max) if "prefer" in request.headers else 0.0
            request.scope[ONLY_WAITS]()
            if read.event is None and wait_s and await reader.watch.moved(entry.id, read.head, timeout_s=wait_s):
                read, _ = await reader.read(read.position)
            return JsonAnswer({"event": read.event, "position": read.position})
    return StreamingResponse(_frames(reader, read, frame), media_type=STREAM)


async def _frames(reader: _Reader, read: ReadEvent, frame: bytes) -> AsyncIterator[bytes]:
    """Events until the reader leaves, loses the right to read, or the service ends."""
    check = recheck(reader.request)
    closing: threading.Event = reader.request.app.state.closing
    try:
        with reader.slot():
            reader.request.scope[ONLY_WAITS]()
            yield b": the stream begins\n\n"
            while not closing.is_set():
                if read.event is not None:
                    yield frame
                elif not await reader.watch.moved(reader.entry.id, read.head, timeout_s=KEEP_ALIVE_S):
                    yield b": nothing new\n\n"
                await to_thread.run_sync(check)
                read, frame = await reader.read(read.position)
    except OdfError as error:
        # Its status was sent long ago; the next request is refused with a status.
        yield f"event: end\ndata: {json.dumps(problem_document(error))}\n\n".encode()
