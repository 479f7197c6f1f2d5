"""Verify one block while somebody waits, and say when a dataset was verified last.

Invariant: hashes are computed from stored bytes; a check names the object that it is about. What only the whole chain or the engine can
tell - that a transform gives these rows - is for `verify_dataset`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from odfabric.domain.chain.state import ChainState
from odfabric.domain.chain.validate import validate_append
from odfabric.domain.chain.verify import verify_checkpoint
from odfabric.domain.chain.walk import ChainLink
from odfabric.errors import Corrupt, InvalidInput, NotFound
from odfabric.formats.identifiers.dataset_layout import CHECKPOINTS, DATA, object_key
from odfabric.formats.identifiers.physical_hash import physical_hash
from odfabric.formats.jobs.verify_request import read_verify_request
from odfabric.model.commit import CatalogEntry
from odfabric.model.instant import Instant
from odfabric.model.jobs.job import Job, JobKind, JobStatus
from odfabric.model.metadata import AddData, Checkpoint, DataSlice, ExecuteTransform
from odfabric.model.multihash import Multihash
from odfabric.ports.datasets.exchange import Exchange
from odfabric.ports.jobs.jobs import Jobs
from odfabric.usecases.chain.check_slice import slice_problems
from odfabric.usecases.chain.repository import Repository

JOBS_LOOKED_AT = 200
"""Newest jobs of a dataset among which its last verification is looked for."""


class Checked(Enum):
    """What a check is about."""

    BLOCK = "block"
    PREVIOUS = "previous"
    FOLLOWING = "following"
    DATA = "data"
    CHECKPOINT = "checkpoint"


@dataclass(frozen=True, slots=True)
class BlockCheck:
    """A check of one object; no problems: it is what the chain says."""

    what: Checked
    object: Multihash
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LastVerification:
    """The last verification: all up to `block` was checked, `behind` blocks follow.

    `is_whole` says that rows were checked too and transactions run again, as far as there are any and nothing was skipped.
    """

    job_id: str
    at: Instant
    block: Multihash
    sequence_number: int
    behind: int
    problems: int
    is_whole: bool


def verify_block(
    entry: CatalogEntry, wanted: Multihash, *, now: Instant, repository: Repository, exchange: Exchange
) -> list[BlockCheck]:
    """All checks of a block of this very chain. Raises NotFound for another one."""
    row = repository.chains.row(entry.id, wanted)
    if row is None:
        raise NotFound("block", str(wanted), hint=f"it is not in the chain of {entry.alias}")
    blocks = repository.blocks(entry.id)
    try:
        link = ChainLink(wanted, blocks.get(wanted))
    except (NotFound, Corrupt) as error:
        return [BlockCheck(Checked.BLOCK, wanted, (_missing(error),))]
    checks = []
    before, previous = _before(entry, link, repository)
    problem = None if before is None else _fit(before, link, now)
    checks.append(BlockCheck(Checked.BLOCK, wanted, (problem,) if problem else ()))
    checks += [previous] if previous else []
    checks += _following(entry, link, repository)
    if before is not None and problem is None:
        checks += _objects(entry, link, before, repository, exchange)
    return checks


def last_verification(entry: CatalogEntry, *, repository: Repository, jobs: Jobs) -> LastVerification | None:
    """Of the newest jobs of the dataset; None without a verification with its end.

    A verification of old releases does not say up to where it went.
    """
    for job in jobs.page(dataset=entry.id, limit=JOBS_LOOKED_AT):
        if job.kind is JobKind.VERIFY and job.status is JobStatus.SUCCEEDED:
            found = _verification(entry, job, repository)
            if found is not None:
                return found
    return None


def _before(
    entry: CatalogEntry, link: ChainLink, repository: Repository
) -> tuple[ChainState | None, BlockCheck | None]:
    """The state below the block (None: unreadable), and the check of its link.

    The seed has none.
    """
    previous = link.block.prev_block_hash
    if previous is None:
        return ChainState.empty(), None
    try:
        state = repository.state(entry.id, previous)
        repository.blocks(entry.id).get(previous)
    except (NotFound, Corrupt, InvalidInput) as error:
        return None, BlockCheck(Checked.PREVIOUS, previous, (_missing(error),))
    return state, BlockCheck(Checked.PREVIOUS, previous)


def _fit(before: ChainState, link: ChainLink, now: Instant) -> str | None:
    try:
        validate_append(before, link.block, now=now)
    except InvalidInput as error:
        return error.message
    return None


def _following(entry: CatalogEntry, link: ChainLink, repository: Repository) -> Iterator[BlockCheck]:
    number = link.block.sequence_number + 1
    row = next(iter(repository.chains.rows_down(entry.id, from_sequence=number)), None)
    if row is None or row.sequence_number != number:
        return
    try:
        named = repository.blocks(entry.id).get(row.hash).prev_block_hash
    except (NotFound, Corrupt) as error:
        yield BlockCheck(Checked.FOLLOWING, row.hash, (_missing(error),))
        return
    problems = () if named == link.hash else (f"it names {named} as the block before it",)
    yield BlockCheck(Checked.FOLLOWING, row.hash, problems)


def _objects(
    entry: CatalogEntry, link: ChainLink, before: ChainState, repository: Repository, exchange: Exchange
) -> Iterator[BlockCheck]:
    event = link.block.event
    if not isinstance(event, AddData | ExecuteTransform):
        return
    if event.new_data is not None:
        yield _slice(entry, link, before, event.new_data, repository, exchange)
    if event.new_checkpoint is not None:
        yield _checkpoint(entry, link, event.new_checkpoint, repository, exchange)


def _slice(
    entry: CatalogEntry,
    link: ChainLink,
    before: ChainState,
    declared: DataSlice,
    repository: Repository,
    exchange: Exchange,
) -> BlockCheck:
    with exchange.session() as folder:
        path = folder / "slice"
        try:
            repository.objects.materialize(object_key(entry.id, DATA, declared.physical_hash), path)
            problems = slice_problems(before, link, declared, path)
        except NotFound:
            problems = slice_problems(before, link, declared, None)
    return BlockCheck(Checked.DATA, declared.physical_hash, tuple(problem.message for problem in problems))


def _checkpoint(
    entry: CatalogEntry, link: ChainLink, declared: Checkpoint, repository: Repository, exchange: Exchange
) -> BlockCheck:
    found: Checkpoint | None = None
    with exchange.session() as folder:
        path = folder / "checkpoint"
        try:
            repository.objects.materialize(object_key(entry.id, CHECKPOINTS, declared.physical_hash), path)
            physical, size = physical_hash(path)
            found = Checkpoint(physical_hash=physical, size=size)
        except NotFound:
            pass
    problem = verify_checkpoint(entry.id, link.hash, declared=declared, found=found)
    return BlockCheck(Checked.CHECKPOINT, declared.physical_hash, (problem.message,) if problem else ())


def _missing(error: NotFound | Corrupt | InvalidInput) -> str:
    return "the block is missing" if isinstance(error, NotFound) else error.message


def _verification(entry: CatalogEntry, job: Job, repository: Repository) -> LastVerification | None:
    """None for a job without its starting head, or of a chain that was replaced.

    Jobs of old releases do not say from which head on they began.
    """
    request, result = read_verify_request(job), json.loads(job.result or "{}")
    block = request.head
    if block is None:
        return None
    row = repository.chains.row(entry.id, block)
    if row is None:
        return None
    return LastVerification(
        job_id=job.id,
        at=job.updated_at,
        block=block,
        sequence_number=row.sequence_number,
        behind=repository.head(entry.id).sequence_number - row.sequence_number,
        problems=len(result.get("errors", [])),
        is_whole=request.data and request.replay and request.after is None and not result.get("skipped"),
    )
