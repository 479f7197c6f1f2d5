"""Current-state indexes: memory and the storage library keep one contract."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from odfabric.adapters.memory.clock import SettableClock
from odfabric.adapters.memory.exchange import MemoryExchange
from odfabric.adapters.memory.object_store import MemoryObjectStore
from odfabric.adapters.memory.state_index import MemoryStateIndex
from odfabric.adapters.persist.state_index import PersistStateIndex
from odfabric.ports.state_index import StateIndex
from odfabric.testing.changelogs import Changelog
from odfabric.testing.conformance.examples import NOW
from odfabric.testing.conformance.state_index import StateIndexContract
from odfabric_persist.client import PersistClient
from odfabric_persist.location.folder_blob import FolderBlob
from odfabric_persist.location.memory import MemoryBlob, MemoryConsensus
from odfabric_persist.location.sqlite_consensus import SqliteConsensus


@pytest.fixture
def changelog(tmp_path: Path) -> Changelog:
    return Changelog(MemoryObjectStore(SettableClock(NOW)), tmp_path)


class TestMemoryStateIndex(StateIndexContract):
    @pytest.fixture
    def changelog(self, changelog: Changelog) -> Changelog:
        return changelog

    @pytest.fixture
    def open_index(self, changelog: Changelog) -> Callable[[], StateIndex]:
        shared = MemoryStateIndex(changelog.objects)
        return lambda: shared


class TestPersistStateIndexInMemory(StateIndexContract):
    @pytest.fixture
    def changelog(self, changelog: Changelog) -> Changelog:
        return changelog

    @pytest.fixture
    def open_index(self, changelog: Changelog, tmp_path: Path) -> Callable[[], StateIndex]:
        blob, consensus = MemoryBlob(), MemoryConsensus()
        scratch = MemoryExchange(tmp_path / "scratch").session
        return lambda: PersistStateIndex(PersistClient(blob, consensus), changelog.objects, scratch)


class TestPersistStateIndexOnDisk(StateIndexContract):
    @pytest.fixture
    def changelog(self, changelog: Changelog) -> Changelog:
        return changelog

    @pytest.fixture
    def open_index(
        self, changelog: Changelog, tmp_path: Path, request: pytest.FixtureRequest
    ) -> Callable[[], StateIndex]:
        scratch = MemoryExchange(tmp_path / "scratch").session

        def opened() -> StateIndex:
            consensus = SqliteConsensus(tmp_path / "versions.db")
            request.addfinalizer(consensus.close)
            return PersistStateIndex(
                PersistClient(FolderBlob(tmp_path / "blobs"), consensus), changelog.objects, scratch
            )

        return opened
