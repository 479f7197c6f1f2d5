"""Routes of changes for consumers that keep their position themselves: one answer, an answer that waits, or a stream.

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
from starlette.responses import JSONResponse, StreamingResponse

from odfabric.errors import OdfError
from odfabric.model.commit import CatalogEntry
from odfabric.model.multihash import Multihash
from odfabric.usecases.problem import problem_document
from odfabric_api.auth import Caller, FollowableDataset, Subject, node_of, recheck
from odfabric_api.capacity import Capacity
from odfabric_api.edge import ONLY_WAITS
from odfabric_api.head_watch import HeadWatch
from odfabric_api.preconditions import header_parameters, wait_s_of
from odfabric_api.schemas import Changes, answers

router = APIRouter(tags=["cursors"])

STREAM = "text/event-stream"
KEEP_ALIVE_S = 15.0
"""Pause after which a stream without events says that it lives, and its reader's rights are looked at again."""
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
        """One of the places that streams and waiting requests have. Raises LimitExceeded when entered."""
        capacity: Capacity = self.request.app.state.capacity
        return capacity.streaming(str(self.caller.account.id) if self.caller.account else "")

    async def read(self, position: str) -> tuple[Multihash | None, dict[str, object] | None, str]:
        """The head before the look, the event at the position, and the position after it."""

        def look() -> tuple[Multihash | None, dict[str, object] | None, str]:
            head = self.watch.head(self.entry.id)
            verbs = node_of(self.request).cursors.of(self.caller)
            return head, *verbs.read_at(self.entry, position, limit=self.limit)

        capacity: Capacity = self.request.app.state.capacity
        return await capacity.run_stream(look)


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
    """A baseline first if it is wished for, then every change in order, each with the position after it. A chain that is another one is told by an event `reset`."""
    reader = _Reader(request, entry, caller, limit)
    settings, position = node_of(request).settings, request.headers.get("last-event-id") or start
    with reader.slot():
        head, event, after = await reader.read(position)
        if STREAM not in request.headers.get("accept", ""):
            wait_s = wait_s_of(request, wait_s_max=settings.changes_wait_s_max) if "prefer" in request.headers else 0.0
            request.scope[ONLY_WAITS]()
            if event is None and wait_s and await reader.watch.moved(entry.id, head, timeout_s=wait_s):
                _, event, after = await reader.read(after)
            return JSONResponse({"event": event, "position": after})
    return StreamingResponse(_frames(reader, head, event, after), media_type=STREAM)


async def _frames(
    reader: _Reader, head: Multihash | None, event: dict[str, object] | None, position: str
) -> AsyncIterator[bytes]:
    """Events as they come, until the reader leaves, loses the right to read, or the service ends."""
    check = recheck(reader.request)
    closing: threading.Event = reader.request.app.state.closing
    try:
        with reader.slot():
            reader.request.scope[ONLY_WAITS]()
            yield b": the stream begins\n\n"
            while not closing.is_set():
                if event is not None:
                    yield _frame(event, position)
                elif not await reader.watch.moved(reader.entry.id, head, timeout_s=KEEP_ALIVE_S):
                    yield b": nothing new\n\n"
                await to_thread.run_sync(check)
                head, event, position = await reader.read(position)
    except OdfError as error:
        # Its status was sent long ago; whoever comes again is told by the status.
        yield f"event: end\ndata: {json.dumps(problem_document(error))}\n\n".encode()


def _frame(event: dict[str, object], position: str) -> bytes:
    return f"id: {position}\nevent: {event['kind']}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n".encode()
