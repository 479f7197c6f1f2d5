"""Jobs that somebody may see and cancel.

Those that they asked for, and those on datasets that they may change.

Invariant: a token sees only what it could have asked for itself or may read, and cancels only the former.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from odfabric.domain.people.access import Action, Subject, Verdict, refusal
from odfabric.errors import NotFound
from odfabric.formats.jobs.why_request import read_why_request
from odfabric.model.identity import DatasetId
from odfabric.model.jobs.job import Job, JobKind, JobStatus
from odfabric.model.people.credential import Scope
from odfabric.ports.jobs.jobs import Jobs
from odfabric.usecases.rights.access import Access

_ACTIONS = {
    JobKind.PUSH: (Action.PUSH, Scope.PUSH),
    JobKind.PULL: (Action.WRITE, Scope.MANAGE),
    JobKind.VERIFY: (Action.FOLLOW, Scope.READ),
    JobKind.INDEX: (Action.WRITE, Scope.MANAGE),
    JobKind.JUDGE: (Action.PUSH, Scope.PUSH),
    JobKind.TRY: (Action.PUSH, Scope.PUSH),
    JobKind.SEND: (Action.WRITE, Scope.MANAGE),
    JobKind.COMPACT: (Action.REWRITE, Scope.MANAGE),
    JobKind.WHY: (Action.READ, Scope.READ),
}
"""What each kind of job was asked for, and the scope that it takes."""
AHEAD_MAX = 200
"""Unfinished jobs of a dataset among which those ahead of one are looked for."""


@dataclass(frozen=True, slots=True)
class JobsAhead:
    """Jobs ahead in a dataset's queue: how many, and visible ones, newest first."""

    count: int
    seen: tuple[Job, ...]


def seen_job(job_id: str, *, subject: Subject, access: Access, jobs: Jobs) -> Job:
    """A job.

    Raises NotFound for one that is not there, or that the subject may not see.
    """
    found = jobs.get(job_id)
    if found is None or not may_see_job(found, subject, access):
        raise NotFound("job", job_id)
    return without_answer(found)


def seen_jobs(dataset: DatasetId | None, *, limit: int, subject: Subject, access: Access, jobs: Jobs) -> Sequence[Job]:
    """Jobs that the subject may see, newest first, of a dataset's or node's `limit`."""
    found = jobs.page(dataset=dataset, limit=limit)
    return [without_answer(job) for job in found if may_see_job(job, subject, access)]


def jobs_about(dataset: DatasetId, *, limit: int, subject: Subject, access: Access, jobs: Jobs) -> Sequence[Job]:
    """Jobs about a dataset that wait in no queue of it, newest first.

    Only those that the subject may see.
    """
    return [job for job in jobs.page(about=dataset, limit=limit) if may_see_job(job, subject, access)]


def without_answer(job: Job) -> Job:
    """The job, with a link in the place of an answer that has rights of its own."""
    if job.kind is not JobKind.WHY or job.result is None:
        return job
    return replace(job, result=json.dumps({"answer": f"/jobs/{job.id}/answer"}))


def jobs_ahead(job: Job, *, subject: Subject, access: Access, jobs: Jobs) -> JobsAhead:
    """What a queued job waits for: earlier unfinished jobs of its dataset."""
    if job.dataset_id is None or job.status is not JobStatus.QUEUED:
        return JobsAhead(0, ())
    unfinished = jobs.page(dataset=job.dataset_id, unfinished_only=True, limit=AHEAD_MAX)
    position = next((number for number, other in enumerate(unfinished) if other.id == job.id), len(unfinished))
    older = unfinished[position + 1 :]
    return JobsAhead(len(older), tuple(other for other in older if may_see_job(other, subject, access)))


def cancellable_job(job_id: str, *, subject: Subject, access: Access, jobs: Jobs) -> Job:
    """A job that the subject may cancel.

    Raises NotFound as `seen_job`, AccessDenied for a token that goes less far.
    """
    found = seen_job(job_id, subject=subject, access=access, jobs=jobs)
    action, scope = _ACTIONS[found.kind]
    if not subject.has_scope(scope):
        raise refusal(Verdict.OUT_OF_SCOPE, action, subject, shown=f"the dataset of job {job_id}")
    return found


def may_see_job(job: Job, subject: Subject, access: Access) -> bool:
    """Whether the subject asked for it, is a node admin, or may change its dataset."""
    account = subject.account
    if account is None:
        return False
    if subject.administers:
        return True
    within = subject.datasets is None or _dataset_of(job) in subject.datasets
    in_scope = subject.has_scope(Scope.READ) or subject.has_scope(_ACTIONS[job.kind][1])
    if within and in_scope and job.account in (str(account.id), str(account.name)):
        return True
    entry = access.catalog.by_id(job.concerns) if job.concerns is not None else None
    return entry is not None and access.allows(subject, Action.WRITE, entry)


def _dataset_of(job: Job) -> DatasetId | None:
    """The dataset of a job, also of one that is asked about without being its own."""
    return read_why_request(job).dataset if job.kind is JobKind.WHY else job.concerns
