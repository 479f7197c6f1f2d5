"""How many bytes a chain stores: its blocks, slices and checkpoints."""

from __future__ import annotations

from collections.abc import Iterable

from odfabric.model.commit import EncodedBlock
from odfabric.model.metadata import AddData, ExecuteTransform, MetadataEvent


def stored_bytes(blocks: Iterable[EncodedBlock]) -> int:
    """Bytes of these blocks and of the objects that they add.

    An object that a block names again is counted again.
    """
    return sum(len(block.data) + object_bytes(block.block.event) for block in blocks)


def object_bytes(event: MetadataEvent) -> int:
    """Bytes of the slice and the checkpoint of an event, as it gives them."""
    if not isinstance(event, AddData | ExecuteTransform):
        return 0
    named = (event.new_data, event.new_checkpoint)
    return sum(each.size for each in named if each is not None)
