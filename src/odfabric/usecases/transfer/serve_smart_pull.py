"""Serve a dataset by the Smart Transfer Protocol: the server of a pull.

Owns the order of its messages. Invariants: objects are linked to only by way of the dataset whose chain names them; a chain that does not fit
into one frame is refused before any of it is sent; whatever the client says, the conversation ends with a whole answer.
Source: RFC-008; RFC-007.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from odfabric.errors import InvalidRequest, LimitExceeded, OdfError
from odfabric.formats.smart.close_reason import FAILED, close_reason
from odfabric.formats.smart.pull_messages import (
    read_blocks_wanted,
    read_objects_wanted,
    read_pull_begin,
    write_downloads,
    write_pull_plan,
    write_pulled_blocks,
)
from odfabric.model.commit import CatalogEntry, EncodedBlock
from odfabric.model.multihash import Multihash
from odfabric.model.transfer.smart import (
    InternalFailure,
    InvalidInterval,
    ObjectDownload,
    ObjectFile,
    ObjectUrl,
    Phase,
    PullBegin,
    Refusal,
)
from odfabric.ports.transfer.conversations import Closed, Conversation
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.transfer.smart_parts import (
    OBJECTS_AT_ONCE_MAX,
    SmartLimits,
    batch_of,
    bytes_of,
    plan_of,
    timed_with_client,
)

LinkOf = Callable[[ObjectFile], ObjectUrl]
"""Where an object of the dataset is read. Raises NotFound for what its chain does not name."""
INTERNAL = "Internal error"

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServePullPorts:
    """What serving needs.

    `check` raises if the caller may not read the dataset any more.
    """

    repository: Repository
    link_of: LinkOf
    check: Callable[[], None]
    limits: SmartLimits


def serve_smart_pull(conversation: Conversation, entry: CatalogEntry, *, ports: ServePullPorts) -> None:
    """Hold the conversation to its end.

    Raises nothing that the client has caused, and other failures after reporting them to the client.
    """
    phase = Phase.PULL_INITIAL
    talk = timed_with_client(conversation, ports.limits)
    try:
        begin = _next(talk, read_pull_begin, ports.limits.wait_s_max)
        if begin is None:
            return
        found = _blocks(entry, begin, ports)
        if not isinstance(found, list):
            talk.say(write_pull_plan(found))
            _await_end(talk, ports.limits)
            return
        text = _text(found, ports.limits)
        plan = plan_of(found)
        talk.announce(bytes_of(plan))
        talk.say(write_pull_plan(plan))
        phase = Phase.PULL_METADATA
        if not found:
            _await_end(talk, ports.limits)
            return
        if _next(talk, read_blocks_wanted_flag, ports.limits.wait_s_max) is None:
            return
        ports.check()
        talk.say(text)
        phase = Phase.PULL_OBJECTS
        while (wanted := _next(talk, read_objects_wanted, ports.limits.objects_wait_s_max)) is not None:
            ports.check()
            talk.say(write_downloads(_downloads(wanted, ports)))
    except OdfError as error:
        talk.end(FAILED, close_reason(InternalFailure(phase, message_for_peer(error))))
    except Exception:
        talk.end(FAILED, close_reason(InternalFailure(phase, INTERNAL)))
        raise


def read_blocks_wanted_flag(text: str) -> bool:
    """True for the request of the blocks. Raises InvalidRequest."""
    read_blocks_wanted(text)
    return True


def message_for_peer(error: OdfError) -> str:
    """The message for a peer: its mistake or the limit it met, not our own trouble."""
    return error.message if error.code not in _OURS else INTERNAL


_OURS = frozenset({"corrupt", "unavailable", "outcome-unknown", "error"})


def _next(talk: Conversation, read: Callable[[str], T], seconds_max: float) -> T | None:
    """The next message, None at the end. Raises InvalidRequest, LimitExceeded."""
    found = talk.hear(seconds_max=seconds_max)
    if isinstance(found, Closed):
        return None
    if found is None:
        raise LimitExceeded("the next message does not come", limit="smart_wait_s_max", maximum=seconds_max)
    return read(found)


def _await_end(talk: Conversation, limits: SmartLimits) -> None:
    talk.hear(seconds_max=limits.wait_s_max)


def _blocks(entry: CatalogEntry, begin: PullBegin, ports: ServePullPorts) -> list[EncodedBlock] | Refusal:
    """What the client lacks, oldest first."""
    repository, limits = ports.repository, ports.limits
    head = repository.head(entry.id)
    newest = head.sequence_number
    stop = head.hash
    if begin.stop_at is not None:
        row = repository.chains.row(entry.id, begin.stop_at)
        if row is None:
            return InternalFailure(Phase.PULL_INITIAL, "stop_at is no block of the chain")
        stop, newest = row.hash, row.sequence_number
    oldest = 0
    if begin.begin_after is not None:
        row = repository.chains.row(entry.id, begin.begin_after)
        if row is not None and row.sequence_number <= newest:
            oldest = row.sequence_number + 1
        elif not begin.force:
            return InvalidInterval(head=stop, tail=begin.begin_after)
    if newest - oldest + 1 > limits.archive.blocks_max:
        raise LimitExceeded("too many blocks", limit="chain_blocks_max", maximum=limits.archive.blocks_max)
    return _read(entry, stop, newest - oldest + 1, ports)


def _read(entry: CatalogEntry, stop: Multihash, count: int, ports: ServePullPorts) -> list[EncodedBlock]:
    """`count` blocks down from `stop`, turned round.

    Raises LimitExceeded as soon as they are too large.
    """
    stored = ports.repository.blocks(entry.id)
    found: list[EncodedBlock] = []
    size, name = 0, stop
    for _ in range(count):
        encoded = EncodedBlock(name, stored.get_bytes(name), stored.get(name))
        size += len(encoded.data)
        if size > ports.limits.archive.bytes_max:
            raise _too_long(count, ports.limits)
        found.append(encoded)
        if encoded.block.prev_block_hash is None:
            break
        name = encoded.block.prev_block_hash
    return found[::-1]


def _text(blocks: Sequence[EncodedBlock], limits: SmartLimits) -> str:
    """The message with the blocks; a server's message is one frame."""
    text = write_pulled_blocks(batch_of(blocks))
    if len(text) > limits.frame_bytes_max:
        raise _too_long(len(blocks), limits)
    return text


def _too_long(count: int, limits: SmartLimits) -> LimitExceeded:
    # Short: it is to fit into the reason of a close frame.
    return LimitExceeded(
        f"{count} blocks: use http(s)://, no odf+", limit="smart_frame_bytes_max", maximum=limits.frame_bytes_max
    )


def _downloads(wanted: Sequence[ObjectFile], ports: ServePullPorts) -> list[ObjectDownload]:
    if len(wanted) > 10 * OBJECTS_AT_ONCE_MAX:
        raise InvalidRequest(f"at most {10 * OBJECTS_AT_ONCE_MAX} objects are linked to in one message")
    return [ObjectDownload(each, ports.link_of(each)) for each in wanted]
