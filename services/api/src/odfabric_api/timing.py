"""Times the head of each answer, by the template of the route, for metrics.

Owns nothing but the measuring. A stream of changes counts until it begins, for it ends when its reader leaves.
"""

from __future__ import annotations

import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from odfabric.wiring.monitoring.timings import Timings


class TimingMiddleware:
    """ASGI middleware around all others, so that refusals of the edge are counted too."""

    def __init__(self, app: ASGIApp, *, timings: Timings) -> None:
        self._app = app
        self._timings = timings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on; measure until the answer begins."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()

        async def seen(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._timings.request(
                    route=getattr(scope.get("route"), "path", ""),
                    method=scope["method"],
                    status=message["status"],
                    seconds=time.perf_counter() - began,
                )
            await send(message)

        await self._app(scope, receive, seen)
