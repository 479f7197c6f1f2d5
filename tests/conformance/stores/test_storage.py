"""Chains, catalog, outbox, deliveries and more: memory and SQL, one contract."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from odfabric.adapters.local_fs.folder_locks import FolderLocks
from odfabric.adapters.local_fs.key_file import KeyFileSealing
from odfabric.adapters.local_fs.object_store import FolderObjectStore
from odfabric.adapters.memory.datasets.catalog import MemoryCatalog, MemorySearchDocuments
from odfabric.adapters.memory.datasets.chains import MemoryChains
from odfabric.adapters.memory.datasets.removed_datasets import MemoryRemovedDatasets
from odfabric.adapters.memory.jobs.jobs import MemoryJobs
from odfabric.adapters.memory.store import MemoryStore
from odfabric.adapters.memory.subscriptions.deliveries import MemoryDeliveries, MemoryOutbox, MemorySubscriptions
from odfabric.adapters.s3.client import S3Access
from odfabric.adapters.s3.object_store import S3ObjectStore
from odfabric.adapters.sealed.rows import SealedSubscriptions, sealed_chains
from odfabric.adapters.sql.database import Database
from odfabric.adapters.sql.datasets.catalog import SqlCatalog
from odfabric.adapters.sql.datasets.chains import SqlChains
from odfabric.adapters.sql.datasets.removed_datasets import SqlRemovedDatasets
from odfabric.adapters.sql.datasets.search import SqlSearchDocuments
from odfabric.adapters.sql.jobs.jobs import SqlJobs
from odfabric.adapters.sql.outbox import SqlOutbox
from odfabric.adapters.sql.subscriptions.deliveries import SqlDeliveries, SqlSubscriptions
from odfabric.adapters.sql.upgrade import upgrade
from odfabric.adapters.system.clock import SystemEntropy
from odfabric.ports.datasets.chain_writer import ChainWriter
from odfabric.ports.datasets.object_store import ObjectStore
from odfabric.ports.jobs.jobs import Jobs
from odfabric.testing.conformance.datasets.adoption import AdoptionContract
from odfabric.testing.conformance.datasets.chains import ChainProcessContract, ChainRowsContract, ChainWriterContract
from odfabric.testing.conformance.datasets.removed_datasets import RemovedDatasetsContract
from odfabric.testing.conformance.datasets.renaming import NoRenamingContract, RenamingContract
from odfabric.testing.conformance.datasets.replacing import NoReplacingContract, ReplacingContract
from odfabric.testing.conformance.datasets.searching import SearchContract
from odfabric.testing.conformance.examples import StoragePorts
from odfabric.testing.conformance.jobs.cancelling import CancellingContract
from odfabric.testing.conformance.subscriptions.deliveries import DeliveriesContract, SubscriptionsContract
from tests.support.chains.object_heads import Sharing
from tests.support.servers.s3 import S3Server


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def memory_storage(store: MemoryStore) -> StoragePorts:
    return StoragePorts(
        chains=MemoryChains(store),
        catalog=MemoryCatalog(store),
        search_documents=MemorySearchDocuments(store),
        outbox=MemoryOutbox(store),
        removed=MemoryRemovedDatasets(store),
        subscriptions=MemorySubscriptions(store),
        deliveries=MemoryDeliveries(store),
    )


def open_chains_of(url: str) -> ChainWriter:
    return SqlChains(Database(url, busy_s_max=30))


def open_sharing_folder(folder: Path) -> ChainWriter:
    return sharing(folder, FolderObjectStore(folder / "objects")).storage.chains


def open_sharing_bucket(folder: Path, s3: S3Server, bucket: str) -> ChainWriter:
    return sharing(folder, bucket_of(s3, bucket, folder)).storage.chains


def sharing(folder: Path, objects: ObjectStore) -> Sharing:
    """A node of its own, in another process."""
    url = f"sqlite:///{folder}/node-{os.getpid()}.db"
    upgrade(url)
    return Sharing(Database(url, busy_s_max=30), objects)


def bucket_of(s3: S3Server, bucket: str, folder: Path) -> S3ObjectStore:
    access = S3Access(endpoint_url=s3.endpoint, access_key=s3.access_key, secret_key=s3.secret_key)
    return S3ObjectStore(access, bucket, exclusive=FolderLocks(folder / "locks").exclusive)


class InMemory:
    @pytest.fixture
    def storage(self, memory_storage: StoragePorts) -> StoragePorts:
        return memory_storage


class OnSqlite:
    @pytest.fixture
    def database_url(self, sqlite_url: str) -> str:
        return sqlite_url

    @pytest.fixture
    def storage(self, database_url: str) -> Iterator[StoragePorts]:
        database = Database(database_url, busy_s_max=30)
        yield StoragePorts(
            chains=SqlChains(database),
            catalog=SqlCatalog(database),
            search_documents=SqlSearchDocuments(database),
            outbox=SqlOutbox(database),
            removed=SqlRemovedDatasets(database),
            subscriptions=SqlSubscriptions(database),
            deliveries=SqlDeliveries(database),
        )
        database.close()


class OnSqliteBetweenProcesses(OnSqlite):
    @pytest.fixture
    def chains(self, storage: StoragePorts) -> ChainWriter:
        return storage.chains

    @pytest.fixture
    def open_chains(self, database_url: str) -> Callable[[], ChainWriter]:
        return partial(open_chains_of, database_url)


class InFolder(OnSqliteBetweenProcesses):
    """Heads of record in a folder of objects, rows in SQLite.

    Processes have databases of their own, as nodes have.
    """

    @pytest.fixture
    def storage(self, database_url: str, tmp_path: Path) -> Iterator[StoragePorts]:
        database = Database(database_url, busy_s_max=30)
        yield Sharing(database, FolderObjectStore(tmp_path / "objects")).storage
        database.close()

    @pytest.fixture
    def open_chains(self, tmp_path: Path) -> Callable[[], ChainWriter]:
        return partial(open_sharing_folder, tmp_path)


class InBucket(InFolder):
    """The same in a bucket."""

    @pytest.fixture
    def storage(self, database_url: str, tmp_path: Path, s3: S3Server, bucket: str) -> Iterator[StoragePorts]:
        database = Database(database_url, busy_s_max=30)
        yield Sharing(database, bucket_of(s3, bucket, tmp_path)).storage
        database.close()

    @pytest.fixture
    def open_chains(self, tmp_path: Path, s3: S3Server, bucket: str) -> Callable[[], ChainWriter]:
        return partial(open_sharing_bucket, tmp_path, replace(s3, process=None), bucket)


class OnPostgres(OnSqliteBetweenProcesses):
    @pytest.fixture
    def database_url(self, migrated_url: str) -> str:
        return migrated_url


class JobsOnSqlite(OnSqlite):
    @pytest.fixture
    def jobs(self, storage: StoragePorts, database_url: str) -> Iterator[Jobs]:
        database = Database(database_url, busy_s_max=30)
        yield SqlJobs(database)
        database.close()


class TestMemoryCancelling(InMemory, CancellingContract):
    @pytest.fixture
    def jobs(self, store: MemoryStore) -> Jobs:
        return MemoryJobs(store)


class TestSqliteCancelling(JobsOnSqlite, CancellingContract): ...


class TestFolderCancelling(InFolder, JobsOnSqlite, CancellingContract): ...


class TestPostgresCancelling(OnPostgres, JobsOnSqlite, CancellingContract): ...


class TestMemoryChains(InMemory, ChainWriterContract): ...


class TestMemoryAdoption(InMemory, AdoptionContract): ...


class TestMemoryRemoved(InMemory, RemovedDatasetsContract): ...


class TestMemoryRenaming(InMemory, RenamingContract): ...


class TestMemoryReplacing(InMemory, ReplacingContract): ...


class TestMemoryRows(InMemory, ChainRowsContract): ...


class TestMemorySearch(InMemory, SearchContract): ...


class TestMemorySubscriptions(InMemory, SubscriptionsContract): ...


class TestMemoryDeliveries(InMemory, DeliveriesContract): ...


class TestSqliteChains(OnSqlite, ChainWriterContract): ...


class TestSqliteAdoption(OnSqlite, AdoptionContract): ...


class TestSqliteRemoved(OnSqlite, RemovedDatasetsContract): ...


class TestSqliteRenaming(OnSqlite, RenamingContract): ...


class TestSqliteReplacing(OnSqlite, ReplacingContract): ...


class TestSqliteRows(OnSqlite, ChainRowsContract): ...


class TestSqliteSearch(OnSqlite, SearchContract): ...


class TestSqliteSubscriptions(OnSqlite, SubscriptionsContract): ...


class TestSqliteDeliveries(OnSqlite, DeliveriesContract): ...


class TestSqliteChainsBetweenProcesses(OnSqliteBetweenProcesses, ChainProcessContract): ...


class TestFolderChains(InFolder, ChainWriterContract): ...


class TestFolderAdoption(InFolder, AdoptionContract): ...


class TestFolderRemoved(InFolder, RemovedDatasetsContract): ...


class TestFolderRenaming(InFolder, NoRenamingContract): ...


class TestFolderReplacing(InFolder, NoReplacingContract): ...


class TestFolderRows(InFolder, ChainRowsContract): ...


class TestFolderSearch(InFolder, SearchContract): ...


class TestFolderSubscriptions(InFolder, SubscriptionsContract): ...


class TestFolderDeliveries(InFolder, DeliveriesContract): ...


class TestFolderChainsBetweenProcesses(InFolder, ChainProcessContract): ...


class TestBucketChains(InBucket, ChainWriterContract): ...


class TestBucketAdoption(InBucket, AdoptionContract): ...


class TestBucketRemoved(InBucket, RemovedDatasetsContract): ...


class TestBucketChainsBetweenProcesses(InBucket, ChainProcessContract): ...


class TestPostgresChains(OnPostgres, ChainWriterContract): ...


class TestPostgresAdoption(OnPostgres, AdoptionContract): ...


class TestPostgresRemoved(OnPostgres, RemovedDatasetsContract): ...


class TestPostgresRenaming(OnPostgres, RenamingContract): ...


class TestPostgresReplacing(OnPostgres, ReplacingContract): ...


class TestPostgresRows(OnPostgres, ChainRowsContract): ...


class TestPostgresSearch(OnPostgres, SearchContract): ...


class TestPostgresSubscriptions(OnPostgres, SubscriptionsContract): ...


class TestPostgresDeliveries(OnPostgres, DeliveriesContract): ...


class TestPostgresChainsBetweenProcesses(OnPostgres, ChainProcessContract): ...


class Sealed:
    """The same with secrets sealed on their way, unseen by users of the ports."""

    @pytest.fixture
    def storage(self, inner: StoragePorts, tmp_path: Path) -> StoragePorts:
        sealing = KeyFileSealing(tmp_path / "node.key", entropy=SystemEntropy())
        return replace(
            inner,
            chains=sealed_chains(inner.chains, sealing),
            subscriptions=SealedSubscriptions(inner.subscriptions, sealing),
        )


class SealedInMemory(Sealed, InMemory):
    @pytest.fixture
    def inner(self, memory_storage: StoragePorts) -> StoragePorts:
        return memory_storage


class SealedOnSqlite(Sealed, OnSqlite):
    inner = OnSqlite.storage


class SealedInFolder(Sealed, InFolder):
    inner = InFolder.storage


class TestSealedMemorySubscriptions(SealedInMemory, SubscriptionsContract): ...


class TestSealedSqliteSubscriptions(SealedOnSqlite, SubscriptionsContract): ...


class TestSealedSqliteChains(SealedOnSqlite, ChainWriterContract): ...


class TestSealedSqliteRows(SealedOnSqlite, ChainRowsContract): ...


class TestSealedFolderChains(SealedInFolder, ChainWriterContract): ...
