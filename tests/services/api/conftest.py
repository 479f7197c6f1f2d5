"""One server and one node for all tests of a module.

Each test makes its own datasets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing

import httpx
import pytest

from odfabric.cli.backends.node_client import NodeBackend
from odfabric.testing.memory_node import MemoryNode
from tests.services.api.documented import check_documented
from tests.services.api.serving import Served, serving, working


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> MemoryNode:
    return MemoryNode(tmp_path_factory.mktemp("node"))


@pytest.fixture(scope="module")
def served(memory: MemoryNode) -> Iterator[Served]:
    with serving(memory.node) as found, working(memory.node):
        yield found


@pytest.fixture
def client(served: Served) -> Iterator[httpx.Client]:
    """Holds the token."""
    with served.client() as found:
        found.event_hooks = {"response": [check_documented(served.app)]}
        yield found


@pytest.fixture
def stranger(served: Served) -> Iterator[httpx.Client]:
    """Holds no token."""
    with served.client(None) as found:
        found.event_hooks = {"response": [check_documented(served.app)]}
        yield found


@pytest.fixture
def told() -> list[Mapping[str, object]]:
    """What the backend was informed of the progress of jobs."""
    return []


@pytest.fixture
def backend(served: Served, told: list[Mapping[str, object]]) -> Iterator[NodeBackend]:
    """The command's way to the node; holds the token."""
    with served.client() as client:
        token = client.headers["authorization"].removeprefix("Bearer ")
        found = NodeBackend(str(client.base_url), token=token, account="local", listener=told.append)
    with closing(found):
        yield found
