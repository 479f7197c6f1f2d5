"""Objects and refs: memory and a folder keep one contract."""

from __future__ import annotations

import errno
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from odfabric.adapters.local_fs.object_store import FolderObjectStore
from odfabric.adapters.memory.clock import SettableClock
from odfabric.adapters.memory.object_store import MemoryObjectStore
from odfabric.ports.object_store import ObjectStore
from odfabric.testing.conformance.examples import NOW
from odfabric.testing.conformance.object_store import (
    ImpatientLockContract,
    ListingContract,
    ObjectStoreContract,
    ObjectStoreProcessContract,
    RefsContract,
)


class InMemory:
    @pytest.fixture
    def objects(self) -> ObjectStore:
        return MemoryObjectStore(SettableClock(NOW))


class InFolder:
    @pytest.fixture
    def objects(self, tmp_path: Path) -> ObjectStore:
        return FolderObjectStore(tmp_path / "objects")


class InFolderWithLinks:
    """Sources and destinations are private, so files are linked."""

    @pytest.fixture
    def objects(self, tmp_path: Path) -> ObjectStore:
        return FolderObjectStore(tmp_path / "objects", private_folders=[tmp_path])


class InFolderWithoutLinks:
    """The file system has no hard links."""

    @pytest.fixture
    def objects(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ObjectStore:
        def refuse(self: Path, target: Path) -> None:
            raise OSError(errno.EPERM, "Operation not permitted")

        monkeypatch.setattr(Path, "hardlink_to", refuse)
        return FolderObjectStore(tmp_path / "objects", private_folders=[tmp_path])


class TestMemoryObjects(InMemory, ObjectStoreContract): ...


class TestMemoryListing(InMemory, ListingContract): ...


class TestMemoryRefs(InMemory, RefsContract): ...


class TestMemoryLocks(ImpatientLockContract):
    @pytest.fixture
    def objects(self) -> ObjectStore:
        return MemoryObjectStore(SettableClock(NOW), lock_wait_s_max=0.1)


class TestFolderObjects(InFolder, ObjectStoreContract): ...


class TestLinkedObjects(InFolderWithLinks, ObjectStoreContract): ...


class TestUnlinkedObjects(InFolderWithoutLinks, ObjectStoreContract): ...


class TestFolderListing(InFolder, ListingContract): ...


class TestFolderRefs(InFolder, RefsContract): ...


class TestFolderLocks(ImpatientLockContract):
    @pytest.fixture
    def objects(self, tmp_path: Path) -> ObjectStore:
        return FolderObjectStore(tmp_path / "objects", lock_wait_s_max=0.1)


class TestFolderBetweenProcesses(ObjectStoreProcessContract):
    @pytest.fixture
    def open_objects(self, tmp_path: Path) -> Callable[[], ObjectStore]:
        return partial(FolderObjectStore, tmp_path / "objects")
