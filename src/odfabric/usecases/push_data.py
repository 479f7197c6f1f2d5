"""Push data to a root dataset: accept (durable), then commit exactly once.

Accepting stages the body and queues a job; the job row and the staged object are the push log until the commit. Invariant: a push
that was accepted is in the chain exactly once, whatever dies: the commit's transaction marks the job, and a key is sealed in
the block itself. Source: RULINGS 5, 7, 9, 12; reference behaviour of `POST /{dataset}/ingest`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from odfabric.domain.idempotency import IdempotencyEntry, idempotency_key_hash
from odfabric.domain.ingest_plan import push_source
from odfabric.domain.media_types import read_step_for
from odfabric.errors import Corrupt, IdempotencyKeyReused, InvalidRequest
from odfabric.formats.did import parse_dataset_id
from odfabric.formats.multihash import parse_multihash
from odfabric.formats.physical_hash import physical_hash
from odfabric.model.commit import CatalogEntry, Head
from odfabric.model.identity import DatasetRef
from odfabric.model.instant import Instant
from odfabric.model.job import Job, JobKind, NewJob
from odfabric.model.metadata import DatasetKind
from odfabric.model.multihash import Multihash
from odfabric.ports.clock import Clock, Entropy
from odfabric.ports.engine import Engine
from odfabric.ports.exchange import Exchange
from odfabric.ports.jobs import Jobs
from odfabric.ports.object_store import ObjectStore
from odfabric.ports.state_index import StateIndex
from odfabric.usecases.commit import Commits, PlannedCommit
from odfabric.usecases.commit_result import CommitResult, result_of, result_of_block
from odfabric.usecases.ingest import IngestInput, plan_ingest
from odfabric.usecases.job_run import JobRun
from odfabric.usecases.repository import Repository
from odfabric.usecases.staging import StagedBody, discard_staged, stage_body

ROUTE = "ingest"
IDEMPOTENCY_KEY_CHARACTERS_MAX = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class PushData:
    """One push. `file_name` is what errors call the data; `event_time` fills null event times."""

    dataset: DatasetRef
    account: str
    body: Iterator[bytes]
    file_name: str = "body"
    source_name: str | None = None
    media_type: str | None = None
    event_time: Instant | None = None
    idempotency_key: str | None = None
    if_match: Multihash | None = None


def accept_push(
    request: PushData,
    *,
    repository: Repository,
    jobs: Jobs,
    objects: ObjectStore,
    clock: Clock,
    entropy: Entropy,
) -> Job | CommitResult:
    """Check what can be checked, stage the body, queue the job. A key that was committed answers what it answered then.

    Raises NotFound, SourceNotFound, UnsupportedMediaType, InvalidRequest before the body is read; IdempotencyKeyReused.
    """
    entry = repository.resolve(request.dataset)
    _check_acceptable(entry, request, repository=repository)
    staged = stage_body(request.body, objects=objects, entropy=entropy)
    key_hash = _key_hash(entry, request)
    if key_hash is not None:
        known = _known_result(entry, key_hash, staged.digest, repository=repository)
        if known is not None:
            discard_staged(staged.key, objects=objects)
            return known
    job = jobs.enqueue(_new_job(entry, request, staged, key_hash, entropy=entropy), now=clock.now())
    accepted = json.loads(job.request)
    if accepted["staged"] != staged.key:
        discard_staged(staged.key, objects=objects)
        if accepted["digest"] != staged.digest.hex():
            raise _key_reused()
    return job


def run_push(
    job: Job,
    run: JobRun,
    *,
    repository: Repository,
    commits: Commits,
    engine: Engine,
    exchange: Exchange,
    objects: ObjectStore,
    index: StateIndex | None = None,
) -> CommitResult:
    """Commit an accepted push, or find that it is committed already. Raises what `plan_ingest` and `commit` raise."""
    pushed = json.loads(job.request)
    dataset = parse_dataset_id(pushed["dataset"])
    entry = repository.resolve(dataset)
    earlier = _committed_by(job, repository=repository, commits=commits)
    if earlier is not None:
        return earlier
    digest = bytes.fromhex(pushed["digest"])
    entries: tuple[IdempotencyEntry, ...] = ()
    if pushed["keyHash"] is not None:
        key_hash = bytes.fromhex(pushed["keyHash"])
        known = _known_result(entry, key_hash, digest, repository=repository)
        if known is not None:
            return known
        entries = (IdempotencyEntry(key_hash, digest),)
    with exchange.session() as folder:
        path = folder / "pushed"
        objects.materialize(pushed["staged"], path)
        if physical_hash(path)[0].digest != digest:
            raise Corrupt("the staged body is damaged", object_name=pushed["staged"])

        def build(base: Head) -> PlannedCommit | None:
            source = push_source(repository.state(dataset, base.hash), pushed["sourceName"])
            given = IngestInput(
                folder=folder,
                paths=(path,),
                names=(pushed["fileName"],),
                read=read_step_for(source.read, pushed["mediaType"]),
                preprocess=source.preprocess,
                merge=source.merge,
                source_name=source.source_name,
                event_time=Instant.parse(pushed["eventTime"]) if pushed["eventTime"] else None,
                idempotency=entries,
            )
            return plan_ingest(
                dataset,
                base,
                given,
                run=run,
                repository=repository,
                engine=engine,
                exchange=exchange,
                objects=objects,
                index=index,
            )

        if_match = parse_multihash(pushed["ifMatch"]) if "ifMatch" in pushed else None
        committed = commits.commit(dataset, build, if_match=if_match, job_id=run.job_id)
    return result_of(committed) if committed else CommitResult(head=repository.head(dataset).hash)


def committed_push(job: Job, *, repository: Repository, commits: Commits) -> dict[str, object] | None:
    """The result of a push that has committed, published; None for one that has not, and for other jobs."""
    found = _committed_by(job, repository=repository, commits=commits) if job.kind is JobKind.PUSH else None
    return found.to_value() if found else None


def _committed_by(job: Job, *, repository: Repository, commits: Commits) -> CommitResult | None:
    dataset = parse_dataset_id(json.loads(job.request)["dataset"])
    block = commits.chains.commit_of_job(job.id)
    if block is None:
        return None
    commits.publish(dataset)
    return result_of_block(block, blocks=repository.blocks(dataset))


def _check_acceptable(entry: CatalogEntry, request: PushData, *, repository: Repository) -> None:
    if entry.kind is not DatasetKind.ROOT:
        raise InvalidRequest(
            f"{entry.alias} is a derivative dataset", hint="push to its inputs; they are root datasets"
        )
    if entry.remote_url is not None:
        raise InvalidRequest(f"{entry.alias} is a copy of {entry.remote_url}", hint="push to the original")
    key = request.idempotency_key
    if key is not None and not 0 < len(key) <= IDEMPOTENCY_KEY_CHARACTERS_MAX:
        raise InvalidRequest(
            f"an idempotency key has 1 to {IDEMPOTENCY_KEY_CHARACTERS_MAX} characters", hint="use a UUID"
        )
    _, state = repository.current(entry.id)
    read_step_for(push_source(state, request.source_name).read, request.media_type)


def _key_hash(entry: CatalogEntry, request: PushData) -> bytes | None:
    if request.idempotency_key is None:
        return None
    route = f"{ROUTE}/{entry.id}/{request.source_name or ''}"
    return idempotency_key_hash(account=request.account.lower(), route=route, key=request.idempotency_key)


def _known_result(
    entry: CatalogEntry, key_hash: bytes, digest: bytes, *, repository: Repository
) -> CommitResult | None:
    record = repository.chains.idempotency(entry.id, key_hash)
    if record is None:
        return None
    if record.body_digest != digest:
        raise _key_reused()
    return result_of_block(record.block_hash, blocks=repository.blocks(entry.id))


def _key_reused() -> IdempotencyKeyReused:
    return IdempotencyKeyReused(
        "the idempotency key was used for another body", hint="send the same body again, or choose a new key"
    )


def _new_job(
    entry: CatalogEntry, request: PushData, staged: StagedBody, key_hash: bytes | None, *, entropy: Entropy
) -> NewJob:
    document: dict[str, object] = {
        "dataset": str(entry.id),
        "staged": staged.key,
        "digest": staged.digest.hex(),
        "fileName": request.file_name,
        "sourceName": request.source_name,
        "mediaType": request.media_type,
        "eventTime": str(request.event_time) if request.event_time else None,
        "keyHash": key_hash.hex() if key_hash else None,
    }
    if request.if_match is not None:
        document["ifMatch"] = str(request.if_match)
    return NewJob(
        id=entropy.random_bytes(16).hex(),
        kind=JobKind.PUSH,
        account=request.account,
        dataset_id=entry.id,
        request=json.dumps(document),
        dedup_key=f"push/{key_hash.hex()}" if key_hash else None,
    )
