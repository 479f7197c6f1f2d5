"""Composition root: the adapters behind the ports, and the verbs bound to them.

Adapters and use cases meet in this package and nowhere else. `node` binds groups of verbs to ports, `embedded` chooses the adapters of
a node. Folders by subject: `places` (where a node keeps things), `engine`, `sources`, `people`, `datasets`, `events`, `jobs`,
`monitoring`, `upkeep`; on top of a node are `composed` (verbs made of several groups) and `operations` (commands of its operator).

A name is imported when it is used: all adapters together take most of a second, and a command may need one of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from odfabric.wiring.embedded import CRASH_POINTS as CRASH_POINTS
    from odfabric.wiring.embedded import engine_launcher as engine_launcher
    from odfabric.wiring.embedded import open_engine as open_engine
    from odfabric.wiring.embedded import open_node as open_node
    from odfabric.wiring.embedded import prepare_workspace as prepare_workspace
    from odfabric.wiring.node import Node as Node
    from odfabric.wiring.node_ports import NodePorts as NodePorts
    from odfabric.wiring.places.database_place import is_workspace as is_workspace
    from odfabric.wiring.places.keys import rotate_node_key as rotate_node_key

_PLACES = {
    "CRASH_POINTS": "embedded",
    "engine_launcher": "embedded",
    "open_engine": "embedded",
    "open_node": "embedded",
    "prepare_workspace": "embedded",
    "rotate_node_key": "places.keys",
    "Node": "node",
    "NodePorts": "node_ports",
    "is_workspace": "places.database_place",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
