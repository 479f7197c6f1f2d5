"""What a test wants to happen around calls of ports, or to know of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import httpx

from odfabric.adapters.unreliable.interception import Interceptor
from odfabric.cli.backends.node_client import NodeBackend

T = TypeVar("T")


class Network(httpx.BaseTransport):
    """What lies between a command and a node; `inner` is the way through."""

    def __init__(self, inner: httpx.BaseTransport) -> None:
        self.inner = inner

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return self.inner.handle_request(request)

    def close(self) -> None:
        self.inner.close()


def send_through(backend: NodeBackend, network: type[Network]) -> None:
    """Let the requests of a command's backend go through a network of the test's."""
    before = backend.connection.http
    backend.connection.http = httpx.Client(
        base_url=before.base_url, headers=before.headers, transport=network(httpx.HTTPTransport(verify=False))
    )
    before.close()


class Around(Interceptor):
    """Calls of the ports by name, and what is done before or after them.

    Nothing until something is set.
    """

    def __init__(self) -> None:
        self.before: dict[str, Callable[[], None]] = {}
        self.after: dict[str, Callable[[], None]] = {}

    def around(self, call: str, act: Callable[[], T], *, effect: bool) -> T:
        """See the base."""
        self.before.get(call, _nothing)()
        result = act()
        self.after.get(call, _nothing)()
        return result


class Calls(Interceptor):
    """Names of calls of ports, but of the audit, which is written after the answer."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def around(self, call: str, act: Callable[[], T], *, effect: bool) -> T:
        if call != "audit.refuse":
            self.seen.append(call)
        return act()


def _nothing() -> None:
    return
