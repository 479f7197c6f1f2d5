"""Durable jobs: rows that remember work.

Celery or a polling runner only wake those who do it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from odfabric.model.identity import DatasetId
from odfabric.model.instant import Instant


class JobStatus(Enum):
    """`queued -> running -> succeeded | failed | cancelled`.

    A lost lease leads from running back to queued.
    """

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def final(self) -> bool:
        """Whether nothing more will happen to the job."""
        return self in (JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.CANCELLED)


class Lane(Enum):
    """Which jobs a thread takes: those that keep the engine busy, or light ones.

    Light ones should not wait behind the others.
    """

    HEAVY = "heavy"
    LIGHT = "light"


class JobKind(Enum):
    """What a job does; what it is asked for depends on that (`model.jobs.requests`)."""

    PUSH = "push"
    PULL = "pull"
    VERIFY = "verify"
    INDEX = "index"
    JUDGE = "judge"
    TRY = "try"
    SEND = "send"
    COMPACT = "compact"
    WHY = "why"

    @property
    def lane(self) -> Lane:
        """Files are judged, indexes built, datasets sent and compacted without the engine."""
        return Lane.LIGHT if self in _WITHOUT_ENGINE else Lane.HEAVY


_WITHOUT_ENGINE = frozenset({JobKind.INDEX, JobKind.JUDGE, JobKind.SEND, JobKind.COMPACT})


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """A job to be queued.

    `request` is JSON text that `formats.jobs` writes. Of unfinished jobs with one `dedup_key` only one exists.

    `body` is what the job works on, if that is small: it is as durable as the row, and gone when the job has ended. `about` is the dataset
    that a job concerns without being of its queue: neither waits for the other.
    """

    id: str
    kind: JobKind
    account: str
    dataset_id: DatasetId | None
    request: str
    dedup_key: str | None = None
    body: bytes | None = None
    about: DatasetId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job row.

    `progress`, `result` and `error` are JSON texts; `error` is a problem document.
    """

    id: str
    kind: JobKind
    account: str
    dataset_id: DatasetId | None
    request: str
    dedup_key: str | None
    status: JobStatus
    progress: str | None
    result: str | None
    error: str | None
    attempts: int
    created_at: Instant
    updated_at: Instant
    about: DatasetId | None = None

    @property
    def concerns(self) -> DatasetId | None:
        """The dataset in whose queue it is, or that it is about."""
        return self.dataset_id or self.about


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The right to work on a job until `until`.

    `fence` grows with each lease of the job.
    """

    job: Job
    worker: str
    fence: int
    until: Instant
