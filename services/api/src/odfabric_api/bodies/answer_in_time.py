"""Work of the engine that ends with the caller's wait, for a job to take over.

Invariant: what is broken off has changed nothing. Of a kind of question that was broken off lately the next one becomes a job at once, so
that its work is not begun twice. Strangers have no jobs: for them the work runs as long as its own limits allow.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import TypeVar

from fastapi import Request

from odfabric.model.commit import CatalogEntry
from odfabric.model.engine import EngineProgress
from odfabric.model.node.remembered import Remembered
from odfabric.model.why_request import WhyRequest
from odfabric.ports.engine import ProgressListener
from odfabric_api.auth import Subject, querying
from odfabric_api.capacity import Capacity, while_client_waits

ResultT = TypeVar("ResultT")


LONG_KINDS_MAX = 1000
"""Kinds of questions that a process remembers as long."""


def kind_of_question(entry: CatalogEntry, asked: WhyRequest) -> Hashable:
    """What questions have in common that take about the same time.

    All but the records themselves and the page.
    """
    records = len(asked.offsets).bit_length()
    return (entry.id, records, replace(asked, offsets=(), after=None))


class LongQuestions:
    """Kinds of questions that were too long to wait for within the last `seconds`."""

    def __init__(self, seconds: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds, self._clock = seconds, clock
        self._until = Remembered[Hashable, float](LONG_KINDS_MAX)

    def has(self, kind: Hashable) -> bool:
        """Whether another one of this kind is expected to be too long."""
        return (self._until.get(kind) or 0.0) > self._clock()

    def add(self, kind: Hashable) -> None:
        """One of this kind was too long."""
        self._until.pop(kind)
        self._until.put(kind, self._clock() + self._seconds)


class _WaitIsOver(Exception):
    """Ends the work in its thread."""


async def answered_in_time(
    request: Request, caller: Subject, work: Callable[[ProgressListener], ResultT], *, wait_s: float, kind: Hashable
) -> ResultT | None:
    """The result of the work, None for what a job has to do.

    That is work that takes longer than `wait_s`, or is expected to by its `kind`.

    Only for callers who can have a job. The body of the request must have been read. Raises what the work raises.
    """
    capacity: Capacity = request.app.state.capacity
    has_jobs = caller.account is not None
    long_questions: LongQuestions = request.app.state.long_questions
    if has_jobs and (wait_s == 0 or long_questions.has(kind)):
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
                long_questions.add(kind)
                return None
