"""Request ids and traces, carried by log lines, jobs and outgoing calls.

Owns the header `x-request-id` of every answer. A caller's `traceparent` is taken if the W3C Recommendation allows it, and ignored otherwise; a caller
cannot choose the request id, so that one id is one request. Nothing is decided by either.
"""

from __future__ import annotations

import logging
import secrets
import time
from dataclasses import replace

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from odfabric.formats.operations.trace_context import (
    HEADER,
    SPAN_BYTES,
    TRACE_BYTES,
    TraceContext,
    new_trace,
    parse_traceparent,
)
from odfabric.model.node.span import SpanKind
from odfabric.telemetry import finish_span, is_recorded, working_on

REQUEST_ID_HEADER = "x-request-id"
_ID_BYTES = 16
SERVER_FAILED = 500

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
        caller, began_ns, status = _caller(scope), time.time_ns(), 0
        own = _own(caller)

        async def named(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)[REQUEST_ID_HEADER] = request_id
                _log.debug("%s answered %d in %.3f s", scope["method"], status, time.perf_counter() - began)
            await send(message)

        with working_on(request=request_id, trace=own):
            try:
                await self._app(scope, receive, named)
            finally:
                _finish(own, caller, scope, status=status, began_ns=began_ns, request_id=request_id)


def _finish(
    own: TraceContext, caller: TraceContext | None, scope: Scope, *, status: int, began_ns: int, request_id: str
) -> None:
    """The span of the request, named by the template of its route.

    An address may hold names of private datasets.
    """
    route = getattr(scope.get("route"), "path", "")
    finish_span(
        f"{scope['method']} {route}".strip(),
        own,
        kind=SpanKind.SERVER,
        parent_id=caller.span_id if caller is not None else None,
        began_ns=began_ns,
        error=str(status) if status >= SERVER_FAILED else None,
        attributes={
            "http.request.method": scope["method"],
            "http.route": route,
            "http.response.status_code": status,
            "odf.request": request_id,
        },
    )


def _caller(scope: Scope) -> TraceContext | None:
    given = [value.decode("latin-1") for name, value in scope["headers"] if name == HEADER.encode()]
    return parse_traceparent(given[0]) if len(given) == 1 else None


def _own(caller: TraceContext | None) -> TraceContext:
    """A span of ours in the caller's trace, or in a new one."""
    if caller is not None:
        return caller.child(secrets.token_bytes(SPAN_BYTES))
    begun = new_trace(secrets.token_bytes(TRACE_BYTES + SPAN_BYTES))
    return replace(begun, is_sampled=is_recorded(begun.trace_id))
