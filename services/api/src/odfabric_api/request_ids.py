"""A request gets an id and a place in a trace, which its log lines, its jobs and the calls that it causes carry.

Owns the header `x-request-id` of every answer. A caller's `traceparent` is taken if the W3C Recommendation allows it, and ignored otherwise; a caller
cannot choose the request id, so that one id is one request. Nothing is decided by either.
"""

from __future__ import annotations

import logging
import secrets
import time

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from odfabric.formats.trace_context import HEADER, SPAN_BYTES, TRACE_BYTES, TraceContext, new_trace, parse_traceparent
from odfabric.telemetry import working_on

REQUEST_ID_HEADER = "x-request-id"
_ID_BYTES = 16

_log = logging.getLogger(__name__)


class RequestIds:
    """ASGI middleware, the outermost one."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on with an id."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id, began = secrets.token_hex(_ID_BYTES), time.perf_counter()

        async def named(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)[REQUEST_ID_HEADER] = request_id
                _log.debug("%s answered %d in %.3f s", scope["method"], message["status"], time.perf_counter() - began)
            await send(message)

        with working_on(request=request_id, trace=_trace(scope)):
            await self._app(scope, receive, named)


def _trace(scope: Scope) -> TraceContext:
    """A span of ours in the caller's trace, or in a new one."""
    given = [value.decode("latin-1") for name, value in scope["headers"] if name == HEADER.encode()]
    caller = parse_traceparent(given[0]) if len(given) == 1 else None
    if caller is not None:
        return caller.child(secrets.token_bytes(SPAN_BYTES))
    return new_trace(secrets.token_bytes(TRACE_BYTES + SPAN_BYTES))
