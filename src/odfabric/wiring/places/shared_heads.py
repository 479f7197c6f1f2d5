"""A node with heads of record in the objects: the ports over its database's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from odfabric.adapters.object_heads.catalog import ObjectHeadCatalog
from odfabric.adapters.object_heads.chains import ObjectHeadChains
from odfabric.adapters.object_heads.follower import HeadFollower
from odfabric.ports.datasets.commit_intents import CommitIntents
from odfabric.settings import Settings
from odfabric.wiring.node_ports import NodePorts
from odfabric.wiring.places.identity import own_part


def with_heads_in_objects(
    ports: NodePorts, intents: CommitIntents, settings: Settings
) -> tuple[NodePorts, Callable[[], None]]:
    """The ports, and what workers do from time to time to hear of other nodes."""
    chains = ObjectHeadChains(
        local=ports.chains,
        catalog=ports.catalog,
        intents=intents,
        objects=ports.objects,
        block_bytes_max=settings.block_bytes_max,
        blocks_max=settings.chain_blocks_max,
    )
    catalog = ObjectHeadCatalog(ports.catalog, chains)
    follower = HeadFollower(chains, catalog, intents, clock=ports.clock, every_s=settings.heads_poll_s)
    return replace(ports, chains=chains, catalog=catalog, own_part=own_part(settings)), follower.step
