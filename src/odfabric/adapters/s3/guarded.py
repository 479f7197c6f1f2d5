"""A client of S3 whose connections are made by the guard of outgoing requests.

Owns where such connections come from. Invariant: the address that was checked is the one that is connected to, also after a redirect of the
server; no proxy of the environment is asked. Source: docs/threat-model.md.
"""

from __future__ import annotations

import socket
from typing import Any

from botocore.awsrequest import (
    AWSHTTPConnection,
    AWSHTTPConnectionPool,
    AWSHTTPSConnection,
    AWSHTTPSConnectionPool,
)

from odfabric.ports.sources.egress import TcpConnections


def guard_client(client: Any, connections: TcpConnections, *, connect_s_max: float) -> None:
    """Let all connections of a client of the SDK be made by `connections`."""

    def connected(host: str, port: int | None, default_port: int, timeout_s: float | None) -> socket.socket:
        made = connections.connect(host, port or default_port, seconds_max=connect_s_max)
        made.settimeout(timeout_s)
        return made

    class GuardedConnection(AWSHTTPConnection):  # type: ignore[misc]
        def _new_conn(self) -> socket.socket:
            return connected(self.host, self.port, 80, _seconds(self.timeout))

    class GuardedTlsConnection(AWSHTTPSConnection):  # type: ignore[misc]
        def _new_conn(self) -> socket.socket:
            return connected(self.host, self.port, 443, _seconds(self.timeout))

    class GuardedPool(AWSHTTPConnectionPool):  # type: ignore[misc]
        ConnectionCls = GuardedConnection

    class GuardedTlsPool(AWSHTTPSConnectionPool):  # type: ignore[misc]
        ConnectionCls = GuardedTlsConnection

    # The SDK has no public place for this; a test connects through it, so that another version cannot go round the guard unseen.
    client._endpoint.http_session._manager.pool_classes_by_scheme = {"http": GuardedPool, "https": GuardedTlsPool}


def _seconds(timeout: object) -> float | None:
    return float(timeout) if isinstance(timeout, int | float) else None
