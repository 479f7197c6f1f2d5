"""Turning events into blocks: links, numbers, time, bytes, hashes.

Owns the making of new blocks. Invariant: what comes out is valid on top of the given state, for every block was judged by
`chain.validate` before it was encoded. Blocks of others never pass here: they stay the bytes that were received.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from odfabric.domain.chain.state import ChainState, apply
from odfabric.domain.chain.validate import validate_append
from odfabric.formats.blocks.block import block_hash, encode_block
from odfabric.model.commit import EncodedBlock
from odfabric.model.instant import NANOS_PER_MILLI, Instant
from odfabric.model.metadata import MetadataBlock, MetadataEvent


def link_blocks(state: ChainState, events: Iterable[MetadataEvent], *, system_time: Instant) -> list[EncodedBlock]:
    """Blocks for `events` on top of `state`, oldest first, all of one system time.

    Raises InvalidBlock for the first event that the chain does not admit; nothing is to be written then.
    """
    blocks: list[EncodedBlock] = []
    for event in events:
        blocks.append(_next_block(state, event, system_time=system_time))
        state = apply(state, blocks[-1].hash, blocks[-1].block)
    return blocks


def fold_blocks(state: ChainState, blocks: Sequence[EncodedBlock]) -> ChainState:
    """The state after blocks that are known to be valid, oldest first."""
    for encoded in blocks:
        state = apply(state, encoded.hash, encoded.block)
    return state


def next_system_time(state: ChainState, *, now: Instant) -> Instant:
    """System time of a run on this head: whole milliseconds, not before the head's.

    Data columns hold milliseconds, so a block's time must be one; a head of another node may have a finer one.
    """
    head = state.system_time
    if head is None or now.truncated_to_millis() >= head:
        return now.truncated_to_millis()
    return Instant.from_millis(-(-head.epoch_ns // NANOS_PER_MILLI))


def _next_block(state: ChainState, event: MetadataEvent, *, system_time: Instant) -> EncodedBlock:
    block = MetadataBlock(
        system_time=system_time,
        prev_block_hash=state.head,
        sequence_number=0 if state.sequence_number is None else state.sequence_number + 1,
        event=event,
    )
    validate_append(state, block)
    data = encode_block(block)
    return EncodedBlock(block_hash(data), data, block)
