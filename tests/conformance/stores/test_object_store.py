"""Objects and refs: memory and a folder keep one contract."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from odfabric.adapters.cached.object_store import CachedObjectStore
from odfabric.adapters.local_fs.folder_cache import FolderCache
from odfabric.adapters.local_fs.folder_locks import FolderLocks
from odfabric.adapters.local_fs.object_store import FolderObjectStore
from odfabric.adapters.memory.datasets.object_store import MemoryObjectStore
from odfabric.adapters.memory.node.clock import SettableClock
from odfabric.adapters.s3.client import S3Access
from odfabric.adapters.s3.object_store import S3ObjectStore
from odfabric.ports.datasets.object_store import ObjectStore
from odfabric.testing.conformance.datasets.object_store import (
    ImpatientLockContract,
    ListingContract,
    ObjectStoreContract,
    ObjectStoreProcessContract,
    RefsContract,
)
from odfabric.testing.conformance.examples import NOW
from tests.support.servers.s3 import S3Server


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


def open_bucket(s3: S3Server, bucket: str, locks: Path) -> ObjectStore:
    access = S3Access(endpoint_url=s3.endpoint, access_key=s3.access_key, secret_key=s3.secret_key)
    return S3ObjectStore(access, bucket, prefix="node/", exclusive=FolderLocks(locks).exclusive)


class InBucket:
    @pytest.fixture
    def open_objects(self, s3: S3Server, bucket: str, tmp_path: Path) -> Callable[[], ObjectStore]:
        return partial(open_bucket, replace(s3, process=None), bucket, tmp_path / "locks")

    @pytest.fixture
    def objects(self, open_objects: Callable[[], ObjectStore]) -> ObjectStore:
        return open_objects()


class TestBucketObjects(InBucket, ObjectStoreContract): ...


class TestBucketListing(InBucket, ListingContract): ...


class TestBucketRefs(InBucket, RefsContract): ...


class TestBucketBetweenProcesses(InBucket, ObjectStoreProcessContract): ...


class NearBucket:
    """Objects of a bucket with copies in a folder."""

    @pytest.fixture
    def objects(self, s3: S3Server, bucket: str, tmp_path: Path) -> ObjectStore:
        return CachedObjectStore(
            open_bucket(s3, bucket, tmp_path / "locks"), FolderCache(tmp_path / "cache", bytes_max=1 << 20)
        )


class TestCachedObjects(NearBucket, ObjectStoreContract): ...


class TestCachedRefs(NearBucket, RefsContract): ...


class TestFolderBetweenProcesses(ObjectStoreProcessContract):
    @pytest.fixture
    def open_objects(self, tmp_path: Path) -> Callable[[], ObjectStore]:
        return partial(FolderObjectStore, tmp_path / "objects")
