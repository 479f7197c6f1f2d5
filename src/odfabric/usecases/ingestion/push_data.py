"""Accept pushes to a root dataset: durable before they are answered.

Accepting stages the body and queues a job; the job row with its body, or with the staged object that it names, is the push log until
the commit. Invariant: whatever was accepted is durable, and one key is one push. Not here: committing (`run_push`). Source: ADR 0019.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from odfabric.domain.ingestion.idempotency import idempotency_key_hash
from odfabric.domain.ingestion.ingest_plan import push_source
from odfabric.domain.ingestion.media_types import read_step_for
from odfabric.domain.people.access import Action, Subject, owner_of
from odfabric.errors import InvalidRequest, LimitExceeded
from odfabric.formats.jobs.push_request import read_push_request, write_push_request
from odfabric.model.commit import CatalogEntry
from odfabric.model.identity import DatasetRef
from odfabric.model.instant import Instant
from odfabric.model.jobs.job import Job, JobKind, NewJob
from odfabric.model.jobs.requests import PushRequest
from odfabric.model.metadata import DatasetKind
from odfabric.model.multihash import Multihash
from odfabric.ports.datasets.object_store import ObjectStore
from odfabric.ports.jobs.jobs import Jobs
from odfabric.ports.node.clock import Clock, Entropy
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.heads.head_writer import HeadWriter
from odfabric.usecases.heads.signed_here import check_signed_here
from odfabric.usecases.ingestion.commit_result import CommitResult
from odfabric.usecases.ingestion.run_push import key_reused, known_result
from odfabric.usecases.ingestion.staging import StagedBody, discard_staged, stage_body
from odfabric.usecases.jobs.job_actor import account_of, envelope_of
from odfabric.usecases.rights.access import Access
from odfabric.usecases.rights.account_quotas import AccountQuotas

ROUTE = "ingest"
IDEMPOTENCY_KEY_CHARACTERS_MAX = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class PushData:
    """One push.

    `file_name` is what errors call the data; `event_time` fills null event times. `allow_shrink` confirms that a
    Snapshot loses most of its rows.

    The body is taken in as it arrives, or was staged before: then it is this push's from now on.
    """

    dataset: DatasetRef
    body: Iterator[bytes] | StagedBody
    file_name: str = "body"
    source_name: str | None = None
    media_type: str | None = None
    event_time: Instant | None = None
    idempotency_key: str | None = None
    if_match: Multihash | None = None
    allow_shrink: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PushQueueLimits:
    """Most pushes that wait for their commit, and how long one more is asked to wait.

    Pushes that arrive at once may exceed it a little.
    """

    per_dataset_max: int
    per_account_max: int
    retry_after_s: int = 5

    def check(self, entry: CatalogEntry, account: str, *, jobs: Jobs) -> None:
        """Raises LimitExceeded."""
        queues = (
            ("dataset", self.per_dataset_max, jobs.pushes_waiting(dataset=entry.id, limit=self.per_dataset_max)),
            ("account", self.per_account_max, jobs.pushes_waiting(account=account, limit=self.per_account_max)),
        )
        for whose, maximum, waiting in queues:
            if waiting >= maximum:
                raise LimitExceeded(
                    f"{waiting} pushes of this {whose} wait for their commit",
                    limit=f"pushes_queued_per_{whose}_max",
                    maximum=maximum,
                    retry_after_s=self.retry_after_s,
                )


def accept_push(
    request: PushData,
    *,
    subject: Subject,
    access: Access,
    quotas: AccountQuotas,
    repository: Repository,
    jobs: Jobs,
    objects: ObjectStore,
    clock: Clock,
    entropy: Entropy,
    inline_bytes_max: int,
    queue: PushQueueLimits,
    signs: HeadWriter,
    staging_part: str = "",
) -> Job | CommitResult:
    """Check what can be checked, stage the body, queue the job.

    A key that was committed answers what it answered then.

    A body of `inline_bytes_max` bytes or fewer goes with the job, a larger one into this node's `staging_part` of the objects.

    Raises NotFound, AccessDenied, SourceNotFound, UnsupportedMediaType, InvalidRequest, LimitExceeded before the body is read;
    IdempotencyKeyReused.
    """
    entry = repository.resolve(request.dataset)
    access.require(subject, Action.PUSH, entry)
    quotas.take_push(subject)
    quotas.check_more_bytes(owner_of(entry.alias))
    queue.check(entry, account_of(subject), jobs=jobs)
    _check_acceptable(entry, request, repository=repository)
    check_signed_here(entry, signs)
    staged = (
        request.body
        if isinstance(request.body, StagedBody)
        else stage_body(
            request.body, objects=objects, entropy=entropy, inline_bytes_max=inline_bytes_max, part=staging_part
        )
    )
    key_hash = _key_hash(entry, request, subject)
    if key_hash is not None:
        known = known_result(entry.id, key_hash, staged.digest, repository=repository)
        if known is not None:
            discard_staged(staged, objects=objects)
            return known
    new = _new_job(entry, request, subject, staged, key_hash, entropy=entropy)
    job = jobs.enqueue(new, now=clock.now())
    if job.id != new.id:
        queued = read_push_request(job)
        if queued.staged != staged.key:  # the same upload once more is the body of that job
            discard_staged(staged, objects=objects)
        if queued.digest != staged.digest:
            raise key_reused()
    return job


def _check_acceptable(entry: CatalogEntry, request: PushData, *, repository: Repository) -> None:
    if entry.kind is not DatasetKind.ROOT:
        raise InvalidRequest(
            f"{entry.alias} is a derivative dataset", hint="push to its inputs; they are root datasets"
        )
    if entry.is_copy:
        raise InvalidRequest(
            f"{entry.alias} is a copy of {entry.remote_url}",
            hint="push to the original, or move its key here: `odf key export` there, `odf key import` here",
        )
    key = request.idempotency_key
    if key is not None and not 0 < len(key) <= IDEMPOTENCY_KEY_CHARACTERS_MAX:
        raise InvalidRequest(
            f"an idempotency key has 1 to {IDEMPOTENCY_KEY_CHARACTERS_MAX} characters", hint="use a UUID"
        )
    _, state = repository.current(entry.id)
    read_step_for(push_source(state, request.source_name).read, request.media_type)


def _key_hash(entry: CatalogEntry, request: PushData, subject: Subject) -> bytes | None:
    if request.idempotency_key is None or subject.account is None:
        return None
    route = f"{ROUTE}/{entry.id}/{request.source_name or ''}"
    return idempotency_key_hash(account=subject.account.name.folded, route=route, key=request.idempotency_key)


def _new_job(
    entry: CatalogEntry,
    request: PushData,
    subject: Subject,
    staged: StagedBody,
    key_hash: bytes | None,
    *,
    entropy: Entropy,
) -> NewJob:
    accepted = PushRequest(
        dataset=entry.id,
        staged=staged.key,
        digest=staged.digest,
        size=staged.size,
        file_name=request.file_name,
        source_name=request.source_name,
        media_type=request.media_type,
        event_time=request.event_time,
        key_hash=key_hash,
        if_match=request.if_match,
        allow_shrink=request.allow_shrink,
    )
    return NewJob(
        id=entropy.random_bytes(16).hex(),
        kind=JobKind.PUSH,
        account=account_of(subject),
        dataset_id=entry.id,
        request=write_push_request(accepted, envelope_of(subject)),
        dedup_key=f"push/{key_hash.hex()}" if key_hash else None,
        body=staged.body,
    )
