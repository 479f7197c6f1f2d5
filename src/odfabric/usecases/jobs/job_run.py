"""The job that a verb is run for: its id, its progress, and memory over attempts.

Owns the progress document of a job row. Invariant: the system time of an attempt is fixed per (job, base head) and durable before
the engine runs, so that a repeated attempt on the same base makes the same bytes.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from odfabric.domain.chain.append import next_system_time
from odfabric.domain.chain.state import ChainState
from odfabric.errors import Determinate
from odfabric.formats.identifiers.multihash import parse_multihash
from odfabric.model.engine import EngineProgress
from odfabric.model.identity import DatasetId
from odfabric.model.instant import Instant
from odfabric.model.jobs.job import Job, Lease
from odfabric.model.multihash import Multihash
from odfabric.model.people.audit import Actor
from odfabric.ports.jobs.jobs import Jobs
from odfabric.ports.node.clock import Clock
from odfabric.usecases.jobs.job_actor import actor_of


class JobRun(Protocol):
    """What a verb sees of its job."""

    @property
    def job_id(self) -> str:
        """Marks the commit."""

    @property
    def actor(self) -> Actor:
        """Who has asked for it."""

    def report(self, progress: EngineProgress) -> None:
        """Tell anyone who watches how far the work is.

        Raises LeaseLost if the job is no longer ours.
        """

    def confirm(self) -> None:
        """Asked when all is ready to be committed.

        Raises LeaseLost if the job was cancelled or taken over meanwhile.
        """

    def system_time(self, base: ChainState) -> Instant:
        """The system time of blocks to be built on `base`. Raises LeaseLost."""

    def began_at(self, dataset: DatasetId, head: Multihash) -> Multihash:
        """The head when the job began: `head` at its first attempt, remembered over all.

        It is stored with the next heartbeat, and before a commit there is one.
        """

    def following(self, *, limit: int) -> Sequence[Job]:
        """Jobs of the same dataset directly behind this one that nobody has tried yet."""

    def take_along(self, job_ids: Sequence[str]) -> None:
        """Do these jobs together with this one: they end with it or wait their turn."""


class LeasedRun:
    """A leased job.

    Progress is written at most every `report_ms`, together with a longer lease.

    `listener` gets the progress too; `stopping` is asked whether the one that runs the job wants to end.
    """

    def __init__(self, lease: Lease, *, jobs: Jobs, clock: Clock, lease_ms: int, report_ms: int = 500) -> None:
        self.lease = lease
        # The job and the one that keeps it alive store one document: an older one must not come after a newer one.
        self._storing = threading.Lock()
        self._jobs = jobs
        self._clock = clock
        self._lease_ms = lease_ms
        self._report_ms = report_ms
        self._document: dict[str, object] = json.loads(lease.job.progress or "{}")
        self._reported_at = lease.job.updated_at
        self.listener: Callable[[Mapping[str, object]], None] = lambda _: None
        self.stopping: Callable[[], bool] = lambda: False
        self.together: tuple[str, ...] = ()

    @property
    def job_id(self) -> str:
        """The job's id."""
        return self.lease.job.id

    @property
    def actor(self) -> Actor:
        """Who has asked for it."""
        return actor_of(self.lease.job)

    def report(self, progress: EngineProgress) -> None:
        """Store stage, done and total, if the last report is old enough.

        Raises Determinate once `stopping` says so: the job is given back, as far as it has not begun to commit.
        """
        if self.stopping():
            raise Determinate("the worker is stopping")
        self._document.update(stage=progress.stage, done=progress.done, total=progress.total)
        if progress.unit:
            self._document["unit"] = progress.unit
        else:
            self._document.pop("unit", None)
        self.listener(self._document)
        if self._clock.now().millis - self._reported_at.millis >= self._report_ms:
            self.heartbeat()

    def confirm(self) -> None:
        """See the protocol.

        Raises Determinate if a job that was taken along was cancelled.
        """
        self.heartbeat()
        if self.together and self._jobs.queued(self.together) != frozenset(self.together):
            raise Determinate("a push that was to be committed with others was cancelled")

    def following(self, *, limit: int) -> Sequence[Job]:
        """See the protocol."""
        return self._jobs.following(self.lease, limit=limit)

    def began_at(self, dataset: DatasetId, head: Multihash) -> Multihash:
        """See the protocol."""
        began = self._document.setdefault("began", {})
        assert isinstance(began, dict)
        if str(dataset) not in began:
            began[str(dataset)] = str(head)
        return parse_multihash(began[str(dataset)])

    def take_along(self, job_ids: Sequence[str]) -> None:
        """See the protocol."""
        self.together = tuple(job_ids)

    def heartbeat(self) -> None:
        """Prolong the lease and store the progress. Raises LeaseLost."""
        with self._storing:
            now = self._clock.now()
            self.lease = self._jobs.heartbeat(
                self.lease, now=now, lease_ms=self._lease_ms, progress=json.dumps(dict(self._document))
            )
            self._reported_at = now

    def system_time(self, base: ChainState) -> Instant:
        """The time remembered for this base, else a new one, remembered before it is used."""
        remembered = self._document.get("systemTime")
        if self._document.get("base") == str(base.head) and isinstance(remembered, str):
            return Instant.parse(remembered)
        chosen = next_system_time(base, now=self._clock.now())
        self._document.update(base=str(base.head), systemTime=str(chosen))
        self.heartbeat()
        return chosen
