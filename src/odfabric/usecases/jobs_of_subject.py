"""Which jobs somebody may see: those that they asked for, and those on datasets that they may change."""

from __future__ import annotations

from odfabric.domain.access import Action, Subject
from odfabric.errors import NotFound
from odfabric.model.job import Job
from odfabric.ports.jobs import Jobs
from odfabric.usecases.access import Access


def seen_job(job_id: str, *, subject: Subject, access: Access, jobs: Jobs) -> Job:
    """A job. Raises NotFound for one that is not there, or that the subject may not see."""
    found = jobs.get(job_id)
    if found is None or not may_see_job(found, subject, access):
        raise NotFound("job", job_id)
    return found


def may_see_job(job: Job, subject: Subject, access: Access) -> bool:
    """Whether the subject has asked for it, is an admin of the node, or may change its dataset."""
    account = subject.account
    if account is None:
        return False
    within = subject.datasets is None or job.dataset_id in subject.datasets
    if subject.administers or (within and job.account in (str(account.id), str(account.name))):
        return True
    entry = access.catalog.by_id(job.dataset_id) if job.dataset_id is not None else None
    return entry is not None and access.allows(subject, Action.WRITE, entry)
