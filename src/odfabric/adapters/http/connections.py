"""Guarded TCP connections for sources that do not speak HTTP: MQTT, FTP.

Owns one guard per protocol, because each has ports of its own; the operator's exceptions are the same for all. Invariant: a socket that
leaves this module is connected to an address that the guard has checked. Source: docs/threat-model.md.
"""

from __future__ import annotations

import socket
from collections.abc import Collection, Sequence
from time import monotonic

from odfabric.adapters.http.guard import EgressGuard, Resolver, system_resolver
from odfabric.adapters.http.network import Connector, connect_socket, first_connection
from odfabric.adapters.http.url import parse_http_url
from odfabric.errors import Determinate, InvalidRequest, Place


class GuardedConnections:
    """`ports.sources.egress.TcpConnections`.

    Safe for use by many threads; close it when done.
    """

    def __init__(
        self,
        *,
        ports: Collection[int],
        allow: Sequence[str] = (),
        resolver: Resolver = system_resolver,
        connector: Connector = connect_socket,
    ) -> None:
        """`ports`: those of public hosts that may be reached.

        `allow`: exceptions, see `EgressGuard`.
        """
        self._guard = EgressGuard(ports=ports, allow=allow, resolver=resolver)
        self._connector = connector

    def close(self) -> None:
        """Give up lookups that nobody waits for."""
        self._guard.close()

    def connect(self, host: str, port: int, *, seconds_max: float) -> socket.socket:
        """See the port."""
        deadline = monotonic() + seconds_max
        host = _strict_host(host, port)
        addresses = self._guard.addresses(host, port, seconds_max=seconds_max)
        try:
            connected = first_connection(addresses, port, self._connector, left_s=lambda: deadline - monotonic())
        except TimeoutError:
            raise Determinate(f"{host}:{port}: the connection took too long", stage="connect") from None
        except OSError as error:
            why = error.strerror or "the connection failed"
            raise Determinate(f"{host}:{port}: {why}", stage="connect") from None
        connected.settimeout(None)
        return connected


def _strict_host(host: str, port: int) -> str:
    """The host by the grammar of URLs. Raises InvalidRequest.

    The operator's exceptions then compare equal.
    """
    if not host or set(host) & set("/?#@[]"):
        raise InvalidRequest(f"{host[:100]!r} is not the name of a host", place=Place(field="host"))
    return parse_http_url(f"http://{f'[{host}]' if ':' in host else host}:{port}/").host
