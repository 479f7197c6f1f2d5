"""Run a leased job to its end: dispatch, retry what may be retried, fail what may not.

Invariant: a job row ends exactly once, by whoever holds its newest fence; work that outside failures interrupt goes back to the
queue with a growing pause. Not here: who leases jobs and when (the worker's runner, or the command line for its own).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from odfabric.errors import AlreadyExists, Conflict, External, HeadMoved, LeaseLost, OdfError
from odfabric.model.instant import NANOS_PER_SECOND, Instant
from odfabric.model.job import Job, JobKind
from odfabric.ports.clock import Clock
from odfabric.ports.jobs import Jobs
from odfabric.ports.object_store import ObjectStore
from odfabric.usecases.job_run import LeasedRun
from odfabric.usecases.problem import problem_document
from odfabric.usecases.staging import discard_staged

_log = logging.getLogger(__name__)

JobVerb = Callable[[Job, LeasedRun], Mapping[str, object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryRule:
    """How often, and after which pauses in seconds, a job is tried again."""

    attempts_max: int
    pause_s: float
    pause_s_max: float

    def due_at(self, attempts: int, now: Instant) -> Instant:
        """When the next attempt is due, doubling from `pause_s`."""
        pause = min(self.pause_s * 2 ** min(attempts - 1, 30), self.pause_s_max)
        return Instant(now.epoch_ns + int(pause * NANOS_PER_SECOND))


def run_job(
    run: LeasedRun,
    *,
    verbs: Mapping[JobKind, JobVerb],
    jobs: Jobs,
    objects: ObjectStore,
    clock: Clock,
    retry: RetryRule,
) -> None:
    """Run the job once and record how it ended. Never raises for failures of the job itself."""
    job = run.lease.job
    try:
        result = verbs[job.kind](job, run)
    except LeaseLost:
        _log.info("job %s was taken over or cancelled", job.id)
        return
    except OdfError as error:
        final = _record_failure(run, error, jobs=jobs, clock=clock, retry=retry)
    else:
        final = jobs.succeed(run.lease, now=clock.now(), result=json.dumps(result))
    staged = json.loads(job.request).get("staged")
    if final and staged is not None:
        discard_staged(staged, objects=objects)


def _record_failure(run: LeasedRun, error: OdfError, *, jobs: Jobs, clock: Clock, retry: RetryRule) -> bool:
    """Whether the job has ended."""
    job, now = run.lease.job, clock.now()
    document = json.dumps(problem_document(error))
    # A lost race or a foreign commit of our own key is found out by looking again; so is an outside failure.
    repeatable = isinstance(error, External | HeadMoved | AlreadyExists) and not isinstance(error, LeaseLost)
    if isinstance(error, Conflict) and '"ifMatch"' in job.request:
        repeatable = False
    if repeatable and job.attempts < retry.attempts_max:
        _log.warning("job %s, attempt %d: %s", job.id, job.attempts, error)
        jobs.retry(run.lease, now=now, due_at=retry.due_at(job.attempts, now), error=document)
        return False
    return jobs.fail(run.lease, now=now, error=document)
