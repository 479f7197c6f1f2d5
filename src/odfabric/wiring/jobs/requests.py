"""Requests that jobs carry out later, bound to a node's ports.

Pushes, pulls, verifications.
"""

from __future__ import annotations

from dataclasses import dataclass

from odfabric.domain.people.access import Action, Subject
from odfabric.model.commit import CatalogEntry
from odfabric.model.jobs.job import Job
from odfabric.model.jobs.requests import PullRequest
from odfabric.model.why_request import WhyRequest
from odfabric.ports.subscriptions.signals import Topic
from odfabric.usecases.ingestion.commit_result import CommitResult
from odfabric.usecases.ingestion.push_data import PushData, PushQueueLimits, accept_push
from odfabric.usecases.provenance.why_job import enqueue_why
from odfabric.usecases.transfer.pull_dataset import enqueue_pull
from odfabric.usecases.verification.verification_run import VerifyOptions
from odfabric.usecases.verification.verify_dataset import enqueue_verify
from odfabric.wiring.datasets.explaining import ProvenanceVerbs
from odfabric.wiring.node_core import NodeCore


@dataclass(frozen=True, slots=True)
class RequestVerbs:
    """Verbs that queue a job, each for one subject: the operator, if none is given."""

    core: NodeCore

    def push(self, request: PushData, *, by: Subject | None = None) -> Job | CommitResult:
        """Make a push durable; its job, or the result if its key was committed before."""
        core, settings = self.core, self.core.settings
        accepted = accept_push(
            request,
            subject=by or core.operator,
            access=core.access,
            quotas=core.quotas,
            repository=core.repository,
            jobs=core.ports.jobs,
            objects=core.ports.objects,
            clock=core.ports.clock,
            entropy=core.ports.entropy,
            inline_bytes_max=settings.push_inline_bytes_max,
            queue=PushQueueLimits(
                per_dataset_max=settings.pushes_queued_per_dataset_max,
                per_account_max=settings.pushes_queued_per_account_max,
            ),
            signs=core.heads.writer,
            staging_part=core.ports.own_part,
        )
        core.ports.signals.send(Topic.JOBS)
        return accepted

    def pull(self, request: PullRequest, *, by: Subject | None = None) -> Job:
        """Queue a pull."""
        ports, subject = self.core.ports, by or self.core.operator
        job = enqueue_pull(request, subject=subject, jobs=ports.jobs, clock=ports.clock, entropy=ports.entropy)
        ports.signals.send(Topic.JOBS)
        return job

    def why(self, entry: CatalogEntry, request: WhyRequest, *, by: Subject | None = None) -> Job:
        """Queue a question why records are there."""
        ports, subject = self.core.ports, by or self.core.operator
        job = enqueue_why(
            entry,
            request,
            subject=subject,
            ports=ProvenanceVerbs(self.core).ports(subject),
            jobs=ports.jobs,
            clock=ports.clock,
            entropy=ports.entropy,
        )
        ports.signals.send(Topic.JOBS)
        return job

    def verify(self, entry: CatalogEntry, options: VerifyOptions, *, by: Subject | None = None) -> Job:
        """Queue a verification.

        Raises AccessDenied for one that fetches, without the right to change the dataset.
        """
        ports, subject = self.core.ports, by or self.core.operator
        if options.fetch:
            self.core.access.require(subject, Action.WRITE, entry)
        job = enqueue_verify(
            entry,
            options,
            head=self.core.repository.head(entry.id).hash,
            subject=subject,
            jobs=ports.jobs,
            clock=ports.clock,
            entropy=ports.entropy,
        )
        ports.signals.send(Topic.JOBS)
        return job
