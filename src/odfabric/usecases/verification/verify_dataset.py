"""Verify a dataset: its chain, its objects, and by re-execution its transactions.

Invariant: everything is recomputed from stored bytes; neither the index nor a matching file name is believed. All problems are
collected (up to a limit), each naming the block and object that is wrong. Source: specification, "Verification".
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass

from odfabric.domain.chain.verify import ProblemKind, verify_links
from odfabric.domain.people.access import Subject
from odfabric.errors import Corrupt, NotFound
from odfabric.formats.identifiers.dataset_layout import head_key
from odfabric.formats.jobs.verify_request import read_verify_request, verify_members, write_verify_request
from odfabric.model.commit import CatalogEntry
from odfabric.model.jobs.job import Job, JobKind, NewJob
from odfabric.model.jobs.requests import VerifyRequest
from odfabric.model.metadata import DatasetKind
from odfabric.model.multihash import Multihash
from odfabric.ports.datasets.exchange import Exchange
from odfabric.ports.engine import Engine
from odfabric.ports.jobs.jobs import Jobs
from odfabric.ports.node.clock import Clock, Entropy
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.jobs.job_actor import account_of, envelope_of
from odfabric.usecases.jobs.job_run import JobRun
from odfabric.usecases.transfer.fetch_missing import Fetching
from odfabric.usecases.verification.signed_reports import SignReport, report_members
from odfabric.usecases.verification.verification_run import (
    PROBLEMS_MAX,
    CheckedCounts,
    Verification,
    VerificationReport,
    VerifyOptions,
)
from odfabric.usecases.verification.verify_heads import StoredLogs, verify_heads
from odfabric.usecases.verification.verify_objects import verify_objects
from odfabric.usecases.verification.verify_transactions import engine_asked, links_of, verify_transactions


def verify_dataset(
    entry: CatalogEntry,
    options: VerifyOptions,
    *,
    run: JobRun,
    repository: Repository,
    engine: Engine,
    exchange: Exchange,
    clock: Clock,
    blocks_max: int,
    replays_at_once: int = 1,
    heads: StoredLogs | None = None,
) -> VerificationReport:
    """All problems found, none if the dataset is what it claims to be.

    `replays_at_once` transactions are run again at a time; `heads` is where head logs are kept. Raises InvalidRequest for a range that is none of the chain, NotFound for a
    block that is not in it, Determinate if the engine is away.
    """
    started = clock.now()
    verification = Verification(
        *(entry, options, run, repository, engine, exchange, clock, blocks_max),
        replays_at_once=replays_at_once,
        histories=None if heads is None else heads.histories(repository),
    )
    published = _published(verification)
    until = _until(verification, published.head)
    hashes = _verify_metadata(verification, until)
    first = 0 if verification.problems else verification.first_checked(hashes)
    with engine_asked(verification):
        if options.data:
            verify_objects(verification, hashes, first)
        if options.replay and not verification.problems and entry.kind is DatasetKind.DERIVATIVE:
            verify_transactions(verification, hashes, first)
    _verify_published(verification, published)
    checked = verify_heads(verification, hashes, heads) if heads is not None else None
    return VerificationReport(
        problems=tuple(verification.problems),
        skipped=tuple(verification.skipped),
        head=until,
        counts=CheckedCounts(blocks=len(hashes), objects=verification.objects, transactions=verification.transactions),
        engine=verification.engine_info,
        heads=checked,
        started_at=started,
        ended_at=clock.now(),
    )


def _until(verification: Verification, head: Multihash) -> Multihash:
    """The block up to which is checked. Raises NotFound if it is not in the chain."""
    until = verification.options.until
    if until is None:
        return head
    if verification.repository.chains.row(verification.dataset, until) is None:
        alias = verification.entry.alias
        raise NotFound("block", str(until), hint=f"`odf log {alias}` lists the blocks of its chain")
    return until


def verification_answer(report: VerificationReport) -> dict[str, object]:
    """As JSON; `skipped`, only if there is any, says what could not be judged."""
    problems = report.problems
    answer: dict[str, object] = {
        "ok": not problems,
        "errors": [
            {
                "kind": problem.kind.value,
                "dataset": str(problem.dataset),
                "block": str(problem.block) if problem.block else None,
                "object": str(problem.object) if problem.object else None,
                "message": problem.message,
            }
            for problem in problems
        ],
    }
    return {**answer, "skipped": list(report.skipped)} if report.skipped else answer


@dataclass(frozen=True, slots=True)
class _Published:
    """The head of record, and what `refs/head` says a moment later."""

    head: Multihash
    ref: str | None

    @property
    def agrees(self) -> bool:
        return self.ref is not None and self.ref.strip() == str(self.head)


def _published(verification: Verification) -> _Published:
    repository, dataset = verification.repository, verification.dataset
    return _Published(repository.head(dataset).hash, repository.objects.read_ref(head_key(dataset)))


def _verify_published(verification: Verification, before: _Published) -> None:
    """Judge `refs/head`.

    Others commit and publish meanwhile: wrong is only a difference that is still the very same.
    """
    if before.agrees:
        return
    # The publisher holds this lock.
    with verification.repository.objects.exclusive(head_key(verification.dataset)):
        now = _published(verification)
    if now == before:
        message = f"refs/head says {now.ref}, the head of record is {now.head}"
        verification.found(ProblemKind.REF_NOT_FOUND, message)


def _verify_metadata(verification: Verification, head: Multihash) -> list[Multihash]:
    """Judge the chain; returns the hashes of its good blocks, oldest first."""
    dataset = verification.dataset
    hashes = _hashes_down(verification, head)[::-1]
    if verification.problems and verification.problems[-1].block is not None:
        return []
    state, problem = verify_links(dataset, links_of(verification, hashes), now=verification.clock.now())
    verification.add(problem)
    return hashes[: 0 if state.sequence_number is None else state.sequence_number + 1]


def _hashes_down(verification: Verification, head: Multihash) -> list[Multihash]:
    blocks = verification.repository.blocks(verification.dataset)
    hashes: list[Multihash] = []
    name: Multihash | None = head
    while name is not None and len(hashes) < verification.blocks_max:
        try:
            block = blocks.get(name)
        except NotFound:
            verification.found(ProblemKind.BLOCK_NOT_FOUND, "the block is missing", block=name)
            break
        except Corrupt as error:
            verification.found(ProblemKind.BLOCK_MALFORMED, error.message, block=name, name=name)
            break
        hashes.append(name)
        name = block.prev_block_hash
    return hashes


def enqueue_verify(
    entry: CatalogEntry,
    options: VerifyOptions,
    *,
    head: Multihash,
    subject: Subject,
    jobs: Jobs,
    clock: Clock,
    entropy: Entropy,
) -> Job:
    """Queue a verification.

    An unfinished one that the same token asked for with the same options is that job.

    `head` is the head by now: what is verified later reaches at least up to there.
    """
    request = VerifyRequest(
        dataset=entry.id,
        data=options.data,
        replay=options.replay,
        head=head if options.until is None else options.until,
        after=options.after,
        until=options.until,
        report=options.report,
        fetch=options.fetch,
    )
    account = account_of(subject)
    asked = json.dumps([account, subject.token, verify_members(request)], sort_keys=True)
    job = NewJob(
        id=entropy.random_bytes(16).hex(),
        kind=JobKind.VERIFY,
        account=account,
        dataset_id=entry.id,
        request=write_verify_request(request, envelope_of(subject)),
        dedup_key=f"verify/{hashlib.sha256(asked.encode()).hexdigest()}",
    )
    return jobs.enqueue(job, now=clock.now())


def run_verify(
    job: Job,
    run: JobRun,
    *,
    repository: Repository,
    engine: Engine,
    exchange: Exchange,
    clock: Clock,
    blocks_max: int,
    replays_at_once: int = 1,
    heads: StoredLogs | None = None,
    fetch: Callable[[CatalogEntry, JobRun], Fetching] | None = None,
    sign: SignReport,
) -> dict[str, object]:
    """Run a queued verification; problems are its result, not its failure.

    `sign` signs the report, if one was asked for. `fetch` begins to fetch what is missing here, if that was asked for: the result says what
    came from where (`fetched`) and which places gave something else (`notFetched`).
    """
    request = read_verify_request(job)
    options = VerifyOptions(
        data=request.data,
        replay=request.replay,
        after=request.after,
        until=request.until,
        report=request.report,
        fetch=request.fetch,
    )
    entry = repository.resolve(request.dataset)

    def verified() -> VerificationReport:
        return verify_dataset(
            entry,
            options,
            run=run,
            repository=repository,
            engine=engine,
            exchange=exchange,
            clock=clock,
            blocks_max=blocks_max,
            replays_at_once=replays_at_once,
            heads=heads,
        )

    report = verified()
    answer = verification_answer(report)
    if fetch is not None and options.fetch:
        fetching = fetch(entry, run)
        if report.problems:
            fetching.fetch(report.head, frozenset(each.object for each in report.problems if each.object is not None))
        if fetching.fetched:
            report = verified()
        answer = {
            **verification_answer(report),
            "fetched": [each.to_value() for each in fetching.fetched],
            "notFetched": fetching.refused[:PROBLEMS_MAX],
        }
    return {**answer, "report": sign(report_members(entry, options, report))} if options.report else answer
