"""How far a consumer has read a dataset: its cursor, and possible positions."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from odfabric.model.identity import DatasetId
from odfabric.model.instant import Instant
from odfabric.model.multihash import Multihash


class CursorMode(Enum):
    """Reading the net state at one block, or the changes after it."""

    BASELINE = "baseline"
    LISTEN = "listen"


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorPosition:
    """A place in a chain, for ever: what is read from there never changes.

    `epoch` is the block with number `next_sequence - 1`, which ties the place to this very chain. While listening the next row is
    number `next_row` of block `next_sequence` (0 there also means: of the first data block from it on); in a baseline it is number
    `next_row` of the net state after block `epoch`.
    """

    mode: CursorMode
    next_sequence: int
    next_row: int
    epoch: Multihash

    def __str__(self) -> str:
        return f"{self.mode.value}.{self.next_sequence}.{self.next_row}.{self.epoch}"

    @property
    def order(self) -> tuple[bool, int, int]:
        """Positions of one chain in the order in which a consumer meets them."""
        return (self.mode is CursorMode.LISTEN, self.next_sequence, self.next_row)


def space_of(consumer: str) -> str:
    """Whose the consumer of a stored cursor is.

    Names are `space/name`, and just `name` in the space of the account `local`.
    """
    return consumer.rpartition("/")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """What a consumer has acknowledged.

    `fence` is known to the one who reads now; until `lease_until` nobody takes it from them.
    """

    dataset_id: DatasetId
    consumer: str
    position: CursorPosition
    fence: str
    lease_until: Instant
    created_at: Instant
    updated_at: Instant
