"""Verify the slices and checkpoints that blocks name, several blocks at a time.

Invariant: problems are found in the order of the chain, however many threads look for them. Not here: what a slice is compared with
(`usecases.chain.check_slice`). Source: specification, "Verification".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from odfabric.domain.chain.references import named_objects
from odfabric.domain.chain.state import ChainState, apply
from odfabric.domain.chain.verify import ProblemKind, VerificationProblem, verify_checkpoint
from odfabric.domain.chain.walk import ChainLink
from odfabric.errors import InvalidData, NotFound
from odfabric.formats.identifiers.dataset_layout import CHECKPOINTS, DATA, object_key
from odfabric.formats.identifiers.physical_hash import physical_hash
from odfabric.formats.slices.checkpoint_header import checkpoint_bases
from odfabric.model.engine import EngineProgress
from odfabric.model.metadata import AddData, Checkpoint, DataSlice, ExecuteTransform
from odfabric.model.multihash import Multihash
from odfabric.usecases.chain.check_slice import slice_problems
from odfabric.usecases.transfer.at_once import in_order
from odfabric.usecases.verification.verification_run import Verification
from odfabric.usecases.verification.verify_transactions import links_of


def verify_objects(verification: Verification, hashes: Sequence[Multihash], first: int) -> None:
    """Compare the objects of blocks from number `first` on with what the blocks say.

    As many blocks at a time as replays: most of the work hashes and decodes, so threads share it among processors.
    """
    for problems in in_order(_checks(verification, hashes, first), at_once=verification.replays_at_once):
        for problem in problems:
            verification.add(problem)


def _checks(
    verification: Verification, hashes: Sequence[Multihash], first: int
) -> Iterator[Callable[[], list[VerificationProblem]]]:
    state = ChainState.empty()
    for number, link in enumerate(links_of(verification, hashes)):
        verification.report(EngineProgress(stage="verify objects", done=number, total=len(hashes)))
        event = link.block.event
        if number >= first and isinstance(event, AddData | ExecuteTransform):
            verification.objects += len(named_objects(event))
            yield partial(_problems, verification, link, state, event)
        state = apply(state, link.hash, link.block)


def _problems(
    verification: Verification, link: ChainLink, before: ChainState, event: AddData | ExecuteTransform
) -> list[VerificationProblem]:
    found: list[VerificationProblem] = []
    with verification.exchange.session() as folder:
        if event.new_data is not None:
            found += _of_slice(verification, link, before, event.new_data, folder)
        if event.new_checkpoint is not None:
            found += _of_checkpoint(verification, link.hash, event.new_checkpoint, folder)
    return found


def _of_slice(
    verification: Verification, link: ChainLink, before: ChainState, declared: DataSlice, folder: Path
) -> list[VerificationProblem]:
    path: Path | None = folder / "slice"
    try:
        verification.repository.objects.materialize(
            object_key(verification.dataset, DATA, declared.physical_hash), folder / "slice"
        )
    except NotFound:
        path = None
    return slice_problems(before, link, declared, path)


def _of_checkpoint(
    verification: Verification, block: Multihash, declared: Checkpoint, folder: Path
) -> Iterator[VerificationProblem]:
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
    if problem is None:
        yield from _of_bases(verification, block, declared, path)
    else:
        yield problem


def _of_bases(
    verification: Verification, block: Multihash, declared: Checkpoint, path: Path
) -> Iterator[VerificationProblem]:
    """Check that a checkpoint's bases exist; they were hashed with earlier blocks."""
    try:
        for base in checkpoint_bases(path):
            key = object_key(verification.dataset, CHECKPOINTS, base)
            if verification.repository.objects.stat(key) is None:
                message = f"the checkpoint builds on {base}, which is missing"
                yield verification.problem(
                    ProblemKind.OBJECT_NOT_FOUND, message, block=block, name=declared.physical_hash
                )
    except InvalidData as error:
        yield verification.problem(
            ProblemKind.CHECKPOINT_DOES_NOT_MATCH_METADATA, error.message, block=block, name=declared.physical_hash
        )
