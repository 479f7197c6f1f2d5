"""Work of the engine that ends with the caller's wait, for a job to take over.

Invariant: what is broken off has changed nothing. Strangers have no jobs: for them the work runs as long as its own limits allow.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from fastapi import Request

from odfabric.model.engine import EngineProgress
from odfabric.ports.engine import ProgressListener
from odfabric_api.auth import Subject, querying
from odfabric_api.capacity import Capacity, while_client_waits

ResultT = TypeVar("ResultT")


class _WaitIsOver(Exception):
    """Ends the work in its thread."""


async def answered_in_time(
    request: Request, caller: Subject, work: Callable[[ProgressListener], ResultT], *, wait_s: float
) -> ResultT | None:
    """The result of the work; None if it takes longer than `wait_s`.

    Only for callers who can have a job. The body of the request must have been read. Raises what the work raises.
    """
    capacity: Capacity = request.app.state.capacity
    has_jobs = caller.account is not None
    if has_jobs and wait_s == 0:
        return None
    until = time.monotonic() + wait_s
    # A derivation is as much work as a query, so it has a place among those.
    with querying(request, caller):
        async with while_client_waits(request) as client:

            def listen(progress: EngineProgress) -> None:
                client(progress)
                if has_jobs and time.monotonic() >= until:
                    raise _WaitIsOver

            try:
                return await capacity.run_query(lambda: work(listen))
            except _WaitIsOver:
                return None
