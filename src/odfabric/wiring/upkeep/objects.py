"""The object store as a whole, bound to a node's ports: rebuild and collect.

The database is rebuilt from it, and objects that no chain names are collected.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from odfabric.usecases.maintenance.collect_objects import CollectedPortion, Collection, CollectPorts, collect_objects
from odfabric.usecases.maintenance.rebuild import Listener, RebuildPorts, RebuiltDataset, rebuild
from odfabric.wiring.node_core import NodeCore


@dataclass(frozen=True, slots=True)
class ObjectVerbs:
    """Verbs about all objects of a node."""

    core: NodeCore
    _collection: Collection = field(init=False)

    def __post_init__(self) -> None:
        collection = Collection(self._collect_ports(), rest_s=self.core.settings.collect_every_s)
        object.__setattr__(self, "_collection", collection)

    def rebuild(self, *, adopt: bool, listener: Listener = lambda stage, done, total: None) -> Iterator[RebuiltDataset]:
        """Take what the object store has back into the database, dataset by dataset."""
        core = self.core
        ports = RebuildPorts(
            repository=core.repository,
            commits=core.commits,
            exchange=core.ports.exchange,
            clock=core.ports.clock,
            logs=core.log_judge,
            blocks_max=core.settings.chain_blocks_max,
            page_blocks_max=core.settings.rebuild_page_blocks_max,
        )
        return rebuild(ports=ports, adopt=adopt, listener=listener)

    def collect(self, *, dry_run: bool) -> Iterator[CollectedPortion]:
        """A whole round of collecting objects that no chain names."""
        return collect_objects(ports=self._collect_ports(), dry_run=dry_run)

    def collect_some(self) -> int:
        """The next portion of the round that is under way, if one is due.

        How many objects were removed.
        """
        return self._collection.step()

    def _collect_ports(self) -> CollectPorts:
        core = self.core
        return CollectPorts(
            repository=core.repository,
            removed=core.ports.removed,
            cursors=core.ports.cursors,
            jobs=core.ports.jobs,
            clock=core.ports.clock,
            lifetime_s=core.settings.garbage_lifetime_s,
            portion_max=core.settings.collect_portion_max,
        )
