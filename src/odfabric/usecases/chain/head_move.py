"""What a head move brought: offsets, records, watermark, from its blocks.

Invariant: facts of one move are the same for ever, so a process may remember them. Not here: their form (`formats.webhooks.cloud_event`).
"""

from __future__ import annotations

from odfabric.domain.chain.walk import walk
from odfabric.errors import ChainsDiverged, LimitExceeded
from odfabric.model.identity import DatasetId
from odfabric.model.instant import Instant
from odfabric.model.metadata import AddData, ExecuteTransform
from odfabric.model.multihash import Multihash
from odfabric.model.node.remembered import Remembered
from odfabric.model.offsets import OffsetRange
from odfabric.model.subscriptions.subscription import HeadMoveFacts
from odfabric.usecases.chain.repository import Repository

BLOCKS_READ_MAX = 10_000
"""Blocks of one move that are read; of a longer one the event has the heads alone."""
MOVES_REMEMBERED_MAX = 1_000


class HeadMoves:
    """Facts of moves, read once by a process."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._known = Remembered[tuple[DatasetId, Multihash | None, Multihash], HeadMoveFacts](MOVES_REMEMBERED_MAX)

    def facts(self, dataset: DatasetId, old_head: Multihash | None, new_head: Multihash) -> HeadMoveFacts | None:
        """What `(old_head, new_head]` brought.

        None for a move that does not go forwards, or is too long to be read.

        Raises NotFound, Corrupt, InvalidBlock for blocks that cannot be read, Determinate.
        """
        key = (dataset, old_head, new_head)
        known = self._known.get(key)
        if known is None:
            try:
                known = self._read(dataset, old_head, new_head)
            except (ChainsDiverged, LimitExceeded):
                return None
            self._known.put(key, known)
        return known

    def _read(self, dataset: DatasetId, old_head: Multihash | None, new_head: Multihash) -> HeadMoveFacts:
        newest: OffsetRange | None = None
        oldest: OffsetRange | None = None
        watermark: Instant | None = None
        blocks = records = 0
        links = walk(self._repository.blocks(dataset), new_head, tail=old_head, blocks_max=BLOCKS_READ_MAX)
        for link in links:
            blocks += 1
            match link.block.event:
                case AddData() | ExecuteTransform() as event:
                    watermark = watermark or event.new_watermark
                    if event.new_data is not None:
                        oldest = OffsetRange.from_wire(event.new_data.offset_interval)
                        newest = newest or oldest
                        records += oldest.rows
                case _:
                    pass
        offsets = OffsetRange(oldest.begin, newest.end) if oldest and newest else None
        return HeadMoveFacts(blocks=blocks, offsets=offsets, records=records, watermark=watermark)
