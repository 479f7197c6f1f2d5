"""How two copies of a chain relate: equal, one ahead, or diverged.

Owns the comparison by sequence numbers: the longer chain is walked down to the length of the shorter one, then both together
until a block is common. Reads only what lies above the common block, so a peer that is a few blocks behind costs a few
requests. Source: transfer protocols, "Simple Transfer Protocol". Not here: what to do about it (`usecases` of pulling).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from odfabric.domain.chain.walk import BlockSource, ChainLink, link_at, previous_link
from odfabric.errors import LimitExceeded
from odfabric.model.multihash import Multihash


class ChainOrder(Enum):
    """Where our chain stands relative to theirs."""

    EQUAL = "equal"
    BEHIND = "behind"
    AHEAD = "ahead"
    DIVERGED = "diverged"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainRelation:
    """Blocks that only one side has, and the newest that both have (None: no seed)."""

    uncommon_ours: int
    uncommon_theirs: int
    common: Multihash | None

    @property
    def order(self) -> ChainOrder:
        """The relation in one word.

        Chains of one length with different heads have diverged.
        """
        match (self.uncommon_ours > 0, self.uncommon_theirs > 0):
            case (False, False):
                return ChainOrder.EQUAL
            case (False, True):
                return ChainOrder.BEHIND
            case (True, False):
                return ChainOrder.AHEAD
            case _:
                return ChainOrder.DIVERGED


def compare_chains(
    *,
    ours: BlockSource,
    our_head: Multihash | None,
    theirs: BlockSource,
    their_head: Multihash | None,
    blocks_max: int,
) -> ChainRelation:
    """Relate two chains; a head of None is a chain that does not exist yet.

    Raises NotFound for a missing block, InvalidBlock for links that do not fit, LimitExceeded when more than `blocks_max`
    blocks of one side would have to be read.
    """
    if our_head == their_head:
        return ChainRelation(uncommon_ours=0, uncommon_theirs=0, common=our_head)
    left = _Side(ours, our_head, blocks_max)
    right = _Side(theirs, their_head, blocks_max)
    while left.hash != right.hash:
        left_length, right_length = left.length, right.length
        if left_length >= right_length:
            left.step()
        if right_length >= left_length:
            right.step()
    return ChainRelation(uncommon_ours=left.passed, uncommon_theirs=right.passed, common=left.hash)


class _Side:
    """One chain being walked: where it stands and how many blocks were passed."""

    def __init__(self, source: BlockSource, head: Multihash | None, blocks_max: int) -> None:
        self._source, self._blocks_max = source, blocks_max
        self._link: ChainLink | None = None if head is None else link_at(source, head)
        self.passed = 0

    @property
    def hash(self) -> Multihash | None:
        return None if self._link is None else self._link.hash

    @property
    def length(self) -> int:
        """Blocks from here to the seed."""
        return 0 if self._link is None else self._link.block.sequence_number + 1

    def step(self) -> None:
        if self._link is None:
            return
        self.passed += 1
        if self.passed > self._blocks_max:
            raise LimitExceeded(
                f"the chains differ in more than {self._blocks_max} blocks",
                limit="chain_blocks_max",
                maximum=self._blocks_max,
            )
        self._link = previous_link(self._source, self._link)
