"""A node in memory that is a client of the Smart protocol over real sockets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from ssl import SSLContext
from urllib.parse import urlsplit

from odfabric.adapters.http.egress import Egress, EgressLimits
from odfabric.adapters.http.linked_objects import HttpLinkedObjects
from odfabric.adapters.http.remote_dataset import HttpRemoteDatasets
from odfabric.adapters.http.remote_nodes import HttpRemoteNodes
from odfabric.adapters.websocket.conversations import WebSocketConversations
from odfabric.testing.memory_node import MemoryNode
from odfabric.wiring.transfer.remotes import RemotesByScheme


@contextmanager
def reaching(
    url: str, folder: Path, *, token: str | None, seed: int = 5, ssl_context: SSLContext | None = None
) -> Iterator[MemoryNode]:
    """A node that may reach `url` (scheme, host and port) and has that token for it.

    `ssl_context`: which authorities it trusts.
    """
    peer = MemoryNode(folder, seed=seed)
    with connected(peer, url, token=token, ssl_context=ssl_context):
        yield peer


@contextmanager
def connected(
    peer: MemoryNode, url: str, *, token: str | None, ssl_context: SSLContext | None = None
) -> Iterator[None]:
    """Let a node reach `url` as `reaching` does."""
    parts = urlsplit(url)
    port = parts.port or 80
    limits, allow = EgressLimits(ports=(port,)), [f"{parts.hostname}:{port}"]
    with Egress(limits=limits, allow=allow, ssl_context=ssl_context) as egress:
        over_http = HttpRemoteDatasets(egress, block_bytes_max=1 << 24)
        remotes = RemotesByScheme(
            dict.fromkeys(("odf+http", "http", "odf+https", "https"), over_http),
            tokens={} if token is None else {url: token},
        )
        peer._ports = replace(
            peer._ports,
            remotes=remotes,
            conversations=WebSocketConversations(
                egress.connections([port]),
                token_of=remotes.token_of,
                ssl_context=egress.ssl_context,
                message_bytes_max=1 << 26,
                connect_s_max=10.0,
            ),
            linked_objects=HttpLinkedObjects(egress),
            remote_nodes=HttpRemoteNodes(egress, token_of=remotes.token_of),
        )
        peer.restart()
        yield
