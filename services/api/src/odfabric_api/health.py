"""Whether the parts of the node answer in time."""

from __future__ import annotations

from typing import Any

from fastapi import Request

from odfabric.model.engine import EngineInfo
from odfabric_api.auth import node_of
from odfabric_api.capacity import Capacity


async def health_report(request: Request) -> dict[str, Any]:
    """As `GET /system/health` answers.

    A part that does not answer in time does not answer.
    """
    capacity: Capacity = request.app.state.capacity
    try:
        return await capacity.run_health(node_of(request).status.health)
    except TimeoutError:
        return {"ok": False, "parts": {"database": False, "objects": False}}


async def engine_report(request: Request) -> EngineInfo | None:
    """The engine, None if none runs.

    Raises OdfError, TimeoutError for one that does not tell of itself.
    """
    capacity: Capacity = request.app.state.capacity
    return await capacity.run_health(node_of(request).engine_known)
