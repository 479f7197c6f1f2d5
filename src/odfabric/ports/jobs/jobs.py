"""The job table: leases with fences.

One job of a dataset runs at a time; others of it wait in order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from odfabric.model.identity import DatasetId
from odfabric.model.instant import Instant
from odfabric.model.jobs.job import Job, Lane, Lease, NewJob
from odfabric.model.subscriptions.event import Event


class Jobs(Protocol):
    """Durable jobs.

    Every method is one transaction. Raises Determinate or Indeterminate for outside failures.
    """

    def enqueue(self, job: NewJob, *, now: Instant) -> Job:
        """Queue the job, durable when it returns.

        If an unfinished job has the same dedup key, return that one instead.

        A job id that exists already is success and returns that job.
        """

    def get(self, job_id: str) -> Job | None:
        """The job, or None."""

    def bodies(self, job_ids: Sequence[str]) -> Mapping[str, bytes]:
        """The bodies of these jobs, by job, of those unfinished that came with one."""

    def queued(self, job_ids: Sequence[str]) -> frozenset[str]:
        """Which of these jobs are queued."""

    def following(self, lease: Lease, *, limit: int) -> Sequence[Job]:
        """Queued jobs of the same dataset directly behind the leased one, never tried.

        In order, due at any time.

        Ends at the first that is not so. None of them can be leased while the lease holds.
        """

    def page(
        self,
        *,
        dataset: DatasetId | None = None,
        about: DatasetId | None = None,
        unfinished_only: bool = False,
        limit: int,
    ) -> Sequence[Job]:
        """At most `limit` jobs, newest first.

        Of a dataset's queue, about a dataset, or all.
        """

    def pushes_waiting(self, *, dataset: DatasetId | None = None, account: str | None = None, limit: int) -> int:
        """How many pushes are not finished, of a dataset or an account or all.

        Counted up to `limit`.
        """

    def lease(self, worker: str, *, now: Instant, lease_ms: int, lane: Lane | None = None) -> Lease | None:
        """Take the oldest job that is ready, of `lane` alone if one is given, or None.

        Ready is a job that runs with an expired lease, and a job that is queued and due and has no older unfinished job of the
        same dataset: jobs of a dataset run one after the other in the order of their queueing, also while one of them waits
        for its next attempt, so that nothing overtakes. Jobs without a dataset wait for none. What was last written more than
        `lease_ms` after `now` is of a clock that was ahead and has been set back: it is due, and its lease has expired.
        Attempts grow by one. Two callers never get leases of one job with the same fence.
        """

    def lease_one(self, job_id: str, worker: str, *, now: Instant, lease_ms: int) -> Lease | None:
        """Take exactly this job under the same conditions, else None.

        The local workspace runs its own jobs.
        """

    def heartbeat(self, lease: Lease, *, now: Instant, lease_ms: int, progress: str | None = None) -> Lease:
        """Prolong the lease and store progress. Raises LeaseLost if the fence is stale.

        A lease that has expired but was not taken by anybody is prolonged too.
        """

    def succeed(
        self, lease: Lease, *, now: Instant, result: str, together: Sequence[str] = (), events: Sequence[Event] = ()
    ) -> bool:
        """Finish with a result, and send `events` to the outbox.

        False, and nothing written, if the fence is stale.

        Jobs of `together` that are still queued finish with the same result.
        """

    def fail(self, lease: Lease, *, now: Instant, error: str) -> bool:
        """Finish with a problem document. False if the fence is stale."""

    def retry(self, lease: Lease, *, now: Instant, due_at: Instant, error: str | None) -> bool:
        """Back to queued, due at `due_at`. False if the fence is stale.

        Without an error the job is given back undone: the attempt does not count, an earlier error stays.
        """

    def give_back(self, worker: str, *, now: Instant) -> int:
        """Put back all jobs leased under a name beginning with dead `worker`; how many.

        The attempt counts: the job may be what killed the worker. Anyone who still believes to hold one has lost it.
        """

    def cancel(self, job_id: str, *, now: Instant) -> Job | None:
        """Cancel if not final and not committed; a running job's lease becomes stale.

        Returns the job as it is now, or None.

        The transaction that commits a job, or notes that it is about to (`ports.datasets.commit_intents`), and this one never both succeed: a
        job that is cancelled has not committed and never will, and one that has is left to end as it must.
        """
