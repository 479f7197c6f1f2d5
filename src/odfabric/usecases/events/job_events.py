"""Events that the result of a job causes: a verification that has found problems."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from odfabric.model.jobs.job import Job, JobKind
from odfabric.model.subscriptions.event import Event, EventType
from odfabric.ports.node.clock import Clock
from odfabric.usecases.chain.repository import Repository


def job_events(job: Job, result: Mapping[str, Any], *, repository: Repository, clock: Clock) -> list[Event]:
    """What is sent in the transaction in which the job ends.

    Nothing if the dataset is gone.
    """
    if job.kind is not JobKind.VERIFY or result.get("ok", True):
        return []
    entry = repository.find(job.dataset_id) if job.dataset_id is not None else None
    if entry is None:
        return []
    errors = result.get("errors", [])
    detail = {"job": job.id, "problems": len(errors), "kinds": sorted({str(each["kind"]) for each in errors})}
    return [
        Event(
            type=EventType.VERIFICATION_FAILED,
            dataset_id=entry.id,
            alias=entry.alias,
            occurred_at=clock.now(),
            detail=detail,
        )
    ]
