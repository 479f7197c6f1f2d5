"""Every store that tests of the location layer are run on; two handles of one path see one store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from odfabric_persist.location.cached import CachedBlob
from odfabric_persist.location.consensus import Consensus
from odfabric_persist.location.folder_blob import FolderBlob
from odfabric_persist.location.memory import MemoryBlob, MemoryConsensus
from odfabric_persist.location.metered import Meter, MeteredBlob, MeteredConsensus
from odfabric_persist.location.unreliable import Faults, UnreliableBlob, UnreliableConsensus
from tests.persist.stores import OpenBlob, OpenConsensus, closing_consensus


@pytest.fixture(params=["memory", "memory that keeps deleted", "folder", "cached", "metered", "unreliable"])
def open_blob(request: pytest.FixtureRequest, tmp_path: Path) -> OpenBlob:
    """Handles of stores by path."""
    memory = {name: MemoryBlob(keeps_deleted="deleted" in request.param) for name in ("path0", "path1")}
    kinds: dict[str, OpenBlob] = {
        "folder": lambda path: FolderBlob(tmp_path / path),
        "cached": lambda path: CachedBlob(memory[path], bytes_max=0),
        "metered": lambda path: MeteredBlob(memory[path], Meter()),
        "unreliable": lambda path: UnreliableBlob(memory[path], Faults()),
    }
    return kinds.get(request.param, lambda path: memory[path])


@pytest.fixture(params=["memory", "sqlite", "postgres", "metered", "unreliable"])
def open_consensus(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenConsensus]:
    """Handles of one register."""
    memory = MemoryConsensus()
    addresses: dict[str, Callable[[], str]] = {
        "sqlite": lambda: f"sqlite:{tmp_path / 'versions.db'}",
        "postgres": lambda: str(request.getfixturevalue("postgres_url")),
    }
    if request.param in addresses:
        with closing_consensus(addresses[request.param]()) as opened:
            yield opened
        return
    kinds: dict[str, Callable[[], Consensus]] = {
        "memory": lambda: memory,
        "metered": lambda: MeteredConsensus(memory, Meter()),
        "unreliable": lambda: UnreliableConsensus(memory, Faults()),
    }
    yield kinds[request.param]
