"""The job table in SQL: queue, leases, fences.

Owns the statements behind `ports.jobs.jobs`. Invariants: a lease is one UPDATE that raises the fence, and every later change names that
fence in its condition, so a worker that lost its job changes nothing; at most one job of a dataset is in the state running,
which a unique index keeps on databases where two workers may look at the same time; an empty queue costs readers nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

from sqlalchemy import ColumnElement, Connection, Row, Select, bindparam, delete, exists, func, insert, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.sql.dml import ReturningUpdate

from odfabric.adapters.sql.database import Database, insert_new
from odfabric.adapters.sql.outbox import send
from odfabric.adapters.sql.tables.jobs import commit_intent_jobs, is_unfinished, job_bodies, job_commits, jobs
from odfabric.errors import Determinate, LeaseLost
from odfabric.model.commit import OutboxMessage
from odfabric.model.identity import DatasetId
from odfabric.model.instant import NANOS_PER_MILLI, Instant
from odfabric.model.jobs.job import Job, JobKind, JobStatus, Lane, Lease, NewJob
from odfabric.model.subscriptions.event import Event

_QUEUED, _RUNNING = JobStatus.QUEUED.value, JobStatus.RUNNING.value
_ENQUEUE_ATTEMPTS_MAX = 5


class SqlJobs:
    """A Jobs."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def enqueue(self, job: NewJob, *, now: Instant) -> Job:
        """See the port."""
        with self._database.write() as connection:
            # The like of it may end between our looking and our inserting; then there is room for ours.
            for _ in range(_ENQUEUE_ATTEMPTS_MAX):
                known = self._known(connection, job)
                if known is not None:
                    return known
                if insert_new(connection, jobs, _new_values(job, now)):
                    if job.body is not None:
                        connection.execute(insert(job_bodies).values(job_id=job.id, body=job.body))
                    return _job(connection.execute(select(jobs).where(jobs.c.id == job.id)).one())
            raise Determinate("the job table is busy")

    def get(self, job_id: str) -> Job | None:
        """See the port."""
        with self._database.read() as connection:
            found = connection.execute(select(jobs).where(jobs.c.id == job_id)).one_or_none()
        return _job(found) if found else None

    def bodies(self, job_ids: Sequence[str]) -> Mapping[str, bytes]:
        """See the port."""
        with self._database.read() as connection:
            rows = connection.execute(select(job_bodies).where(job_bodies.c.job_id.in_(job_ids))).all()
        return {row.job_id: row.body for row in rows}

    def queued(self, job_ids: Sequence[str]) -> frozenset[str]:
        """See the port."""
        wanted = select(jobs.c.id).where(jobs.c.id.in_(job_ids), jobs.c.status == _QUEUED)
        with self._database.read() as connection:
            return frozenset(connection.execute(wanted).scalars())

    def following(self, lease: Lease, *, limit: int) -> Sequence[Job]:
        """See the port."""
        own = select(jobs.c.position).where(jobs.c.id == lease.job.id).scalar_subquery()
        behind = select(jobs).where(
            jobs.c.dataset_id == lease.job.dataset_id, jobs.c.position > own, is_unfinished(jobs.c.status)
        )
        with self._database.read() as connection:
            rows = connection.execute(behind.order_by(jobs.c.position).limit(limit)).all()
        return [_job(row) for row in takewhile(lambda row: row.status == _QUEUED and row.attempts == 0, rows)]

    def page(
        self,
        *,
        dataset: DatasetId | None = None,
        about: DatasetId | None = None,
        unfinished_only: bool = False,
        limit: int,
    ) -> Sequence[Job]:
        """See the port."""
        wanted = select(jobs).order_by(jobs.c.position.desc()).limit(limit)
        if dataset is not None:
            wanted = wanted.where(jobs.c.dataset_id == dataset)
        if about is not None:
            wanted = wanted.where(jobs.c.about_id == about)
        if unfinished_only:
            wanted = wanted.where(is_unfinished(jobs.c.status))
        with self._database.read() as connection:
            return [_job(row) for row in connection.execute(wanted)]

    def pushes_waiting(self, *, dataset: DatasetId | None = None, account: str | None = None, limit: int) -> int:
        """See the port."""
        waiting = select(jobs.c.position).where(is_unfinished(jobs.c.status), jobs.c.kind == JobKind.PUSH.value)
        if dataset is not None:
            waiting = waiting.where(jobs.c.dataset_id == dataset)
        if account is not None:
            waiting = waiting.where(jobs.c.account == account)
        counted = select(func.count()).select_from(waiting.limit(limit).subquery())
        with self._database.read() as connection:
            return connection.execute(counted).scalar_one()

    def lease(self, worker: str, *, now: Instant, lease_ms: int, lane: Lane | None = None) -> Lease | None:
        """See the port."""
        return self._lease(_READY[lane], _times(now, lease_ms), worker)

    def lease_one(self, job_id: str, worker: str, *, now: Instant, lease_ms: int) -> Lease | None:
        """See the port."""
        return self._lease(_READY_ONE, {**_times(now, lease_ms), "wanted": job_id}, worker)

    def heartbeat(self, lease: Lease, *, now: Instant, lease_ms: int, progress: str | None = None) -> Lease:
        """See the port."""
        until = _after(now, lease_ms)
        values: dict[str, object] = {"leased_until": until, "updated_at": now}
        if progress is not None:
            values["progress"] = progress
        with self._database.write() as connection:
            changed = connection.execute(update(jobs).where(*_held(lease)).values(values).returning(jobs))
            found = changed.one_or_none()
            if found is None:
                raise LeaseLost(f"job {lease.job.id} is no longer ours")
            return Lease(job=_job(found), worker=lease.worker, fence=lease.fence, until=until)

    def succeed(
        self, lease: Lease, *, now: Instant, result: str, together: Sequence[str] = (), events: Sequence[Event] = ()
    ) -> bool:
        """See the port."""
        values = {"status": JobStatus.SUCCEEDED.value, "result": result, "error": None}
        return self._change(lease, now, values, together=together, events=events)

    def fail(self, lease: Lease, *, now: Instant, error: str) -> bool:
        """See the port."""
        return self._change(lease, now, {"status": JobStatus.FAILED.value, "error": error})

    def retry(self, lease: Lease, *, now: Instant, due_at: Instant, error: str | None) -> bool:
        """See the port."""
        outcome = {"attempts": jobs.c.attempts - 1} if error is None else {"error": error}
        return self._change(lease, now, {"status": _QUEUED, "due_at": due_at, **outcome})

    def give_back(self, worker: str, *, now: Instant) -> int:
        """See the port."""
        held = update(jobs).where(jobs.c.status == _RUNNING, jobs.c.worker.startswith(worker, autoescape=True))
        back = held.values(status=_QUEUED, due_at=now, leased_until=None, worker=None, updated_at=now)
        with self._database.write() as connection:
            return connection.execute(back).rowcount

    def cancel(self, job_id: str, *, now: Instant) -> Job | None:
        """See the port."""
        cancelled = update(jobs).where(jobs.c.id == job_id, is_unfinished(jobs.c.status))
        with self._database.write() as connection:
            # Locked first, looked at then: a commit holds the lock until its marks can be seen.
            connection.execute(select(jobs.c.id).where(jobs.c.id == job_id).with_for_update())
            if not _is_committing(connection, job_id):
                connection.execute(
                    cancelled.values(status=JobStatus.CANCELLED.value, leased_until=None, worker=None, updated_at=now)
                )
                connection.execute(delete(job_bodies).where(job_bodies.c.job_id == job_id))
            found = connection.execute(select(jobs).where(jobs.c.id == job_id)).one_or_none()
            return _job(found) if found else None

    def _known(self, connection: Connection, job: NewJob) -> Job | None:
        found = connection.execute(select(jobs).where(jobs.c.id == job.id)).one_or_none()
        if found is None and job.dedup_key is not None:
            like = select(jobs).where(jobs.c.dedup_key == job.dedup_key, is_unfinished(jobs.c.status))
            found = connection.execute(like).one_or_none()
        return _job(found) if found else None

    def _lease(self, ready: _Ready, values: Mapping[str, object], worker: str) -> Lease | None:
        with self._database.read() as connection:
            if connection.execute(ready.looked_at, values).one_or_none() is None:
                return None
        try:
            with self._database.write() as connection:
                return _take(connection, ready, values, worker)
        except IntegrityError:
            # Another worker has just begun a job of the same dataset.
            return None

    def _change(
        self,
        lease: Lease,
        now: Instant,
        values: Mapping[str, object],
        *,
        together: Sequence[str] = (),
        events: Sequence[Event] = (),
    ) -> bool:
        changed = update(jobs).values(leased_until=None, worker=None, updated_at=now, **values)
        with self._database.write() as connection:
            if connection.execute(changed.where(*_held(lease))).rowcount == 0:
                return False
            if together:
                connection.execute(changed.where(jobs.c.id.in_(together), jobs.c.status == _QUEUED))
            if values["status"] != _QUEUED:
                ended = (lease.job.id, *together)
                connection.execute(delete(job_bodies).where(job_bodies.c.job_id.in_(ended)))
            for event in events:
                send(connection, OutboxMessage.of(event))
            return True


def hold_uncancelled(connection: Connection, job_ids: Sequence[str]) -> None:
    """Keep jobs from being cancelled until the transaction ends. Raises LeaseLost.

    The transaction leaves marks of them.
    """
    if not job_ids:
        return
    held = select(jobs.c.status).where(jobs.c.id.in_(job_ids)).order_by(jobs.c.position).with_for_update(read=True)
    if JobStatus.CANCELLED.value in connection.execute(held).scalars().all():
        raise LeaseLost("a job of this commit was cancelled")


def _is_committing(connection: Connection, job_id: str) -> bool:
    """Whether the job has committed, or is about to."""
    marks = (select(table.c.job_id).where(table.c.job_id == job_id) for table in (job_commits, commit_intent_jobs))
    return any(connection.execute(mark).one_or_none() is not None for mark in marks)


def _take(connection: Connection, ready: _Ready, values: Mapping[str, object], worker: str) -> Lease | None:
    job_id = connection.execute(ready.locked, values).scalar_one_or_none()
    if job_id is None:
        return None
    found = connection.execute(_TAKE, {**values, "taken": job_id, "taken_by": worker}).one()
    return Lease(job=_job(found), worker=worker, fence=found.fence, until=found.leased_until)


@dataclass(frozen=True, slots=True)
class _Ready:
    """The id of the oldest job that may be leased at `now`, to look or to lock."""

    looked_at: Select[tuple[str]]
    locked: Select[tuple[str]]

    @classmethod
    def where(cls, *conditions: ColumnElement[bool]) -> _Ready:
        looked_at = _ready().where(*conditions)
        return cls(looked_at, looked_at.with_for_update(of=jobs, skip_locked=True))


def _times(now: Instant, lease_ms: int) -> Mapping[str, object]:
    return {"now": now, "lease_end": _after(now, lease_ms)}


def _ready() -> Select[tuple[str]]:
    """Ready jobs; rows written after `lease_end` are of a clock that was ahead.

    Their times mean nothing.
    """
    now, lease_end = (bindparam(name, type_=jobs.c.due_at.type) for name in ("now", "lease_end"))
    others = jobs.alias()
    goes_first = (others.c.status == _RUNNING) | (others.c.position < jobs.c.position)
    blocked = exists().where(
        others.c.dataset_id == jobs.c.dataset_id,
        others.c.position != jobs.c.position,
        is_unfinished(others.c.status),
        goes_first,
    )
    ahead = jobs.c.updated_at > lease_end
    expired = (jobs.c.status == _RUNNING) & ((jobs.c.leased_until <= now) | ahead)
    due = (jobs.c.status == _QUEUED) & ((jobs.c.due_at <= now) | ahead) & ~blocked
    return select(jobs.c.id).where(is_unfinished(jobs.c.status), expired | due).order_by(jobs.c.position).limit(1)


def _taken() -> ReturningUpdate[tuple[object, ...]]:
    return (
        update(jobs)
        .where(jobs.c.id == bindparam("taken"))
        .values(
            status=_RUNNING,
            attempts=jobs.c.attempts + 1,
            fence=jobs.c.fence + 1,
            worker=bindparam("taken_by"),
            leased_until=bindparam("lease_end"),
            updated_at=bindparam("now"),
        )
        .returning(jobs)
    )


# Made once: workers ask them all the time, and making one takes longer than asking it.
_READY: Mapping[Lane | None, _Ready] = {
    None: _Ready.where(),
    **{lane: _Ready.where(jobs.c.kind.in_([kind.value for kind in JobKind if kind.lane is lane])) for lane in Lane},
}
_READY_ONE = _Ready.where(jobs.c.id == bindparam("wanted"))
_TAKE = _taken()


def _held(lease: Lease) -> tuple[ColumnElement[bool], ...]:
    return (jobs.c.id == lease.job.id, jobs.c.fence == lease.fence, jobs.c.status == _RUNNING)


def _after(now: Instant, millis: int) -> Instant:
    return Instant(now.epoch_ns + millis * NANOS_PER_MILLI)


def _new_values(job: NewJob, now: Instant) -> dict[str, object]:
    return {
        "id": job.id,
        "kind": job.kind.value,
        "account": job.account,
        "dataset_id": job.dataset_id,
        "about_id": job.about,
        "request": job.request,
        "dedup_key": job.dedup_key,
        "status": _QUEUED,
        "attempts": 0,
        "due_at": now,
        "fence": 0,
        "created_at": now,
        "updated_at": now,
    }


def _job(row: Row[tuple[object, ...]]) -> Job:
    return Job(
        id=row.id,
        kind=JobKind(row.kind),
        account=row.account,
        dataset_id=row.dataset_id,
        request=row.request,
        dedup_key=row.dedup_key,
        status=JobStatus(row.status),
        progress=row.progress,
        result=row.result,
        error=row.error,
        attempts=row.attempts,
        created_at=row.created_at,
        updated_at=row.updated_at,
        about=row.about_id,
    )
