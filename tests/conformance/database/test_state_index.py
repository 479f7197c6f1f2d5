"""Current-state indexes: memory and the storage library keep one contract."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from odfabric.adapters.memory.datasets.exchange import MemoryExchange
from odfabric.adapters.memory.datasets.object_store import MemoryObjectStore
from odfabric.adapters.memory.datasets.state_index import MemoryStateIndex
from odfabric.adapters.memory.node.clock import SettableClock
from odfabric.adapters.persist.location import (
    BucketPlace,
    PersistLocation,
    blobs_in_bucket,
    blobs_in_folder,
    versions_in_file,
    versions_in_postgres,
)
from odfabric.adapters.persist.state_index import PersistStateIndex
from odfabric.ports.datasets.state_index import StateIndex
from odfabric.testing.changelogs import Changelog
from odfabric.testing.conformance.datasets.state_index import StateIndexContract, StateIndexHandlesContract
from odfabric.testing.conformance.examples import NOW
from odfabric_persist.client import PersistClient
from odfabric_persist.location.memory import MemoryBlob, MemoryConsensus
from tests.support.servers.s3 import S3Server


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

        def opened() -> StateIndex:
            client = PersistClient(blob, consensus)
            return PersistStateIndex(lambda: client, changelog.objects, scratch)

        return opened


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
            location = PersistLocation(blobs_in_folder(tmp_path / "blobs"), versions_in_file(tmp_path / "versions.db"))
            request.addfinalizer(location.close)
            return PersistStateIndex(location.client, changelog.objects, scratch)

        return opened


class TestPersistStateIndexOnServers(StateIndexHandlesContract):
    @pytest.fixture
    def changelog(self, changelog: Changelog) -> Changelog:
        return changelog

    @pytest.fixture
    def open_index(
        self,
        changelog: Changelog,
        tmp_path: Path,
        postgres_url: str,
        s3: S3Server,
        bucket: str,
        request: pytest.FixtureRequest,
    ) -> Callable[[], StateIndex]:
        scratch = MemoryExchange(tmp_path / "scratch").session
        place = BucketPlace(
            bucket=bucket,
            prefix="persist/",
            endpoint_url=s3.endpoint,
            region="us-east-1",
            access_key=s3.access_key,
            secret_key=s3.secret_key,
        )

        def opened() -> StateIndex:
            location = PersistLocation(blobs_in_bucket(place), versions_in_postgres(postgres_url))
            request.addfinalizer(location.close)
            return PersistStateIndex(location.client, changelog.objects, scratch)

        return opened
