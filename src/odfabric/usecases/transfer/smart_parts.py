"""What both ends and both directions of a Smart transfer need.

Batches of blocks, plans, objects, refusals as errors.

Owns the way from stored blocks to a batch and back. Invariant: of a batch nothing is believed but that its blocks hash to their names; the
rules of chains are `receive_chain`'s. Source: RFC-008; RFC-007.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, TypeVar

from odfabric.errors import (
    AlreadyExists,
    ChainsDiverged,
    CorruptedSource,
    Determinate,
    HeadMoved,
    InvalidRequest,
    LimitExceeded,
    NotFound,
)
from odfabric.formats.identifiers.dataset_layout import CHECKPOINTS, DATA
from odfabric.formats.smart.block_archive import ArchiveLimits, read_archive, write_archive
from odfabric.formats.smart.close_reason import TRY_AGAIN
from odfabric.formats.smart.shared_parts import read_result
from odfabric.model.commit import CatalogEntry, EncodedBlock
from odfabric.model.metadata import Checkpoint, DataSlice
from odfabric.model.multihash import Multihash
from odfabric.model.transfer.smart import (
    BlocksBatch,
    InternalFailure,
    InvalidHead,
    InvalidInterval,
    NameCollision,
    ObjectFile,
    ObjectKind,
    RefCollision,
    Refusal,
    SeedOverwriteRestricted,
    TransferPlan,
)
from odfabric.ports.transfer.conversations import Closed, Conversation
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.transfer.arriving_chain import ReceivedBlocks, received_block
from odfabric.usecases.transfer.receive_objects import unique_objects
from odfabric.usecases.transfer.timed_conversation import TimedConversation, TransferPace

OBJECTS_AT_ONCE_MAX = 5000
"""Objects of one message; their links must fit into one frame."""
AREAS = {ObjectKind.DATA_SLICE: DATA, ObjectKind.CHECKPOINT: CHECKPOINTS}
KINDS = {area: kind for kind, area in AREAS.items()}
USE_SIMPLE_PULL = "pull it by the Simple protocol: write the URL without odf+"
USE_SIMPLE_PUSH = "push it to a folder or a bucket, and let the node pull it from there"

LEFT_UNHEARD_MAX = 10
"""Messages of a server that come before the frame by which it has closed the conversation."""
CLOSED_WAIT_S = 1.0
TRY_AGAIN_S = 10
"""How long a node is left alone that has no place for a conversation."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class SmartLimits:
    """Limits of conversations.

    See the settings of the same names beginning with `smart_`; `pace` those beginning with `smart_transfer_`.
    """

    archive: ArchiveLimits
    message_bytes_max: int
    frame_bytes_max: int
    pace: TransferPace
    wait_s_max: float
    objects_wait_s_max: float
    progress_s: float = 10.0
    close_s: float = 5.0


@dataclass(frozen=True, slots=True)
class OwnBlocks:
    """Blocks of a dataset of this node, for what a batch continues.

    None: there is no such dataset.
    """

    entry: CatalogEntry | None
    repository: Repository

    def block(self, block_hash: Multihash) -> bytes:
        """See `BlockServer`."""
        if self.entry is None:
            raise NotFound("block", str(block_hash))
        return self.repository.blocks(self.entry.id).get_bytes(block_hash)


@dataclass(frozen=True, slots=True)
class ReceivedBatch:
    """Blocks of a batch, oldest first, and what they continue."""

    blocks: tuple[EncodedBlock, ...]
    source: ReceivedBlocks

    @property
    def head(self) -> Multihash:
        """The newest block."""
        return self.blocks[-1].hash


def receive_batch(
    batch: BlocksBatch, *, planned: int, limits: ArchiveLimits, own: OwnBlocks, folder: Path
) -> ReceivedBatch:
    """Unpack a batch of at least one block.

    `folder` is where blocks go that are asked for later.

    Raises InvalidRequest, InvalidBlock, LimitExceeded, CorruptedSource.
    """
    found = read_archive(batch.archive, limits)
    if not len(found) == batch.num_blocks == planned or not found:
        raise InvalidRequest(f"{planned} blocks are planned, {batch.num_blocks} announced, {len(found)} sent")
    blocks = tuple(received_block(name, data) for name, data in found)
    return ReceivedBatch(blocks, ReceivedBlocks(own, folder, blocks))


def batch_of(blocks: Sequence[EncodedBlock]) -> BlocksBatch:
    """Pack blocks, oldest first."""
    return BlocksBatch(len(blocks), write_archive((each.hash, each.data) for each in blocks))


def plan_of(blocks: Sequence[EncodedBlock]) -> TransferPlan:
    """How much there is to move."""
    declared = unique_objects(blocks)
    records = sum(
        each.offset_interval.end - each.offset_interval.start + 1 for _, each in declared if isinstance(each, DataSlice)
    )
    return TransferPlan(
        num_blocks=len(blocks),
        num_objects=len(declared),
        num_records=records,
        bytes_in_raw_blocks=sum(len(each.data) for each in blocks),
        bytes_in_raw_objects=sum(each.size for _, each in declared),
    )


def file_of(area: str, declared: DataSlice | Checkpoint) -> ObjectFile:
    """As messages name it."""
    return ObjectFile(KINDS[area], declared.physical_hash, declared.size)


def timed_with_server(talk: Conversation, limits: SmartLimits, *, shown: str) -> TimedConversation:
    """A conversation with a server that does not take too long.

    One that does ends with Determinate, and the next one goes on from there.
    """
    return TimedConversation(talk, limits.pace, overdue=lambda why: Determinate(f"{shown} is {why}"))


def timed_with_client(talk: Conversation, limits: SmartLimits) -> TimedConversation:
    """A conversation with a client; one that takes too long ends with LimitExceeded."""
    pace = limits.pace

    def overdue(why: str) -> LimitExceeded:
        return LimitExceeded(why, limit="smart_transfer_bytes_per_s_min", maximum=pace.bytes_per_s_min)

    return TimedConversation(talk, pace, overdue=overdue)


def bytes_of(plan: TransferPlan) -> int:
    """Bytes that a transfer of this plan moves."""
    return plan.bytes_in_raw_blocks + plan.bytes_in_raw_objects


def say(talk: Conversation, text: str, *, shown: str) -> None:
    """Say something to a server that may have closed the conversation by now.

    Raises what a refusal in the frame that closed it stands for, Determinate.
    """
    try:
        talk.say(text)
    except Determinate:
        for _ in range(LEFT_UNHEARD_MAX):
            found = talk.hear(seconds_max=CLOSED_WAIT_S)
            if isinstance(found, Closed):
                raise_closed(found, shown)
            if found is None:
                break
        raise


def heard(talk: Conversation, read: Callable[[str], T], *, seconds_max: float, shown: str) -> T:
    """The next message of a server.

    Raises what a refusal in the frame that closes it stands for, CorruptedSource, Determinate.
    """
    found = talk.hear(seconds_max=seconds_max)
    if found is None:
        raise Determinate(f"{shown} did not answer within {seconds_max:g} s")
    if isinstance(found, Closed):
        raise_closed(found, shown)
    return understood(read, found, shown=shown)


def understood(read: Callable[[str], T], text: str, *, shown: str) -> T:
    """What a peer says. Raises CorruptedSource: it is the peer that speaks wrongly."""
    try:
        return read(text)
    except InvalidRequest as error:
        raise CorruptedSource(
            f"{shown} does not keep to the Smart protocol: {error}", hint="its data may be read without odf+ in the URL"
        ) from None


def raise_closed(closed: Closed, shown: str) -> NoReturn:
    """Raises what the reason says, Determinate if it says nothing that is known.

    Determinate too if the node has no place now and asks to be left alone for a while.
    """
    try:
        refusal = read_result(closed.reason, lambda value: value)
    except InvalidRequest:
        raise Determinate(f"{shown} closed the conversation ({closed.code})") from None
    if closed.code == TRY_AGAIN:
        why = refusal.message if isinstance(refusal, InternalFailure) else "it has no place now"
        raise Determinate(f"{shown} refuses for now: {why}", retry_after_s=TRY_AGAIN_S)
    if isinstance(refusal, Refusal):
        raise_refusal(refusal, shown)
    raise Determinate(f"{shown} closed the conversation ({closed.code})")


def raise_refusal(refusal: Refusal, shown: str) -> NoReturn:
    """Raises what a refusal of a server stands for."""
    match refusal:
        case InvalidInterval(head=head, tail=tail):
            raise ChainsDiverged(
                f"{shown} is at {head} and does not have our head {tail}",
                hint="it was rolled back, or one of the two rewritten: find out which, then replace the copy with --force",
            )
        case InvalidHead(said=said, servers=servers):
            raise HeadMoved(expected=str(said), actual=str(servers))
        case RefCollision(dataset=dataset):
            raise AlreadyExists(
                f"{shown}: the node has {dataset} under another name", hint="push to that name, or delete it there"
            )
        case NameCollision(alias=alias):
            raise AlreadyExists(f"{shown}: the node has another dataset named {alias}", hint="push to another name")
        case SeedOverwriteRestricted():
            raise InvalidRequest(
                f"{shown}: overwriting dataset id or kind is restricted, another dataset is there",
                hint="push to another name",
            )
        case InternalFailure(message=message):
            raise InvalidRequest(f"{shown} refuses: {message}", hint="the log of that node says why")
