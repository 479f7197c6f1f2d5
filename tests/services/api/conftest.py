"""One server and one node for all tests of a module; each test makes its own datasets."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

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
