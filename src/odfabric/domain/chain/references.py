"""Which objects beside the chain an event names.

Owns the one answer for all who check, serve or collect objects.
"""

from __future__ import annotations

from odfabric.formats.identifiers.dataset_layout import CHECKPOINTS, DATA
from odfabric.model.metadata import AddData, ExecuteTransform, MetadataEvent
from odfabric.model.multihash import Multihash


def named_objects(event: MetadataEvent) -> list[tuple[str, Multihash]]:
    """Folder and name of each slice and checkpoint of an event."""
    if not isinstance(event, AddData | ExecuteTransform):
        return []
    named = [(DATA, event.new_data.physical_hash)] if event.new_data is not None else []
    if event.new_checkpoint is not None:
        named.append((CHECKPOINTS, event.new_checkpoint.physical_hash))
    return named
