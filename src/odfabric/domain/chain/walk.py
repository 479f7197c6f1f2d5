"""Walking a chain from its head back, one block at a time.

Owns lazy iteration and reading a state from a chain. Invariant: every step goes to a block whose sequence number is exactly
one less, so a walk ends at the seed or fails; nothing is kept of the blocks passed. Not here: where blocks come from
(`BlockSource` is answered by a store or a peer) and whether their bytes hash to their names (anyone who decodes them checks).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from odfabric.domain.chain.state import ChainState, merge, state_of_block
from odfabric.errors import ChainsDiverged, InvalidBlock, LimitExceeded, NotFound
from odfabric.model.metadata import AddData, DataSlice, ExecuteTransform, MetadataBlock
from odfabric.model.multihash import Multihash


class BlockSource(Protocol):
    """Blocks by hash, of one chain or of many."""

    def get(self, block_hash: Multihash) -> MetadataBlock:
        """The block of that hash. Raises NotFound."""


@dataclass(frozen=True, slots=True)
class ChainLink:
    """A block and its hash."""

    hash: Multihash
    block: MetadataBlock


def link_at(source: BlockSource, block_hash: Multihash) -> ChainLink:
    """The link of a hash. Raises NotFound."""
    return ChainLink(block_hash, source.get(block_hash))


def previous_link(source: BlockSource, link: ChainLink) -> ChainLink | None:
    """The link before, or None at the seed.

    Raises NotFound if the block is missing, InvalidBlock if the two do not fit: a chain that lies about its numbers could
    be walked for ever.
    """
    prev, number = link.block.prev_block_hash, link.block.sequence_number
    if prev is None:
        if number != 0:
            raise InvalidBlock(
                f"Block sequence has to start with zero, not {number}", kind="SequenceIntegrity", rule="A4"
            )
        return None
    block = source.get(prev)
    if block.sequence_number + 1 != number:
        raise InvalidBlock(
            f"Block {prev} with sequence number {block.sequence_number} cannot be followed by block with sequence number {number}",
            kind="SequenceIntegrity",
            rule="B1",
        )
    return ChainLink(prev, block)


def walk(
    source: BlockSource, head: Multihash | None, *, tail: Multihash | None = None, blocks_max: int | None = None
) -> Iterator[ChainLink]:
    """Links of `(tail, head]`, newest first; without `tail` down to the seed.

    Raises ChainsDiverged when it is certain that `tail` is not on the way (at the latest at its sequence number), NotFound
    for a missing block, InvalidBlock for links that do not fit, LimitExceeded at block `blocks_max + 1`.
    """
    if head == tail:
        return
    tail_number = _number_of_tail(source, head=head, tail=tail)
    link = None if head is None else link_at(source, head)
    count = 0
    while link is not None and link.hash != tail:
        if tail_number is not None and link.block.sequence_number <= tail_number:
            raise _not_an_ancestor(head=head, tail=tail)
        count += 1
        if blocks_max is not None and count > blocks_max:
            raise LimitExceeded(
                f"the chain has more than {blocks_max} blocks to walk",
                limit="chain_blocks_max",
                maximum=blocks_max,
            )
        yield link
        link = previous_link(source, link)
    if link is None and tail is not None:
        raise _not_an_ancestor(head=head, tail=tail)


def read_state(
    source: BlockSource, head: Multihash | None, *, base: ChainState | None = None, blocks_max: int | None = None
) -> ChainState:
    """The state at `head`.

    With `base`, the state of an ancestor, only the blocks above it are read.

    Raises as `walk`; ChainsDiverged if `base` is not an ancestor's.
    """
    older = base or ChainState.empty()
    newer = ChainState.empty()
    for link in walk(source, head, tail=older.head, blocks_max=blocks_max):
        newer = merge(newer=newer, older=state_of_block(link.hash, link.block))
    return merge(newer=newer, older=older)


def data_slices_down(
    source: BlockSource, head: Multihash | None, *, tail: Multihash | None = None, blocks_max: int | None = None
) -> Iterator[DataSlice]:
    """Data slices of `(tail, head]`, newest first. Raises as `walk`."""
    for link in walk(source, head, tail=tail, blocks_max=blocks_max):
        match link.block.event:
            case AddData(new_data=DataSlice() as found) | ExecuteTransform(new_data=DataSlice() as found):
                yield found
            case _:
                pass


def _number_of_tail(source: BlockSource, *, head: Multihash | None, tail: Multihash | None) -> int | None:
    if tail is None:
        return None
    try:
        return source.get(tail).sequence_number
    except NotFound:
        # Blocks are named by their content: a source that holds the head but not the tail has another chain.
        raise _not_an_ancestor(head=head, tail=tail) from None


def _not_an_ancestor(*, head: Multihash | None, tail: Multihash | None) -> ChainsDiverged:
    return ChainsDiverged(
        f"block {tail} is not in the chain of {head}", hint="the chain was rewritten since that block was seen"
    )
