"""The verbs of the audit, bound to the ports of a node."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from odfabric.domain.people.access import SYSTEM_ACCOUNT, Subject
from odfabric.model.instant import NANOS_PER_SECOND, Instant
from odfabric.model.jobs.job import Job, JobStatus
from odfabric.settings import Settings
from odfabric.usecases.chain.commit import Commits
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.ingestion.commit_result import CommitResult
from odfabric.usecases.ingestion.push_data import PushData
from odfabric.usecases.people.flush_audit import audit_dataset, next_batch
from odfabric.usecases.rights.access import Access
from odfabric.wiring.node_ports import NodePorts

FORGOTTEN_AT_ONCE_MAX = 10_000

AcceptPush = Callable[[PushData, Subject], Job | CommitResult]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditVerbs:
    """`accept_push` is the node's own."""

    ports: NodePorts
    settings: Settings
    access: Access
    repository: Repository
    commits: Commits
    accept_push: AcceptPush

    def flush(self, finish: Callable[[Job], Job]) -> int:
        """Push the oldest entries that are not in the dataset `system/audit` yet.

        The number of the last, 0 if nothing was done.

        `finish` waits for a job, or does it, and returns it as it is then; entries are marked only if it has succeeded.
        """
        ports, settings = self.ports, self.settings
        batch = next_batch(
            audit=ports.audit,
            clock=ports.clock,
            window_s=settings.refusals_window_s,
            entries_max=settings.audit_flush_entries_max,
        )
        if batch is None:
            return 0
        entry = audit_dataset(repository=self.repository, commits=self.commits, keys=ports.keys, clock=ports.clock)
        accepted = self.accept_push(batch.push(entry.id), self.access.subject_later(str(SYSTEM_ACCOUNT)))
        if isinstance(accepted, Job) and finish(accepted).status is not JobStatus.SUCCEEDED:
            return 0
        ports.audit.flushed(batch.up_to)
        return batch.up_to

    def forget(self) -> int:
        """Remove entries from the log that have been in the dataset for `audit_kept_s`.

        How many.
        """
        kept_ns = int(self.settings.audit_kept_s * NANOS_PER_SECOND)
        before = Instant(self.ports.clock.now().epoch_ns - kept_ns)
        return self.ports.audit.forget(flushed_before=before, limit=FORGOTTEN_AT_ONCE_MAX)
