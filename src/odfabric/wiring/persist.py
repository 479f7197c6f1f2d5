"""The shards of a node for its operator, opened from settings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

from odfabric.adapters.persist.shards import ShardOperations
from odfabric.errors import NotFound
from odfabric.settings import Settings
from odfabric.wiring.indexes import persist_location
from odfabric.wiring.stores import is_workspace


@contextmanager
def open_shards(settings: Settings) -> Iterator[ShardOperations]:
    """Operations on shards, where the node of these settings keeps them. Raises NotFound for a folder that is no workspace."""
    if not is_workspace(settings):
        raise NotFound("workspace", str(settings.workspace), hint="name the folder of the node with --workspace")
    with closing(persist_location(settings)) as location:
        yield ShardOperations(location)
