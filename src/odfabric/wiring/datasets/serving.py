"""What a node serves to other nodes, bound to its ports.

Heads, blocks and objects of its datasets.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from odfabric.model.commit import CatalogEntry
from odfabric.model.multihash import Multihash
from odfabric.usecases.transfer.serve_objects import (
    ReferredObjects,
    ServedObject,
    serve_head,
    serve_object,
    serve_stretch,
)
from odfabric.wiring.node_core import NodeCore


@dataclass(frozen=True, slots=True)
class ServingVerbs:
    """Verbs of the simple transfer protocol, as its server has them."""

    core: NodeCore
    referred: ReferredObjects = field(init=False)

    def __post_init__(self) -> None:
        names_max = self.core.settings.served_names_cached_max
        object.__setattr__(self, "referred", ReferredObjects(self.core.repository, names_max=names_max))

    def head(self, entry: CatalogEntry) -> Multihash:
        """What `refs/head` answers."""
        return serve_head(entry, repository=self.core.repository)

    def object(self, entry: CatalogEntry, folder: str, name: Multihash) -> ServedObject:
        """A block, slice or checkpoint of this very dataset."""
        return serve_object(entry, folder, name, referred=self.referred, link_s=self.core.settings.object_link_s)

    def stretch(self, entry: CatalogEntry, name: Multihash, *, count: int) -> bytes:
        """A block of this very dataset and predecessors, in one body."""
        return serve_stretch(entry, name, count=count, repository=self.core.repository)
