"""Commit accepted pushes exactly once, those that wait behind each other together.

Owns what a push job does. Invariant: a push that was accepted is in the chain exactly once, whatever dies: the transaction of the commit
marks every job whose rows it holds, and keys are sealed in the block itself. A group that is refused is taken apart: each push
then stands for itself. Not here: accepting (`push_data`), which bodies may be joined (`domain.ingestion.push_group`). Source: ADR 0019.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from odfabric.domain.ingestion.idempotency import IdempotencyEntry
from odfabric.domain.ingestion.ingest_plan import push_source
from odfabric.domain.ingestion.intake_limits import UNLIMITED, IntakeLimits
from odfabric.domain.ingestion.media_types import read_step_for
from odfabric.domain.ingestion.push_group import joined_bodies, may_be_joined
from odfabric.errors import Corrupt, Determinate, External, IdempotencyKeyReused, LeaseLost, OdfError
from odfabric.formats.identifiers.physical_hash import physical_hash
from odfabric.formats.jobs.push_request import read_push_request
from odfabric.model.commit import Head
from odfabric.model.identity import DatasetId
from odfabric.model.jobs.job import Job, JobKind
from odfabric.model.jobs.requests import PushRequest
from odfabric.model.people.audit import Actor
from odfabric.ports.jobs.jobs import Jobs
from odfabric.usecases.chain.commit import Commits, PlannedCommit
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.ingestion.commit_result import CommitResult, result_of_block, result_of_ingest
from odfabric.usecases.ingestion.ingest import IngestInput, IngestPorts, PlannedIngest, plan_ingest
from odfabric.usecases.jobs.job_actor import actor_of
from odfabric.usecases.jobs.job_run import JobRun

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class PushPorts:
    """What a push job works with."""

    ingest: IngestPorts
    commits: Commits
    jobs: Jobs
    admits: Callable[[Job], None]
    """Raises if the one who asked for a push may not push to its dataset any more."""
    intake: IntakeLimits = UNLIMITED


@dataclass(frozen=True, slots=True, kw_only=True)
class PushGroupLimits:
    """Most pushes, and most bytes of their bodies, of one commit."""

    jobs_max: int
    bytes_max: int


@dataclass(frozen=True, slots=True)
class AcceptedPush:
    """A push job with its request, and who asked for it."""

    job_id: str
    request: PushRequest
    actor: Actor

    @classmethod
    def of(cls, job: Job) -> AcceptedPush:
        """Raises Corrupt for a request that cannot be read."""
        return cls(job.id, read_push_request(job), actor_of(job))

    @property
    def may_be_first(self) -> bool:
        """Whether others may be committed with it."""
        request = self.request
        return request.staged is None and request.if_match is None and not request.allow_shrink

    def is_like(self, first: AcceptedPush) -> bool:
        """Whether it is to be read as `first` is."""
        return self.may_be_first and self._reading == first._reading

    @property
    def _reading(self) -> tuple[object, ...]:
        return self.request.source_name, self.request.media_type, self.request.event_time


def run_push(job: Job, run: JobRun, *, ports: PushPorts, group: PushGroupLimits) -> CommitResult:
    """Commit an accepted push, or find that it is committed already.

    Raises what `plan_ingest` and `commit` raise.

    Pushes that wait behind it may be committed with it; their jobs are taken along.
    """
    push = AcceptedPush.of(job)
    ports.ingest.repository.resolve(push.request.dataset)
    earlier = committed_by(job, repository=ports.ingest.repository, commits=ports.commits)
    if earlier is not None:
        return earlier
    known = _known(push, ports.ingest.repository)
    if known is not None:
        return known
    ports.admits(job)
    together = _followers(job, push, run, ports, group)
    while together:
        run.take_along([other.job_id for other in together])
        try:
            return _commit([push, *together], run, ports)
        except LeaseLost:
            run.confirm()  # if it is one of the others that was cancelled, this one goes on without it
            raise
        except External:
            raise
        except Exception as error:  # noqa: BLE001  # what is wrong with one of them is no matter of the others
            earlier = committed_by(job, repository=ports.ingest.repository, commits=ports.commits)
            if earlier is not None:
                return earlier  # all of it, and what went wrong came afterwards
            # By halves: one that is wrong costs a few attempts, not one for each that is right.
            together = together[: len(together) // 2]
            _log.info("%d pushes are not committed together: %s", len(together) + 1, error)
    run.take_along(())
    return _commit([push], run, ports)


def committed_push(job: Job, *, repository: Repository, commits: Commits) -> dict[str, object] | None:
    """The result of a push that has committed, published.

    None for one that has not, and for other jobs.
    """
    found = committed_by(job, repository=repository, commits=commits) if job.kind is JobKind.PUSH else None
    return found.to_value() if found else None


def committed_by(job: Job, *, repository: Repository, commits: Commits) -> CommitResult | None:
    """What the job has committed, published; None if it has not."""
    dataset, block = job.dataset_id, commits.chains.commit_of_job(job.id)
    if dataset is None or block is None:
        return None
    commits.publish(dataset)
    return result_of_block(block, blocks=repository.blocks(dataset))


def known_result(dataset: DatasetId, key_hash: bytes, digest: bytes, *, repository: Repository) -> CommitResult | None:
    """What a push with this key has committed, None if none has.

    Raises IdempotencyKeyReused for another body.
    """
    record = repository.chains.idempotency(dataset, key_hash)
    if record is None:
        return None
    if record.body_digest != digest:
        raise key_reused()
    return result_of_block(record.block_hash, blocks=repository.blocks(dataset))


def key_reused() -> IdempotencyKeyReused:
    """The refusal of a key that came with another body."""
    return IdempotencyKeyReused(
        "the idempotency key was used for another body", hint="send the same body again, or choose a new key"
    )


def _known(push: AcceptedPush, repository: Repository) -> CommitResult | None:
    request = push.request
    if request.key_hash is None:
        return None
    return known_result(request.dataset, request.key_hash, request.digest, repository=repository)


def _followers(
    job: Job, push: AcceptedPush, run: JobRun, ports: PushPorts, group: PushGroupLimits
) -> list[AcceptedPush]:
    """Pushes directly behind this one that may be committed with it.

    One that failed before stands for itself.
    """
    if not push.may_be_first or job.attempts > 1 or group.jobs_max < 2:
        return []
    waiting = run.following(limit=group.jobs_max - 1)
    if not waiting:
        return []
    _, state = ports.ingest.repository.current(push.request.dataset)
    source = push_source(state, push.request.source_name)
    if not may_be_joined(source, read_step_for(source.read, push.request.media_type)):
        return []
    found: list[AcceptedPush] = []
    size = push.request.size
    for behind in waiting:
        other = AcceptedPush.of(behind) if behind.kind is JobKind.PUSH and _is_admitted(behind, ports) else None
        size += other.request.size if other else 0
        if other is None or not other.is_like(push) or size > group.bytes_max:
            break
        found.append(other)
    return found


def _is_admitted(job: Job, ports: PushPorts) -> bool:
    try:
        ports.admits(job)
    except OdfError:
        return False  # it is reported so when its own turn comes
    return True


def _commit(pushes: Sequence[AcceptedPush], run: JobRun, ports: PushPorts) -> CommitResult:
    requests = [push.request for push in pushes]
    first = requests[0]
    entries = tuple(IdempotencyEntry(each.key_hash, each.digest) for each in requests if each.key_hash is not None)
    with ports.ingest.exchange.session() as folder:
        path = folder / "pushed"
        _write(pushes, path, ports)
        made: list[PlannedIngest] = []

        def build(base: Head) -> PlannedCommit | None:
            source = push_source(ports.ingest.repository.state(first.dataset, base.hash), first.source_name)
            given = IngestInput(
                folder=folder,
                paths=(path,),
                names=(first.file_name,),
                read=read_step_for(source.read, first.media_type),
                preprocess=source.preprocess,
                merge=source.merge,
                source_name=source.source_name,
                event_time=first.event_time,
                idempotency=entries,
                intake=ports.intake.confirming if first.allow_shrink else ports.intake,
            )
            planned = plan_ingest(
                first.dataset,
                base,
                given,
                run=run,
                ports=ports.ingest,
            )
            made.append(planned)
            return planned.commit

        committed = ports.commits.commit(
            first.dataset,
            build,
            if_match=first.if_match,
            job_ids=[push.job_id for push in pushes],
            by=list(dict.fromkeys(push.actor for push in pushes)),
        )
    return result_of_ingest(committed, made[-1], head=ports.ingest.repository.head(first.dataset).hash)


def _write(pushes: Sequence[AcceptedPush], path: Path, ports: PushPorts) -> None:
    """The body or bodies as the file to be ingested. Raises Corrupt."""
    (first, *others) = pushes
    staged = first.request.staged
    if staged is not None:
        ports.ingest.objects.materialize(staged, path)
        if physical_hash(path)[0].digest != first.request.digest:
            raise Corrupt("the staged body is damaged", object_name=staged)
        return
    bodies = ports.jobs.bodies([push.job_id for push in pushes])
    if first.job_id in bodies and len(bodies) < len(pushes):
        raise Determinate("a push that was to be committed with others was cancelled")
    for push in pushes:
        if hashlib.sha3_256(bodies.get(push.job_id, b"")).digest() != push.request.digest:
            raise Corrupt("the body of an accepted push is missing or damaged", object_name=push.job_id)
    in_order = [bodies[push.job_id] for push in pushes]
    path.write_bytes(joined_bodies(in_order) if others else in_order[0])
