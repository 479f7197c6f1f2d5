"""Jobs, bound to a node's ports.

People look at them and cancel them, workers lease and run them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from odfabric.domain.people.access import Subject
from odfabric.errors import NotFound
from odfabric.model.jobs.job import Job, JobKind, Lane
from odfabric.ports.subscriptions.signals import Topic
from odfabric.telemetry import span, working_on
from odfabric.usecases.events.job_events import job_events
from odfabric.usecases.ingestion.run_push import committed_push
from odfabric.usecases.jobs.job_actor import trace_of_job
from odfabric.usecases.jobs.job_run import LeasedRun
from odfabric.usecases.jobs.jobs_of_subject import cancellable_job, seen_job
from odfabric.usecases.jobs.run_job import JobVerb, RetryRule, run_job
from odfabric.usecases.transfer.pull_dataset import is_pull_of_node
from odfabric.wiring.jobs.heartbeats import heartbeats
from odfabric.wiring.jobs.waiting import LOOK_EVERY_S, WAITING_JOBS_MAX, waited_for
from odfabric.wiring.monitoring.timings import Timings
from odfabric.wiring.node_core import NodeCore


@dataclass(frozen=True, slots=True, kw_only=True)
class JobVerbs:
    """Verbs about jobs. `verbs` says what a job of each kind does."""

    core: NodeCore
    timings: Timings
    verbs: Mapping[JobKind, JobVerb]

    def get(self, job_id: str, *, by: Subject | None = None) -> Job:
        """A job that the subject may see. Raises NotFound."""
        core = self.core
        return seen_job(job_id, subject=by or core.operator, access=core.access, jobs=core.ports.jobs)

    def cancel(self, job_id: str, *, by: Subject | None = None) -> Job:
        """Cancel an unfinished job. Raises NotFound, AccessDenied for a lesser token."""
        core, jobs = self.core, self.core.ports.jobs
        cancellable_job(job_id, subject=by or core.operator, access=core.access, jobs=jobs)
        found = jobs.cancel(job_id, now=core.ports.clock.now())
        if found is None:
            raise NotFound("job", job_id)
        return found

    def lease(self, worker: str, *, lane: Lane | None = None) -> LeasedRun | None:
        """Take the next job that is ready, of `lane` alone if one is given."""
        ports, lease_ms = self.core.ports, self._lease_ms()
        lease = ports.jobs.lease(worker, now=ports.clock.now(), lease_ms=lease_ms, lane=lane)
        if lease is None:
            return None
        self.timings.job_leased(lease.job, ports.clock.now())
        return LeasedRun(lease, jobs=ports.jobs, clock=ports.clock, lease_ms=lease_ms)

    def lease_towards(self, job: Job, worker: str) -> LeasedRun | None:
        """This job, or an older one that it waits for, left by a killed command.

        Pulls that were asked of a node are left to it: they have other rights to files than a person at the command line.
        """
        ports, lease_ms = self.core.ports, self._lease_ms()
        older = ports.jobs.page(dataset=job.dataset_id, unfinished_only=True, limit=WAITING_JOBS_MAX)
        for candidate in (job, *reversed(older)):
            if candidate.id != job.id and is_pull_of_node(candidate):
                continue
            lease = ports.jobs.lease_one(candidate.id, worker, now=ports.clock.now(), lease_ms=lease_ms)
            if lease is not None:
                return LeasedRun(lease, jobs=ports.jobs, clock=ports.clock, lease_ms=lease_ms)
        return None

    def give_back(self, worker: str) -> int:
        """Put back what a worker held that is known to be dead; how many jobs."""
        return self.core.ports.jobs.give_back(worker, now=self.core.ports.clock.now())

    def run(self, run: LeasedRun) -> None:
        """Run a leased job to its end; keep the lease while the engine is silent."""
        core, ports, settings = self.core, self.core.ports, self.core.settings
        pauses = (settings.job_retry_s, settings.job_retry_s_max, settings.job_retry_after_s_max)
        job = run.lease.job
        dataset = str(job.dataset_id) if job.dataset_id is not None else None
        with (
            working_on(job=job.id, dataset=dataset),
            span(f"job {job.kind.value}", within=trace_of_job(job)),
            heartbeats(run, every_s=settings.lease_s / 3),
            self.timings.job_run(job),
        ):
            run_job(
                run,
                verbs=self.verbs,
                committed=partial(committed_push, repository=core.repository, commits=core.commits),
                jobs=ports.jobs,
                objects=ports.objects,
                clock=ports.clock,
                retry=RetryRule(settings.job_attempts_max, *pauses),
                reported=partial(job_events, repository=core.repository, clock=ports.clock),
            )
        # It may have committed, and another job of its dataset may be ready now.
        for topic in (Topic.OUTBOX, Topic.JOBS, Topic.FLOWS):
            ports.signals.send(topic)

    def work_until_ended(self, job: Job, *, worker: str, listener: Callable[[Mapping[str, object]], None]) -> Job:
        """Complete this job and those it waits for, with other workers; the ended job."""
        while not job.status.final:
            run = self.lease_towards(job, worker)
            if run is not None:
                run.listener = listener
                self.run(run)
            else:
                time.sleep(LOOK_EVERY_S)
            job = self.get(job.id)
            listener(waited_for(job, jobs=self.core.ports.jobs, lease_s=self.core.settings.lease_s))
        return job

    def _lease_ms(self) -> int:
        return int(self.core.settings.lease_s * 1000)
