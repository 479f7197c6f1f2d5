"""Run transactions of a derivative dataset again, several at a time, and compare.

Invariant: each transaction is run from its own inputs and checkpoint, so the order in which they run changes nothing; what another engine
made is not wrong because ours makes it differently. Not here: chain and objects (`verify_dataset`). Source: specification, "Verification".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeAlias

from odfabric.domain.chain.state import ChainState, apply
from odfabric.domain.chain.verify import (
    ProblemKind,
    VerificationProblem,
    needs_other_engine,
    verify_replay,
)
from odfabric.domain.chain.walk import ChainLink, read_state
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
from odfabric.errors import ChainsDiverged, Corrupt, InvalidBlock, InvalidQuery, NotFound, OdfError
from odfabric.formats.identifiers.dataset_layout import CHECKPOINTS
from odfabric.formats.slices.checkpoint_header import is_own_checkpoint
from odfabric.model.engine import EngineIdentity, EngineProgress
from odfabric.model.identity import DatasetHandle, DatasetId
from odfabric.model.metadata import DatasetKind, ExecuteTransform, TransformSql
from odfabric.model.multihash import Multihash
from odfabric.usecases.chain.store_slice import describe_slice
from odfabric.usecases.history.rewritten_inputs import RewrittenInput
from odfabric.usecases.transfer.at_once import in_order
from odfabric.usecases.transform.engine_records import makers
from odfabric.usecases.transform.judge_transform import change_of
from odfabric.usecases.transform.run_transform import execute_plan
from odfabric.usecases.verification.verification_run import AWAY, Verification

CHECKPOINT_SIGN_BYTES = 8
"""Length of what distinguishes checkpoints of one engine from those of others."""


def links_of(verification: Verification, hashes: Sequence[Multihash]) -> Iterator[ChainLink]:
    """The blocks of these hashes, read one by one."""
    blocks = verification.repository.blocks(verification.dataset)
    return (ChainLink(name, blocks.get(name)) for name in hashes)


@contextmanager
def engine_asked(verification: Verification) -> Iterator[None]:
    """Asks the engine who it is, so that it starts while objects are checked.

    With one replay at a time it is asked when it is needed, and not of a chain in which something was found.
    """
    replays = verification.options.replay and verification.entry.kind is DatasetKind.DERIVATIVE
    if not replays or verification.replays_at_once <= 1 or verification.problems or _missing_inputs(verification):
        yield
        return
    thread = ThreadPoolExecutor(1, thread_name_prefix="engine")
    try:
        verification.engine_answer = thread.submit(verification.engine.info)
        yield
    finally:
        # A damaged object is reported at once, though an engine may still be starting.
        thread.shutdown(wait=False, cancel_futures=True)


def verify_transactions(verification: Verification, hashes: Sequence[Multihash], first: int) -> None:
    """Run transactions from block number `first` on again, each from its checkpoint.

    Inputs are folded along, so that a long history is read once. Several run at a time; what is found is found in the order of the chain,
    and the first that cannot be run ends it.
    """
    missing = _missing_inputs(verification)
    if missing:
        # Of a copy the transactions cannot be judged without their inputs, which is no fault of the copy.
        verification.skipped.append(f"transactions were not replayed: inputs not here: {', '.join(missing)}")
        return
    answer = verification.engine_answer
    verification.engine_info = verification.engine.info() if answer is None else answer.result()
    works = (partial(_outcome, verification, each) for each in _transactions(verification, hashes, first))
    # Closed, it leaves nothing running.
    with closing(in_order(works, at_once=verification.replays_at_once)) as outcomes:
        for transaction, found in outcomes:
            if not _settled(verification, transaction, found):
                return


def _missing_inputs(verification: Verification) -> list[str]:
    _, state = verification.repository.current(verification.dataset)
    declared = transform_inputs(state) if state.transform is not None else ()
    return [str(dataset) for dataset in declared if verification.repository.find(dataset) is None]


@dataclass(frozen=True, slots=True)
class _Transaction:
    """A transaction with all that it is run again from."""

    before: ChainState
    link: ChainLink
    event: ExecuteTransform
    inputs: Mapping[DatasetId, InputChain]


_Outcome: TypeAlias = "VerificationProblem | _MadeElsewhere | _Stopped | _Collected | None"


@dataclass(frozen=True, slots=True)
class _Stopped:
    """A transaction that could not be run again; those after it are not tried."""

    problem: VerificationProblem


@dataclass(frozen=True, slots=True)
class _Collected:
    """A transaction whose inputs have another history now; what it read was collected.

    No fault of the dataset, and nothing that can be judged.
    """

    message: str


def _transactions(
    verification: Verification, hashes: Sequence[Multihash], first: int
) -> Iterator[_Transaction | _Stopped | _Collected]:
    state = ChainState.empty()
    input_states: dict[DatasetId, ChainState] = {}
    for number, link in enumerate(links_of(verification, hashes)):
        event = link.block.event
        if number >= first and isinstance(event, ExecuteTransform):
            verification.report(EngineProgress(stage="replay", done=number, total=len(hashes)))
            try:
                inputs = _inputs(verification, event, input_states)
            except (NotFound, Corrupt, ChainsDiverged, InvalidBlock) as error:
                yield _not_run(verification, link, event, error)
                return
            yield _Transaction(state, link, event, inputs)
        state = apply(state, link.hash, link.block)


def _inputs(
    verification: Verification, event: ExecuteTransform, input_states: dict[DatasetId, ChainState]
) -> dict[DatasetId, InputChain]:
    inputs = {}
    for dataset, head in replay_inputs(event).items():
        blocks = verification.repository.blocks(dataset)
        input_states[dataset] = read_state(blocks, head, base=input_states.get(dataset))
        entry = verification.repository.resolve(dataset)
        handle = DatasetHandle(entry.id, entry.alias)
        inputs[dataset] = InputChain(handle=handle, state=input_states[dataset], blocks=blocks)
    return inputs


def _outcome(
    verification: Verification, transaction: _Transaction | _Stopped | _Collected
) -> tuple[_Transaction | _Stopped | _Collected, _Outcome]:
    """What a replay finds. Raises what says nothing of the dataset."""
    if not isinstance(transaction, _Transaction):
        return transaction, transaction
    try:
        return transaction, _replay(verification, transaction)
    except OdfError as error:
        if error.code in AWAY:
            raise
        return transaction, _not_run(verification, transaction.link, transaction.event, error)


def _not_run(
    verification: Verification, link: ChainLink, event: ExecuteTransform, error: OdfError
) -> _Stopped | _Collected:
    """Why a transaction cannot be run again.

    Damage, unless what it read was collected.
    """
    histories = verification.histories
    if histories is not None and isinstance(error, NotFound | Corrupt | ChainsDiverged):
        # Of an input that was never rewritten here nothing was collected: a transaction that names such a block lies.
        changed = [one for one in histories.since(event) if one.is_known or one.rewrite or verification.entry.is_copy]
        if gone := [one for one in changed if histories.is_gone(one)]:
            return _Collected(f"transactions from block {link.hash} on were not replayed: {_told(verification, gone)}")
    return _Stopped(_unreadable(verification, link, error))


def _told(verification: Verification, gone: Sequence[RewrittenInput]) -> str:
    # Readers of a dataset need not know the names of its inputs.
    entry, unnamed = verification.entry, [replace(one, alias=None) for one in gone]
    if entry.is_copy and (unknown := [one for one in unnamed if not one.is_known]):
        lacking = ", ".join(f"input {one.dataset} lacks the block {one.consumed}" for one in unknown)
        return f"{lacking} here: it is older, or was rewritten; pull it"
    said = "; ".join(one.message for one in unnamed)
    remedy = (
        "its owner recomputes it" if entry.is_copy else f"`odf pull {entry.alias} --recompute` makes the dataset again"
    )
    return f"{said}, and old blocks or slices were collected; {remedy}"


def _unreadable(verification: Verification, link: ChainLink, error: OdfError) -> VerificationProblem:
    message = str(error)
    if isinstance(error, NotFound | Corrupt):
        name = error.object_name if isinstance(error, Corrupt) else error.name
        message = f"{error.message} ({name})"
    return verification.problem(ProblemKind.VERIFY_TRANSFORM, message, block=link.hash)


def _settled(verification: Verification, transaction: _Transaction | _Stopped | _Collected, found: _Outcome) -> bool:
    """Keep what a replay found; whether the next one counts."""
    match found:
        case _Stopped():
            verification.add(found.problem)
            return False
        case _Collected():
            verification.skipped.append(found.message)
            return False
        case _MadeElsewhere():
            if isinstance(transaction, _Transaction):
                _skip_from(verification, transaction.before, transaction.link)
            return False
        case _:
            verification.transactions += 1
            verification.add(found)
            return True


def _skip_from(verification: Verification, state: ChainState, link: ChainLink) -> None:
    """What another engine made is not wrong because ours makes it differently."""
    assert state.transform is not None
    transform = state.transform.event.transform
    version = f" {transform.version}" if transform.version else ""
    recorded = _recorded(verification, link.hash)
    verification.skipped.append(
        f"transactions from block {link.hash} on were not replayed: "
        f"needs engine {recorded or f'`{transform.engine}`{version}'}, the one that made them"
    )


def _recorded(verification: Verification, block: Multihash, *, but: EngineIdentity | None = None) -> str:
    """Who made a block, for people, as it is recorded beside the dataset.

    Nothing if that is nobody, or `but` alone.

    A record may say where to look, and never that nothing is wrong.
    """
    try:
        known = makers(verification.dataset, block, objects=verification.repository.objects)
    except Corrupt:
        return ""
    return ", ".join(f"`{one.name}` {one.version} {one.digest[:16]}".rstrip() for one in known if one != but)


@dataclass(frozen=True, slots=True)
class _MadeElsewhere:
    """A replay that differs, of a transaction that another engine made."""


def _replay(verification: Verification, transaction: _Transaction) -> VerificationProblem | _MadeElsewhere | None:
    state, link, event, inputs = transaction.before, transaction.link, transaction.event, transaction.inputs
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
        message = f"input {plan.dataset_id} had no schema at that time"
        return verification.problem(ProblemKind.VERIFY_TRANSFORM, message, block=link.hash)
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
    verification: Verification, plan: TransformPlan, link: ChainLink, event: ExecuteTransform
) -> VerificationProblem | _MadeElsewhere | None:
    with verification.exchange.session() as folder:
        checkpoints = [plan.prev_checkpoint.physical_hash] if plan.prev_checkpoint else []
        replayed = execute_plan(
            plan,
            checkpoints,
            folder,
            progress=verification.report,
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
    verification: Verification, plan: TransformPlan, link: ChainLink, event: ExecuteTransform
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


def _is_own(verification: Verification, event: ExecuteTransform) -> bool:
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
    verification: Verification, event: ExecuteTransform, replayed: Path | None, folder: Path
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
