"""Judging what a dataset claims: its chain, its objects, its transactions.

Owns the kinds of problems and the comparisons; finding the objects, hashing them and running the engine again are the use
case's. Stricter than the reference where that can only find more: the logical hash is compared whenever it was computed, and
the number of rows must be that of the offset interval. Source: specification, "Verification"; specification, "Derivative Transformations".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from enum import Enum

from odfabric.domain.chain.state import ChainState, apply
from odfabric.domain.chain.validate import validate_append
from odfabric.domain.chain.walk import ChainLink
from odfabric.errors import OdfError
from odfabric.model.identity import DatasetId
from odfabric.model.instant import Instant
from odfabric.model.metadata import Checkpoint, DatasetKind, DataSlice, ExecuteTransform, ExecuteTransformInput
from odfabric.model.multihash import Multihash
from odfabric.model.offsets import OffsetRange

ENGINE_RULE = "engine"
"""Rule by which a transform is refused that was written for an engine which is not there."""
FOREIGN_CHECKPOINT_RULE = "checkpoint-foreign"
"""Rule by which an engine refuses a checkpoint that another one wrote."""


class ProblemKind(Enum):
    """What is wrong; the values are the words of answers."""

    REF_NOT_FOUND = "RefNotFound"
    BLOCK_NOT_FOUND = "BlockNotFound"
    BLOCK_MALFORMED = "BlockMalformed"
    OBJECT_NOT_FOUND = "ObjectNotFound"
    DATA_DOES_NOT_MATCH_METADATA = "DataDoesNotMatchMetadata"
    CHECKPOINT_DOES_NOT_MATCH_METADATA = "CheckpointDoesNotMatchMetadata"
    DATA_NOT_REPRODUCIBLE = "DataNotReproducible"
    VERIFY_TRANSFORM = "VerifyTransform"
    HEAD_LOG_INVALID = "HeadLogInvalid"
    ENGINE_RECORD_INVALID = "EngineRecordInvalid"


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationProblem:
    """One finding.

    `object` is the data slice or checkpoint that is wrong, None if the block itself is.
    """

    kind: ProblemKind
    dataset: DatasetId
    block: Multihash | None
    object: Multihash | None
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundSlice:
    """What a stored data slice is.

    `logical_hash` and `rows` are None where they were not determined.
    """

    size: int
    physical_hash: Multihash
    logical_hash: Multihash | None = None
    rows: int | None = None


def verify_links(
    dataset: DatasetId, links: Iterable[ChainLink], *, now: Instant | None = None
) -> tuple[ChainState, VerificationProblem | None]:
    """Judge a whole chain, oldest block first, whose bytes match their hashes.

    Returns the state at the last good block and the first problem, if any.
    """
    state = ChainState.empty()
    for link in links:
        try:
            validate_append(state, link.block, now=now)
        except OdfError as error:
            return state, _malformed(dataset, link.hash, str(error))
        state = apply(state, link.hash, link.block)
    if state.seed is not None and state.seed.event.dataset_id != dataset:
        return state, _malformed(dataset, state.seed.block_hash, f"the seed is that of {state.seed.event.dataset_id}")
    return state, None


def verify_slice(
    dataset: DatasetId, kind: DatasetKind, block: Multihash, *, declared: DataSlice, found: FoundSlice | None
) -> VerificationProblem | None:
    """Compare a stored slice with what its block declares.

    `found` None means that there is no such object.

    A slice of a derivative dataset may have other bytes if its rows are the same: `logical_hash` has to be given when the
    physical hashes differ. Raises ValueError if it is not.
    """
    name = declared.physical_hash
    if found is None:
        return _problem(ProblemKind.OBJECT_NOT_FOUND, dataset, block, name, "the data slice is missing")
    message = _slice_mismatch(kind, declared, found)
    if message is None:
        return None
    return _problem(ProblemKind.DATA_DOES_NOT_MATCH_METADATA, dataset, block, name, message)


def _slice_mismatch(kind: DatasetKind, declared: DataSlice, found: FoundSlice) -> str | None:
    if found.size != declared.size:
        return f"size is {found.size}, declared {declared.size}"
    if found.physical_hash != declared.physical_hash:
        if kind is DatasetKind.ROOT:
            return f"physical hash is {found.physical_hash}, declared {declared.physical_hash}"
        if found.logical_hash is None:
            raise ValueError("the logical hash decides and was not computed")
    if found.logical_hash is not None and found.logical_hash != declared.logical_hash:
        return f"logical hash is {found.logical_hash}, declared {declared.logical_hash}"
    rows = OffsetRange.from_wire(declared.offset_interval).rows
    if found.rows is not None and found.rows != rows:
        return f"the file has {found.rows} rows, the offset interval {rows}"
    return None


def verify_checkpoint(
    dataset: DatasetId, block: Multihash, *, declared: Checkpoint, found: Checkpoint | None
) -> VerificationProblem | None:
    """Compare a stored checkpoint with what its block declares.

    `found` None means that there is no such object.
    """
    name = declared.physical_hash
    if found is None:
        return _problem(ProblemKind.OBJECT_NOT_FOUND, dataset, block, name, "the checkpoint is missing")
    if found.size != declared.size:
        message = f"size is {found.size}, declared {declared.size}"
    elif found.physical_hash != declared.physical_hash:
        message = f"physical hash is {found.physical_hash}, declared {declared.physical_hash}"
    else:
        return None
    return _problem(ProblemKind.CHECKPOINT_DOES_NOT_MATCH_METADATA, dataset, block, name, message)


def verify_replay(
    dataset: DatasetId, block: Multihash, *, expected: ExecuteTransform, actual: ExecuteTransform
) -> VerificationProblem | None:
    """Compare a committed transaction with its replay, except for files' bytes.

    Everything but the bytes of files and the checkpoint.

    Those two depend on the writer and on the engine's version; rows, offsets, watermark and inputs must not.
    """
    comparable = _as_if_written_by(expected, actual)
    differing = [
        f"{field.name}: committed {_shown(committed)}, replayed {_shown(replayed)}"
        for field in fields(expected)
        if (committed := getattr(expected, field.name)) != (replayed := getattr(comparable, field.name))
    ]
    if not differing:
        return None
    name = expected.new_data.physical_hash if expected.new_data else None
    return _problem(
        ProblemKind.DATA_NOT_REPRODUCIBLE, dataset, block, name, f"the replay differs in {'; '.join(differing)}"
    )


def needs_other_engine(error: OdfError) -> bool:
    """Whether a replay failed only because another engine made the transaction."""
    return error.place.rule in (ENGINE_RULE, FOREIGN_CHECKPOINT_RULE)


def _as_if_written_by(expected: ExecuteTransform, actual: ExecuteTransform) -> ExecuteTransform:
    data = actual.new_data
    if data is not None and expected.new_data is not None:
        data = replace(data, physical_hash=expected.new_data.physical_hash, size=expected.new_data.size)
    return replace(actual, new_data=data, new_checkpoint=expected.new_checkpoint)


def _shown(value: object) -> str:
    """A member of a transaction for people."""
    match value:
        case None:
            return "none"
        case DataSlice(logical_hash=logical_hash, offset_interval=interval):
            return f"{logical_hash} of offsets {interval.start} to {interval.end}"
        case ExecuteTransformInput():
            blocks = f"blocks ({_shown(value.prev_block_hash)}, {_shown(value.new_block_hash)}]"
            return f"{value.dataset_id} {blocks} offsets ({_shown(value.prev_offset)}, {_shown(value.new_offset)}]"
        case tuple():
            return ", ".join(_shown(item) for item in value)
        case _:
            return str(value)


def _malformed(dataset: DatasetId, block: Multihash, message: str) -> VerificationProblem:
    return _problem(ProblemKind.BLOCK_MALFORMED, dataset, block, None, message)


def _problem(
    kind: ProblemKind, dataset: DatasetId, block: Multihash | None, name: Multihash | None, message: str
) -> VerificationProblem:
    return VerificationProblem(kind=kind, dataset=dataset, block=block, object=name, message=message)
