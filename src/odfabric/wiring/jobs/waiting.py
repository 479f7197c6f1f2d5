"""What somebody who waits for a job sees."""

from __future__ import annotations

import json
from collections.abc import Mapping

from odfabric.model.jobs.job import Job, JobStatus
from odfabric.ports.jobs.jobs import Jobs
from odfabric.usecases.jobs.problem import retry_line

LOOK_EVERY_S = 0.05
"""Pause between looks at a job that another process does."""
WAITING_JOBS_MAX = 1000
"""Older jobs of a dataset that a command looks at."""


def waited_for(job: Job, *, jobs: Jobs, lease_s: float) -> Mapping[str, object]:
    """The progress of a job that we do not do ourselves.

    If another process works on the dataset, that too.
    """
    progress: dict[str, object] = json.loads(job.progress or "{}")
    running = job.status is JobStatus.RUNNING
    if not running and job.dataset_id is not None:
        others = jobs.page(dataset=job.dataset_id, unfinished_only=True, limit=WAITING_JOBS_MAX)
        running = any(other.status is JobStatus.RUNNING for other in others)
    if not running:
        again = retry_line(json.loads(job.error)) if job.error and job.status is JobStatus.QUEUED else None
        return {"stage": again} if again else progress
    holder = f"another process works on the dataset; if it was killed, this goes on within {lease_s:g} s"
    return {**progress, "stage": f"{progress.get('stage', 'waiting')} ({holder})"}
