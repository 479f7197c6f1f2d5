"""The job table in memory."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, takewhile

from odfabric.adapters.memory.store import MemoryStore
from odfabric.errors import LeaseLost
from odfabric.model.identity import DatasetId
from odfabric.model.instant import NANOS_PER_MILLI, Instant
from odfabric.model.jobs.job import Job, JobKind, JobStatus, Lane, Lease, NewJob
from odfabric.model.subscriptions.event import Event


@dataclass(slots=True)
class _StoredJob:
    job: Job
    due_at: Instant
    fence: int = 0
    body: bytes | None = None
    worker: str = ""
    leased_until: Instant | None = None


class MemoryJobs:
    """A Jobs.

    Jobs stand in the order of their queueing. `store` has the commits, which a job that is cancelled has not made.
    """

    def __init__(self, store: MemoryStore | None = None) -> None:
        self._lock = threading.Lock()
        self._store = store or MemoryStore()
        self._jobs: dict[str, _StoredJob] = {}

    def enqueue(self, job: NewJob, *, now: Instant) -> Job:
        """See the port."""
        with self._lock:
            known = self._jobs.get(job.id) or self._unfinished_like(job.dedup_key)
            if known is not None:
                return known.job
            queued = Job(
                id=job.id,
                kind=job.kind,
                account=job.account,
                dataset_id=job.dataset_id,
                request=job.request,
                dedup_key=job.dedup_key,
                status=JobStatus.QUEUED,
                progress=None,
                result=None,
                error=None,
                attempts=0,
                created_at=now,
                updated_at=now,
                about=job.about,
            )
            self._jobs[job.id] = _StoredJob(queued, due_at=now, body=job.body)
            return queued

    def get(self, job_id: str) -> Job | None:
        """See the port."""
        with self._lock:
            stored = self._jobs.get(job_id)
            return stored.job if stored else None

    def bodies(self, job_ids: Sequence[str]) -> Mapping[str, bytes]:
        """See the port."""
        with self._lock:
            found = [self._jobs[job_id] for job_id in job_ids if job_id in self._jobs]
        return {
            stored.job.id: stored.body for stored in found if stored.body is not None and not stored.job.status.final
        }

    def queued(self, job_ids: Sequence[str]) -> frozenset[str]:
        """See the port."""
        with self._lock:
            known = (self._jobs[job_id].job for job_id in job_ids if job_id in self._jobs)
            return frozenset(job.id for job in known if job.status is JobStatus.QUEUED)

    def following(self, lease: Lease, *, limit: int) -> Sequence[Job]:
        """See the port."""
        with self._lock:
            jobs = [stored.job for stored in self._jobs.values() if stored.job.dataset_id == lease.job.dataset_id]
        behind = jobs[next(place for place, job in enumerate(jobs) if job.id == lease.job.id) + 1 :]
        unfinished = (job for job in behind if not job.status.final)
        found = takewhile(lambda job: job.status is JobStatus.QUEUED and job.attempts == 0, unfinished)
        return list(islice(found, limit))

    def page(
        self,
        *,
        dataset: DatasetId | None = None,
        about: DatasetId | None = None,
        unfinished_only: bool = False,
        limit: int,
    ) -> Sequence[Job]:
        """See the port."""
        with self._lock:
            jobs = [stored.job for stored in reversed(self._jobs.values())]
        fitting = (
            job
            for job in jobs
            if (dataset is None or job.dataset_id == dataset)
            and (about is None or job.about == about)
            and not (unfinished_only and job.status.final)
        )
        return [job for _, job in zip(range(limit), fitting, strict=False)]

    def pushes_waiting(self, *, dataset: DatasetId | None = None, account: str | None = None, limit: int) -> int:
        """See the port."""
        with self._lock:
            jobs = [stored.job for stored in self._jobs.values() if stored.job.kind is JobKind.PUSH]
        jobs = [job for job in jobs if not job.status.final and (account is None or job.account == account)]
        return min(limit, sum(dataset is None or job.dataset_id == dataset for job in jobs))

    def lease(self, worker: str, *, now: Instant, lease_ms: int, lane: Lane | None = None) -> Lease | None:
        """See the port."""
        with self._lock:
            for stored in self._jobs.values():
                if lane in (None, stored.job.kind.lane) and self._is_ready(stored, now, lease_ms):
                    return _leased(stored, worker, now, lease_ms)
            return None

    def lease_one(self, job_id: str, worker: str, *, now: Instant, lease_ms: int) -> Lease | None:
        """See the port."""
        with self._lock:
            stored = self._jobs.get(job_id)
            if stored is None or not self._is_ready(stored, now, lease_ms):
                return None
            return _leased(stored, worker, now, lease_ms)

    def heartbeat(self, lease: Lease, *, now: Instant, lease_ms: int, progress: str | None = None) -> Lease:
        """See the port."""
        with self._lock:
            stored = self._held(lease)
            if stored is None:
                raise LeaseLost(f"job {lease.job.id} is no longer ours")
            stored.leased_until = _after(now, lease_ms)
            stored.job = replace(stored.job, updated_at=now, progress=progress or stored.job.progress)
            return replace(lease, job=stored.job, until=stored.leased_until)

    def succeed(
        self, lease: Lease, *, now: Instant, result: str, together: Sequence[str] = (), events: Sequence[Event] = ()
    ) -> bool:
        """See the port."""
        with self._lock:
            stored = self._held(lease)
            if stored is None:
                return False
            along = [self._jobs[job_id] for job_id in together]
            for ended in (stored, *(one for one in along if one.job.status is JobStatus.QUEUED)):
                ended.job = replace(ended.job, status=JobStatus.SUCCEEDED, result=result, error=None, updated_at=now)
            with self._store.lock:
                self._store.send(*events)
            return True

    def fail(self, lease: Lease, *, now: Instant, error: str) -> bool:
        """See the port."""
        with self._lock:
            stored = self._held(lease)
            if stored is not None:
                stored.job = replace(stored.job, status=JobStatus.FAILED, error=error, updated_at=now)
            return stored is not None

    def retry(self, lease: Lease, *, now: Instant, due_at: Instant, error: str | None) -> bool:
        """See the port."""
        with self._lock:
            stored = self._held(lease)
            if stored is not None:
                stored.due_at = due_at
                back = replace(stored.job, status=JobStatus.QUEUED, updated_at=now)
                undone = replace(back, attempts=back.attempts - 1)
                stored.job = undone if error is None else replace(back, error=error)
            return stored is not None

    def give_back(self, worker: str, *, now: Instant) -> int:
        """See the port."""
        with self._lock:
            held = [
                stored
                for stored in self._jobs.values()
                if stored.job.status is JobStatus.RUNNING and stored.worker.startswith(worker)
            ]
            for stored in held:
                stored.due_at = now
                stored.job = replace(stored.job, status=JobStatus.QUEUED, updated_at=now)
            return len(held)

    def cancel(self, job_id: str, *, now: Instant) -> Job | None:
        """See the port."""
        with self._lock:
            stored = self._jobs.get(job_id)
            if stored is None:
                return None
            with self._store.lock:
                if not stored.job.status.final and job_id not in self._store.job_commits:
                    self._store.cancelled_jobs.add(job_id)
                    stored.job = replace(stored.job, status=JobStatus.CANCELLED, updated_at=now)
            return stored.job

    def _unfinished_like(self, dedup_key: str | None) -> _StoredJob | None:
        if dedup_key is None:
            return None
        return next(
            (s for s in self._jobs.values() if s.job.dedup_key == dedup_key and not s.job.status.final),
            None,
        )

    def _is_ready(self, stored: _StoredJob, now: Instant, lease_ms: int) -> bool:
        ahead = stored.job.updated_at > _after(now, lease_ms)
        if stored.job.status is JobStatus.RUNNING:
            return stored.leased_until is not None and (stored.leased_until <= now or ahead)
        due = stored.due_at <= now or ahead
        return stored.job.status is JobStatus.QUEUED and due and self._oldest_unfinished(stored)

    def _oldest_unfinished(self, stored: _StoredJob) -> bool:
        dataset = stored.job.dataset_id
        if dataset is None:
            return True
        return stored is next(s for s in self._jobs.values() if s.job.dataset_id == dataset and not s.job.status.final)

    def _held(self, lease: Lease) -> _StoredJob | None:
        stored = self._jobs.get(lease.job.id)
        if stored is None or stored.fence != lease.fence or stored.job.status is not JobStatus.RUNNING:
            return None
        return stored


def _leased(stored: _StoredJob, worker: str, now: Instant, lease_ms: int) -> Lease:
    stored.fence += 1
    stored.worker = worker
    stored.leased_until = _after(now, lease_ms)
    stored.job = replace(stored.job, status=JobStatus.RUNNING, attempts=stored.job.attempts + 1, updated_at=now)
    return Lease(job=stored.job, worker=worker, fence=stored.fence, until=stored.leased_until)


def _after(now: Instant, millis: int) -> Instant:
    return Instant(now.epoch_ns + millis * NANOS_PER_MILLI)
