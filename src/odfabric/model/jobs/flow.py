"""Flows keep a dataset up to date: when they run, and their runs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from odfabric.model.identity import DatasetId
from odfabric.model.instant import Instant
from odfabric.model.multihash import Multihash

FAILURES_DEFAULT = 5
"""Failed runs in a row after which a flow stops, if nobody has decided otherwise."""


class FlowKind(Enum):
    """What a run of a flow does: one job of the kind `pull`, or `verify`."""

    POLL = "poll"
    TRANSFORM = "transform"
    MIRROR = "mirror"
    VERIFY = "verify"


@dataclass(frozen=True, slots=True)
class Every:
    """A run starts `seconds` after the last one started."""

    seconds: int


@dataclass(frozen=True, slots=True)
class Cron:
    """Five fields (minute, hour, day, month, weekday) in an IANA zone's wall time."""

    expression: str
    zone: str = "UTC"


@dataclass(frozen=True, slots=True)
class Reactive:
    """Start a run when inputs have moved.

    At once, or as soon as `records_min` records wait or the first has waited `wait_s`.

    Without `wait_s` the number of records alone decides, without `records_min` the time.
    """

    records_min: int = 0
    wait_s: int = 0

    @property
    def at_once(self) -> bool:
        """Whether nothing is awaited."""
        return self.records_min == 0 and self.wait_s == 0


Trigger: TypeAlias = Every | Cron | Reactive


class Backoff(Enum):
    """How the pauses between attempts grow."""

    FIXED = "fixed"
    LINEAR = "linear"
    EXPONENTIAL = "exponential"
    EXPONENTIAL_WITH_JITTER = "exponential-with-jitter"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Attempts of a run after the first one, with pauses in seconds.

    Only outside failures are tried again.
    """

    attempts_max: int = 3
    pause_s: int = 10
    backoff: Backoff = Backoff.EXPONENTIAL_WITH_JITTER


class Overlap(Enum):
    """Whether a scheduled run waits for an unfinished run before it or is skipped."""

    QUEUE_ONE = "queue-one"
    SKIP = "skip"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowRule:
    """What people decide about a flow.

    A run that could not start within `latest_start_s` is dropped and shown as missed; after `failures_max` failed runs in a row
    the flow stops. `fetch_uncacheable` polls a source that cannot tell what is new; `recompute` drops the rows of a derivative whose
    input was rewritten, and computes them from the beginning.
    """

    trigger: Trigger
    retry: RetryPolicy = RetryPolicy()
    overlap: Overlap = Overlap.QUEUE_ONE
    latest_start_s: int | None = None
    failures_max: int | None = FAILURES_DEFAULT
    fetch_uncacheable: bool = False
    recompute: bool = False


@dataclass(frozen=True, slots=True)
class FlowStop:
    """Why a flow stopped by itself.

    With `head` it goes on when the dataset's own head is another: its query or source has changed.
    """

    reason: str
    at: Instant
    head: Multihash | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """One way in which a dataset is kept up to date; it has at most one of each kind.

    `owner` is the id of the account with whose rights it runs; `failures` counts failed runs in a row; `next_at` is when a schedule
    starts the next run. `version` grows with each write.
    """

    id: str
    dataset_id: DatasetId
    kind: FlowKind
    owner: str
    rule: FlowRule
    created_at: Instant
    updated_at: Instant
    is_default: bool = False
    paused: bool = False
    stop: FlowStop | None = None
    failures: int = 0
    next_at: Instant | None = None
    last_at: Instant | None = None
    version: int = 0

    @property
    def active(self) -> bool:
        """Whether runs start by themselves."""
        return not self.paused and self.stop is None


class CauseKind(Enum):
    """Why there is a run."""

    SCHEDULE = "schedule"
    INPUT = "input"
    CHANGE = "change"
    HAND = "hand"


@dataclass(frozen=True, slots=True)
class Cause:
    """One reason for a run: `dataset` moved, or `who` (a name) wanted it."""

    kind: CauseKind
    at: Instant
    dataset: DatasetId | None = None
    who: str | None = None


class RunStatus(Enum):
    """`waiting -> running -> succeeded | failed | cancelled`, or `waiting -> missed`.

    Another attempt leads from running back to waiting.
    """

    WAITING = "waiting"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    MISSED = "missed"

    @property
    def final(self) -> bool:
        """Whether nothing more will happen to the run."""
        return self not in (RunStatus.WAITING, RunStatus.RUNNING)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowRun:
    """One run of a flow; at most one of a flow waits and one runs.

    Runs that one move of a head has caused have one `wave`; a merged run has that of its first cause. Of many causes the first ones are
    kept, `cause_count` counts all. `job_id` is the job of the last attempt, `result` and `error` are what that left (JSON texts).
    """

    id: str
    flow_id: str
    dataset_id: DatasetId
    wave: int
    causes: tuple[Cause, ...]
    cause_count: int
    due_at: Instant
    created_at: Instant
    updated_at: Instant
    status: RunStatus = RunStatus.WAITING
    attempt: int = 1
    job_id: str | None = None
    started_at: Instant | None = None
    ended_at: Instant | None = None
    result: str | None = None
    error: str | None = None
    version: int = 0
