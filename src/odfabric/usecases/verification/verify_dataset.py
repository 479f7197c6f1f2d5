"""Verify a dataset: its chain, its objects, and by re-execution its transactions.

Invariant: everything is recomputed from stored bytes; neither the index nor a matching file name is believed. All problems are
collected (up to a limit), each naming the block and object that is wrong. Source: specification, "Verification".
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from odfabric.domain.chain.state import ChainState, apply
from odfabric.domain.chain.verify import (
    ProblemKind,
    VerificationProblem,
    needs_other_engine,
    verify_checkpoint,
    verify_links,
    verify_replay,
)
from odfabric.domain.chain.walk import ChainLink, read_state
from odfabric.domain.people.access import Subject
from odfabric.domain.transform.reference_meaning import in_the_reference
from odfabric.domain.transform.transform_plan import (
    InputChain,
    InputNeverPulled,
    TransformPlan,
    executed,
    plan_replay,
    replay_inputs,
    transform_inputs,
)
from odfabric.errors import Corrupt, InvalidData, InvalidQuery, NotFound, OdfError
from odfabric.formats.identifiers.dataset_layout import CHECKPOINTS, DATA, head_key, object_key
from odfabric.formats.identifiers.physical_hash import physical_hash
from odfabric.formats.jobs.verify_request import read_verify_request, verify_members, write_verify_request
from odfabric.formats.slices.checkpoint_header import checkpoint_bases, is_own_checkpoint
from odfabric.model.commit import CatalogEntry
from odfabric.model.engine import EngineIdentity, EngineProgress
from odfabric.model.identity import DatasetHandle, DatasetId
from odfabric.model.jobs.job import Job, JobKind, NewJob
from odfabric.model.jobs.requests import VerifyRequest
from odfabric.model.metadata import AddData, Checkpoint, DatasetKind, DataSlice, ExecuteTransform, TransformSql
from odfabric.model.multihash import Multihash
from odfabric.ports.datasets.exchange import Exchange
from odfabric.ports.engine import Engine
from odfabric.ports.jobs.jobs import Jobs
from odfabric.ports.node.clock import Clock, Entropy
from odfabric.usecases.chain.check_slice import slice_problems
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.chain.store_slice import describe_slice
from odfabric.usecases.jobs.job_actor import account_of, envelope_of
from odfabric.usecases.jobs.job_run import JobRun
from odfabric.usecases.transform.engine_records import makers
from odfabric.usecases.transform.judge_transform import change_of
from odfabric.usecases.transform.run_transform import execute_plan

PROBLEMS_MAX = 100
AWAY = ("unavailable", "outcome-unknown", "lease-lost")
"""Codes of errors that say nothing of the dataset."""

CHECKPOINT_SIGN_BYTES = 8
"""Length of what distinguishes checkpoints of one engine from those of others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyOptions:
    """What to check besides the chain."""

    data: bool = True
    replay: bool = True


@dataclass(frozen=True, slots=True)
class VerificationReport:
    """What is wrong, and what could not be judged here."""

    problems: tuple[VerificationProblem, ...]
    skipped: tuple[str, ...] = ()


@dataclass(slots=True)
class _Verification:
    """One run: the ports, the dataset, and what was found so far."""

    entry: CatalogEntry
    run: JobRun
    repository: Repository
    engine: Engine
    exchange: Exchange
    clock: Clock
    blocks_max: int
    problems: list[VerificationProblem] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)

    @property
    def dataset(self) -> DatasetId:
        return self.entry.id

    def add(self, problem: VerificationProblem | None) -> None:
        if problem is not None and len(self.problems) < PROBLEMS_MAX:
            self.problems.append(problem)

    def found(
        self, kind: ProblemKind, message: str, *, block: Multihash | None = None, name: Multihash | None = None
    ) -> None:
        self.add(VerificationProblem(kind=kind, dataset=self.dataset, block=block, object=name, message=message))


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
) -> VerificationReport:
    """All problems found, none if the dataset is what it claims to be.

    Raises Determinate if the engine is away.
    """
    verification = _Verification(entry, run, repository, engine, exchange, clock, blocks_max)
    published = _published(verification)
    links = _verify_metadata(verification, published.head)
    if options.data:
        _verify_objects(verification, links)
    if options.replay and not verification.problems and entry.kind is DatasetKind.DERIVATIVE:
        missing = _missing_inputs(verification)
        if missing:
            # Of a copy the transactions cannot be judged without their inputs, which is no fault of the copy.
            verification.skipped.append(f"transactions were not replayed: inputs not here: {', '.join(missing)}")
        else:
            _verify_transactions(verification, links)
    _verify_published(verification, published)
    return VerificationReport(tuple(verification.problems), tuple(verification.skipped))


def _missing_inputs(verification: _Verification) -> list[str]:
    _, state = verification.repository.current(verification.dataset)
    declared = transform_inputs(state) if state.transform is not None else ()
    return [str(dataset) for dataset in declared if verification.repository.find(dataset) is None]


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


def _published(verification: _Verification) -> _Published:
    repository, dataset = verification.repository, verification.dataset
    return _Published(repository.head(dataset).hash, repository.objects.read_ref(head_key(dataset)))


def _verify_published(verification: _Verification, before: _Published) -> None:
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


def _verify_metadata(verification: _Verification, head: Multihash) -> list[Multihash]:
    """Judge the chain; returns the hashes of its good blocks, oldest first."""
    dataset = verification.dataset
    hashes = _hashes_down(verification, head)[::-1]
    if verification.problems and verification.problems[-1].block is not None:
        return []
    state, problem = verify_links(dataset, _links(verification, hashes), now=verification.clock.now())
    verification.add(problem)
    return hashes[: 0 if state.sequence_number is None else state.sequence_number + 1]


def _hashes_down(verification: _Verification, head: Multihash) -> list[Multihash]:
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


def _links(verification: _Verification, hashes: Sequence[Multihash]) -> Iterator[ChainLink]:
    blocks = verification.repository.blocks(verification.dataset)
    return (ChainLink(name, blocks.get(name)) for name in hashes)


def _verify_objects(verification: _Verification, hashes: Sequence[Multihash]) -> None:
    state = ChainState.empty()
    for number, link in enumerate(_links(verification, hashes)):
        verification.run.report(EngineProgress(stage="verify objects", done=number, total=len(hashes)))
        event = link.block.event
        if isinstance(event, AddData | ExecuteTransform):
            with verification.exchange.session() as folder:
                if event.new_data is not None:
                    _verify_slice(verification, link, state, event.new_data, folder)
                if event.new_checkpoint is not None:
                    _verify_checkpoint(verification, link.hash, event.new_checkpoint, folder)
        state = apply(state, link.hash, link.block)


def _verify_slice(
    verification: _Verification, link: ChainLink, before: ChainState, declared: DataSlice, folder: Path
) -> None:
    path: Path | None = folder / "slice"
    try:
        verification.repository.objects.materialize(
            object_key(verification.dataset, DATA, declared.physical_hash), folder / "slice"
        )
    except NotFound:
        path = None
    for problem in slice_problems(before, link, declared, path):
        verification.add(problem)


def _verify_checkpoint(verification: _Verification, block: Multihash, declared: Checkpoint, folder: Path) -> None:
    path = folder / "checkpoint"
    found: Checkpoint | None = None
    try:
        verification.repository.objects.materialize(
            object_key(verification.dataset, CHECKPOINTS, declared.physical_hash), path
        )
        physical, size = physical_hash(path)
        found = Checkpoint(physical_hash=physical, size=size)
    except NotFound:
        pass
    problem = verify_checkpoint(verification.dataset, block, declared=declared, found=found)
    verification.add(problem)
    if problem is None:
        _verify_bases(verification, block, declared, path)


def _verify_bases(verification: _Verification, block: Multihash, declared: Checkpoint, path: Path) -> None:
    """Check that a checkpoint's bases exist; they were hashed with earlier blocks."""
    try:
        for base in checkpoint_bases(path):
            key = object_key(verification.dataset, CHECKPOINTS, base)
            if verification.repository.objects.stat(key) is None:
                message = f"the checkpoint builds on {base}, which is missing"
                verification.found(ProblemKind.OBJECT_NOT_FOUND, message, block=block, name=declared.physical_hash)
    except InvalidData as error:
        verification.found(
            ProblemKind.CHECKPOINT_DOES_NOT_MATCH_METADATA, error.message, block=block, name=declared.physical_hash
        )


def _verify_transactions(verification: _Verification, hashes: Sequence[Multihash]) -> None:
    """Run every transaction again, oldest first.

    Inputs are folded along, so that a long history is read once.
    """
    state = ChainState.empty()
    input_states: dict[DatasetId, ChainState] = {}
    for number, link in enumerate(_links(verification, hashes)):
        event = link.block.event
        if isinstance(event, ExecuteTransform):
            verification.run.report(EngineProgress(stage="replay", done=number, total=len(hashes)))
            try:
                problem = _replay(verification, state, link, event, input_states)
            except (NotFound, Corrupt) as error:
                name = error.object_name if isinstance(error, Corrupt) else error.name
                verification.found(ProblemKind.VERIFY_TRANSFORM, f"{error.message} ({name})", block=link.hash)
                return
            except OdfError as error:
                if error.code in AWAY:
                    raise
                verification.found(ProblemKind.VERIFY_TRANSFORM, str(error), block=link.hash)
                return
            if isinstance(problem, _MadeElsewhere):
                _skip_from(verification, state, link)
                return
            verification.add(problem)
        state = apply(state, link.hash, link.block)


def _skip_from(verification: _Verification, state: ChainState, link: ChainLink) -> None:
    """What another engine made is not wrong because ours makes it differently."""
    assert state.transform is not None
    transform = state.transform.event.transform
    version = f" {transform.version}" if transform.version else ""
    recorded = _recorded(verification, link.hash)
    verification.skipped.append(
        f"transactions from block {link.hash} on were not replayed: "
        f"needs engine {recorded or f'`{transform.engine}`{version}'}, the one that made them"
    )


def _recorded(verification: _Verification, block: Multihash, *, but: EngineIdentity | None = None) -> str:
    """Who made a block, for people, as it is recorded beside the dataset.

    Nothing if that is nobody, or `but` alone.

    A record is not signed: it may say where to look, and never that nothing is wrong.
    """
    try:
        known = makers(verification.dataset, block, objects=verification.repository.objects)
    except Corrupt:
        return ""
    return ", ".join(f"`{one.name}` {one.version} {one.digest[:16]}".rstrip() for one in known if one != but)


@dataclass(frozen=True, slots=True)
class _MadeElsewhere:
    """A replay that differs, of a transaction that another engine made."""


def _replay(
    verification: _Verification,
    state: ChainState,
    link: ChainLink,
    event: ExecuteTransform,
    input_states: dict[DatasetId, ChainState],
) -> VerificationProblem | _MadeElsewhere | None:
    inputs = {}
    for dataset, head in replay_inputs(event).items():
        blocks = verification.repository.blocks(dataset)
        input_states[dataset] = read_state(blocks, head, base=input_states.get(dataset))
        entry = verification.repository.resolve(dataset)
        handle = DatasetHandle(entry.id, entry.alias)
        inputs[dataset] = InputChain(handle=handle, state=input_states[dataset], blocks=blocks)
    change = change_of(
        state,
        inputs,
        blocks=verification.repository.blocks(verification.dataset),
        engine=verification.engine,
        blocks_max=verification.blocks_max,
    )
    plan = plan_replay(
        state,
        event,
        inputs,
        system_time=link.block.system_time,
        blocks_max=verification.blocks_max,
        change=change,
    )
    if isinstance(plan, InputNeverPulled):
        verification.found(
            ProblemKind.VERIFY_TRANSFORM, f"input {plan.dataset_id} had no schema at that time", block=link.hash
        )
        return None
    try:
        problem = _run_again(verification, plan, link, event)
    except OdfError as error:
        refused = isinstance(error, InvalidQuery) and not _is_own(verification, event)
        if not refused and not needs_other_engine(error):
            raise
        problem = _MadeElsewhere()
    if isinstance(problem, _MadeElsewhere) and _has_meaning_of_reference(verification, plan, link, event):
        return None
    return problem


def _run_again(
    verification: _Verification, plan: TransformPlan, link: ChainLink, event: ExecuteTransform
) -> VerificationProblem | _MadeElsewhere | None:
    with verification.exchange.session() as folder:
        checkpoints = [plan.prev_checkpoint.physical_hash] if plan.prev_checkpoint else []
        replayed = execute_plan(
            plan,
            checkpoints,
            folder,
            progress=verification.run.report,
            repository=verification.repository,
            engine=verification.engine,
            exchange=verification.exchange,
        )
        actual = executed(
            plan,
            new_data=describe_slice(replayed.data_path, replayed.result.offsets) if replayed.result.offsets else None,
            new_checkpoint=None,
            watermark=replayed.result.watermark,
        )
        problem = verify_replay(verification.dataset, link.hash, expected=event, actual=actual)
        if problem is not None and _is_made_elsewhere(verification, event, replayed.checkpoint_path, folder):
            return _MadeElsewhere()
        by = _recorded(verification, link.hash, but=replayed.result.made_by) if problem is not None else ""
        return replace(problem, message=f"{problem.message} (recorded as made by {by})") if problem and by else problem


def _has_meaning_of_reference(
    verification: _Verification, plan: TransformPlan, link: ChainLink, event: ExecuteTransform
) -> bool:
    """Whether another engine's transaction has the reference's meaning.

    What a row-wise query means there, each interval on its own.
    """
    if not isinstance(plan.transform, TransformSql) or plan.change is not None:
        return False
    transform = in_the_reference(plan.transform, operation=plan.vocabulary.operation_type)
    meant = replace(plan, transform=transform, prev_checkpoint=None)
    try:
        return _run_again(verification, meant, link, event) is None
    except OdfError as error:
        if error.code in AWAY:
            raise
        return False


def _is_own(verification: _Verification, event: ExecuteTransform) -> bool:
    """Whether a transaction says by its checkpoint that our engine made it.

    Ours always leaves one.
    """
    if event.new_checkpoint is None:
        return False
    with verification.exchange.session() as folder:
        path = folder / "committed-checkpoint"
        name = event.new_checkpoint.physical_hash
        verification.repository.materialize(verification.dataset, CHECKPOINTS, name, path)
        return is_own_checkpoint(path)


def _is_made_elsewhere(
    verification: _Verification, event: ExecuteTransform, replayed: Path | None, folder: Path
) -> bool:
    """Whether another engine made the transaction than the one that replayed it.

    Their checkpoints begin differently.

    Blocks do not say who made them. Engines that keep state begin their files with a sign of their own.
    """
    if event.new_checkpoint is None or replayed is None:
        return (event.new_checkpoint is None) != (replayed is None)
    committed = folder / "committed-checkpoint"
    name = event.new_checkpoint.physical_hash
    verification.repository.materialize(verification.dataset, CHECKPOINTS, name, committed)
    return _sign(committed) != _sign(replayed)


def _sign(checkpoint: Path) -> bytes:
    with checkpoint.open("rb") as file:
        return file.read(CHECKPOINT_SIGN_BYTES)


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
    request = VerifyRequest(dataset=entry.id, data=options.data, replay=options.replay, head=head)
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
) -> dict[str, object]:
    """Run a queued verification; problems are its result, not its failure."""
    request = read_verify_request(job)
    report = verify_dataset(
        repository.resolve(request.dataset),
        VerifyOptions(data=request.data, replay=request.replay),
        run=run,
        repository=repository,
        engine=engine,
        exchange=exchange,
        clock=clock,
        blocks_max=blocks_max,
    )
    return verification_answer(report)
