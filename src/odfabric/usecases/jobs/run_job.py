"""Run a leased job to its end: dispatch, retries, failure.

Invariant: a job row ends exactly once, by the one who holds its newest fence; work that outside failures interrupt goes back to the
queue with a growing pause, and what a person interrupts at once. Not here: who leases jobs and when (the worker's runner, or the command line for its own).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from odfabric.errors import AlreadyExists, Corrupt, Determinate, External, HeadMoved, LeaseLost, OdfError
from odfabric.formats.jobs.envelope import read_envelope, read_objects
from odfabric.formats.jobs.push_request import read_push_request
from odfabric.model.instant import NANOS_PER_SECOND, Instant
from odfabric.model.jobs.job import Job, JobKind
from odfabric.model.subscriptions.event import Event
from odfabric.ports.datasets.object_store import ObjectStore
from odfabric.ports.jobs.jobs import Jobs
from odfabric.ports.node.clock import Clock
from odfabric.usecases.jobs.job_run import LeasedRun
from odfabric.usecases.jobs.problem import internal_problem, problem_document, retry_document

_log = logging.getLogger(__name__)

LASTING_ATTEMPTS_MAX = 2
"""Attempts at what fails until somebody changes something: one more, for answers of a resolver that was wrong for a moment."""

JobVerb = Callable[[Job, LeasedRun], Mapping[str, object]]


@dataclass(frozen=True, slots=True)
class RetryRule:
    """How often, and after which pauses in seconds, a job is tried again.

    `wished_pause_s_max` is granted to the one that failed.
    """

    attempts_max: int
    pause_s: float
    pause_s_max: float
    wished_pause_s_max: float

    def attempts_for(self, error: OdfError) -> int:
        """Attempts at a job that fails so; what lasts is tried twice at most."""
        is_lasting = isinstance(error, Determinate) and error.lasting
        return min(self.attempts_max, LASTING_ATTEMPTS_MAX) if is_lasting else self.attempts_max

    def due_at(self, attempts: int, now: Instant, *, wished_s: int | None = None) -> Instant:
        """When the next attempt is due, doubling from `pause_s`.

        Not before the one that failed wishes, within bounds.
        """
        pause = min(self.pause_s * 2 ** min(attempts - 1, 30), self.pause_s_max)
        pause = max(pause, min(wished_s or 0, self.wished_pause_s_max))
        return Instant(now.epoch_ns + int(pause * NANOS_PER_SECOND))


def run_job(
    run: LeasedRun,
    *,
    verbs: Mapping[JobKind, JobVerb],
    committed: Callable[[Job], Mapping[str, object] | None],
    jobs: Jobs,
    objects: ObjectStore,
    clock: Clock,
    retry: RetryRule,
    reported: Callable[[Job, Mapping[str, object]], Sequence[Event]],
) -> None:
    """Run the job once and record how it ended.

    Never raises for failures of the job itself.

    `committed` is the result of a job that has committed already, whatever happened afterwards: such a job has succeeded. `reported` are
    the events of a result.
    """
    with _given_back_if_interrupted(run, jobs, clock):
        job = run.lease.job
        try:
            if job.attempts > retry.attempts_max:
                raise Determinate(
                    f"given up after {retry.attempts_max} attempts, of which the last ended without a word"
                )
            result = verbs[job.kind](job, run)
        except LeaseLost:
            _log.info("job %s was taken over or cancelled", job.id)
            return
        except OdfError as error:
            final = _record_failure(run, error, committed=committed, jobs=jobs, clock=clock, retry=retry)
        except Exception as bug:  # noqa: BLE001  # a bug in one verb must neither hide nor stop the jobs behind it
            _log.exception("job %s", job.id)
            final = _record_bug(run, bug, committed=committed, jobs=jobs, clock=clock)
        else:
            events = reported(job, result)
            final = jobs.succeed(
                run.lease, now=clock.now(), result=json.dumps(result), together=run.together, events=events
            )
        with suppress(Corrupt):  # what the job has failed of; its object is collected later
            staged = read_objects(job).staged
            if final and staged is not None:
                objects.delete(staged)


@contextmanager
def _given_back_if_interrupted(run: LeasedRun, jobs: Jobs, clock: Clock) -> Iterator[None]:
    """Nobody should have to wait for the lease of a process that ends in order."""
    try:
        yield
    except KeyboardInterrupt:
        with suppress(OdfError):
            jobs.retry(run.lease, now=clock.now(), due_at=clock.now(), error=None)
        raise


def _record_bug(
    run: LeasedRun,
    bug: Exception,
    *,
    committed: Callable[[Job], Mapping[str, object] | None],
    jobs: Jobs,
    clock: Clock,
) -> bool:
    """Whether the job has ended.

    What was committed before the bug is reported: anyone who hears "failed" pushes again.
    """
    try:
        result = committed(run.lease.job)
    except OdfError:
        result = None
    if result is not None:
        return jobs.succeed(run.lease, now=clock.now(), result=json.dumps(result), together=run.together)
    return jobs.fail(run.lease, now=clock.now(), error=json.dumps(internal_problem(bug)))


def _record_failure(
    run: LeasedRun,
    error: OdfError,
    *,
    committed: Callable[[Job], Mapping[str, object] | None],
    jobs: Jobs,
    clock: Clock,
    retry: RetryRule,
) -> bool:
    """Whether the job has ended."""
    job, now = run.lease.job, clock.now()
    if run.stopping() and isinstance(error, External):
        # Given back for anyone who comes next, which may be now; nothing was wrong with the job.
        jobs.retry(run.lease, now=now, due_at=now, error=None)
        return False
    if isinstance(error, Determinate) and error.blameless:
        _log.warning("job %s, attempt %d does not count: %s", job.id, job.attempts, error)
        jobs.retry(run.lease, now=now, due_at=retry.due_at(job.attempts, now), error=None)
        return False
    attempts_max = retry.attempts_for(error)
    if job.attempts < attempts_max and _is_repeatable(job, error):
        _log.warning("job %s, attempt %d: %s", job.id, job.attempts, error)
        wished_s = error.retry_after_s if isinstance(error, Determinate) else None
        due_at = retry.due_at(job.attempts, now, wished_s=wished_s)
        pause_s = (due_at.epoch_ns - now.epoch_ns) / NANOS_PER_SECOND
        document = problem_document(error) | {"retry": retry_document(pause_s, job.attempts + 1, attempts_max)}
        jobs.retry(run.lease, now=now, due_at=due_at, error=json.dumps(document))
        return False
    result = committed(job)
    if result is not None:
        return jobs.succeed(run.lease, now=now, result=json.dumps(result), together=run.together)
    return jobs.fail(run.lease, now=now, error=json.dumps(problem_document(error)))


def _is_repeatable(job: Job, error: OdfError) -> bool:
    """Outside failures; a lost race, unless the job insists on a head.

    Our own key or job found committed by another holder.
    """
    match error:
        case External():
            # A run of a flow has its own rule of attempts.
            return read_envelope(job).flow is None
        case HeadMoved():
            return job.kind is not JobKind.PUSH or read_push_request(job).if_match is None
        case AlreadyExists():
            return job.kind is JobKind.PUSH
        case _:
            return False
