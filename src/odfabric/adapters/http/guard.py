"""Decides which places requests may reach, at the moment of connecting.

Owns the rules: ports, address classes, the operator's exceptions. Invariant: the addresses it returns are the ones that
are connected to; a name is looked up once for each connection and every address it stands for must pass, so an answer that
mixes public and inner addresses is refused whole and a later answer cannot matter. Source: docs/threat-model.md.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address, ip_network

from odfabric.adapters.http.addresses import IpAddress, IpNetwork, why_not_public
from odfabric.adapters.http.url import HttpUrl, parse_http_url
from odfabric.errors import AccessDenied, Determinate, InvalidRequest, Place

Resolver = Callable[[str], Sequence[str]]
"""Addresses of a host name, as text. Raises OSError."""

ADDRESSES_TRIED_MAX = 8
"""Addresses of one name that a connection tries, in the order of the answer."""
LOOKUPS_AT_ONCE_MAX = 32
_NO_SUCH_NAMES = frozenset({socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)})
"""What a resolver fails with that has found out that there is no such name, or no address for it."""


def system_resolver(host: str) -> Sequence[str]:
    """What the operating system says."""
    answers = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(answer[4][0]) for answer in answers))


class EgressGuard:
    """The rules of one node. Safe for use by many threads."""

    def __init__(self, *, ports: Collection[int], allow: Sequence[str], resolver: Resolver = system_resolver) -> None:
        """`allow` are exceptions: `host:port`, or networks and addresses.

        A `host:port` counts whatever it resolves to, networks and addresses on every port.

        Raises InvalidRequest for an exception that is neither.
        """
        self._ports = frozenset(ports)
        self._resolver = resolver
        self._endpoints: set[tuple[str, int]] = set()
        self._networks: list[IpNetwork] = []
        for entry in allow:
            self._add_exception(entry)
        # Lookups have no deadline of their own, so they run where a caller can stop waiting for them.
        self._lookups = ThreadPoolExecutor(LOOKUPS_AT_ONCE_MAX, thread_name_prefix="egress-lookup")

    def close(self) -> None:
        """Give up lookups that nobody waits for."""
        self._lookups.shutdown(wait=False, cancel_futures=True)

    def check(self, url: HttpUrl) -> None:
        """Refuse what can be refused without a lookup. Raises AccessDenied."""
        if (url.host, url.port) in self._endpoints:
            return
        literal = _as_address(url.host)
        if literal is not None:
            self._check_address(literal, url.host, url.port)
        elif url.port not in self._ports and not self._networks:
            self._refuse_port(url.port)

    def addresses(self, host: str, port: int, *, seconds_max: float) -> Sequence[IpAddress]:
        """The addresses to try for a connection, all of them checked.

        Raises AccessDenied if one of them is refused, Determinate if the lookup fails or takes over `seconds_max`.
        """
        literal = _as_address(host)
        found = [literal] if literal is not None else self._look_up(host, seconds_max)
        if (host, port) not in self._endpoints:
            for address in found:
                self._check_address(address, host, port)
        return found[:ADDRESSES_TRIED_MAX]

    def _check_address(self, address: IpAddress, host: str, port: int) -> None:
        if any(address in network for network in self._networks):
            return
        why = why_not_public(address)
        if why is not None:
            # Which address a name stands for is the inner network's business, not the user's.
            raise AccessDenied(
                f"host {host} is not a public address: {why}",
                hint="only public addresses can be reached; ODF_EGRESS_ALLOW (egress_allow) lists others that are allowed",
            )
        if port not in self._ports:
            self._refuse_port(port)

    def _refuse_port(self, port: int) -> None:
        allowed = ", ".join(str(number) for number in sorted(self._ports))
        raise AccessDenied(f"port {port} cannot be reached", hint=f"ports are {allowed}")

    def _look_up(self, host: str, seconds_max: float) -> list[IpAddress]:
        lookup = self._lookups.submit(self._resolver, host)
        try:
            answers = lookup.result(timeout=max(seconds_max, 0.0))
        except TimeoutError:
            lookup.cancel()
            raise Determinate(f"host {host} could not be resolved in time", stage="dns") from None
        except (OSError, UnicodeError) as error:
            raise _not_resolved(host, error) from None
        found = [ip_address(answer) for answer in answers]
        if not found:
            raise Determinate(f"host {host} has no address", lasting=True, stage="dns")
        return found

    def _add_exception(self, entry: str) -> None:
        try:
            self._networks.append(ip_network(entry))
        except ValueError:
            self._endpoints.add(_endpoint(entry))


def _not_resolved(host: str, error: OSError | UnicodeError) -> Determinate:
    """A name that nobody has, or a resolver that is out of reach for now."""
    if isinstance(error, UnicodeError) or error.errno in _NO_SUCH_NAMES:
        return Determinate(
            f"there is no host {host}",
            hint="check its spelling in the URL; a name of an inner network is known there alone",
            lasting=True,
            stage="dns",
        )
    return Determinate(
        f"host {host} could not be resolved for now",
        hint="the name server does not answer: check the network of this machine",
        stage="dns",
    )


def _as_address(host: str) -> IpAddress | None:
    try:
        return ip_address(host)
    except ValueError:
        return None


def _endpoint(entry: str) -> tuple[str, int]:
    """Read `host:port` by the grammar of URLs, so that both compare equal."""
    _, colon, port = entry.rpartition(":")
    try:
        if not colon or not port.isdecimal() or set(entry) & set("/?#"):
            raise InvalidRequest("no port")
        url = parse_http_url(f"http://{entry}/")
    except InvalidRequest:
        raise InvalidRequest(
            f"exception {entry!r} is neither host:port nor a network",
            place=Place(field="egress_allow"),
            hint="e.g. 127.0.0.1:8080, [::1]:8080, receiver.internal:443, 10.1.0.0/16",
        ) from None
    return url.host, url.port
