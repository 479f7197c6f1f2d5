"""Jobs as people read them: what they do, progress, why they wait, results."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from fastapi import Request

from odfabric.errors import NotFound
from odfabric.formats.jobs.pull_request import read_pull_request
from odfabric.model.commit import CatalogEntry
from odfabric.model.identity import DatasetId
from odfabric.model.jobs.job import Job, JobKind, JobStatus
from odfabric_api.auth import Subject, node_of
from odfabric_api.web.problem_places import places_in


def job_view(job: Job) -> dict[str, Any]:
    """Values of a job for templates.

    `problems` are those of the last attempt, also while it is tried again.
    """
    error = json.loads(job.error) if job.error and job.status is not JobStatus.SUCCEEDED else None
    return {
        "id": job.id,
        "kind": job.kind.value,
        "status": job.status.value,
        "is_final": job.status.final,
        "dataset_id": job.concerns,
        "progress": json.loads(job.progress) if job.progress else {},
        "result": json.loads(job.result) if job.result else None,
        "pull": read_pull_request(job) if job.kind is JobKind.PULL else None,
        "problems": places_in(error) if error else [],
        "attempts": job.attempts,
        "created_at": job.created_at,
        "updated_at": job.updated_at,
    }


WAIT_S_MAX = 2.0
"""How long an answer waits for a job about a file, so that small files need no page between."""


def own_job(request: Request, caller: Subject, job_id: str, *kinds: JobKind) -> Job:
    """A job of these kinds that the caller asked for.

    Raises NotFound, also for an admin who may see it.
    """
    found = node_of(request).jobs.get(job_id, by=caller)
    is_own = caller.account is not None and found.account == str(caller.account.id)
    if not is_own or found.kind not in kinds:
        raise NotFound("job", job_id)
    return found


def datasets_of(request: Request, caller: Subject, jobs: Iterable[Job]) -> Mapping[DatasetId, CatalogEntry]:
    """The datasets of jobs, of those that the caller may read."""
    catalog = node_of(request).seen_by(caller).catalog
    found = {each: catalog.by_id(each) for each in {job.concerns for job in jobs} if each is not None}
    return {dataset: entry for dataset, entry in found.items() if entry is not None}
