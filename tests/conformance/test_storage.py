"""Chains, catalog, outbox, subscriptions, deliveries: memory and SQL keep one contract."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pytest

from odfabric.adapters.memory.chains import MemoryCatalog, MemoryChains
from odfabric.adapters.memory.deliveries import MemoryDeliveries, MemoryOutbox, MemorySubscriptions
from odfabric.adapters.memory.removed_datasets import MemoryRemovedDatasets
from odfabric.adapters.memory.store import MemoryStore
from odfabric.adapters.sql.catalog import SqlCatalog
from odfabric.adapters.sql.chains import SqlChains
from odfabric.adapters.sql.database import Database
from odfabric.adapters.sql.deliveries import SqlDeliveries, SqlOutbox, SqlSubscriptions
from odfabric.adapters.sql.removed_datasets import SqlRemovedDatasets
from odfabric.ports.chain_writer import ChainWriter
from odfabric.testing.conformance.adoption import AdoptionContract
from odfabric.testing.conformance.chains import ChainProcessContract, ChainRowsContract, ChainWriterContract
from odfabric.testing.conformance.deliveries import DeliveriesContract, SubscriptionsContract
from odfabric.testing.conformance.examples import StoragePorts
from odfabric.testing.conformance.removed_datasets import RemovedDatasetsContract


@pytest.fixture
def memory_storage() -> StoragePorts:
    store = MemoryStore()
    return StoragePorts(
        chains=MemoryChains(store),
        catalog=MemoryCatalog(store),
        outbox=MemoryOutbox(store),
        removed=MemoryRemovedDatasets(store),
        subscriptions=MemorySubscriptions(store),
        deliveries=MemoryDeliveries(store),
    )


def open_chains_of(url: str) -> ChainWriter:
    return SqlChains(Database(url, busy_s_max=30))


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


class OnPostgres(OnSqliteBetweenProcesses):
    @pytest.fixture
    def database_url(self, migrated_url: str) -> str:
        return migrated_url


class TestMemoryChains(InMemory, ChainWriterContract): ...


class TestMemoryAdoption(InMemory, AdoptionContract): ...


class TestMemoryRemoved(InMemory, RemovedDatasetsContract): ...


class TestMemoryRows(InMemory, ChainRowsContract): ...


class TestMemorySubscriptions(InMemory, SubscriptionsContract): ...


class TestMemoryDeliveries(InMemory, DeliveriesContract): ...


class TestSqliteChains(OnSqlite, ChainWriterContract): ...


class TestSqliteAdoption(OnSqlite, AdoptionContract): ...


class TestSqliteRemoved(OnSqlite, RemovedDatasetsContract): ...


class TestSqliteRows(OnSqlite, ChainRowsContract): ...


class TestSqliteSubscriptions(OnSqlite, SubscriptionsContract): ...


class TestSqliteDeliveries(OnSqlite, DeliveriesContract): ...


class TestSqliteChainsBetweenProcesses(OnSqliteBetweenProcesses, ChainProcessContract): ...


class TestPostgresChains(OnPostgres, ChainWriterContract): ...


class TestPostgresAdoption(OnPostgres, AdoptionContract): ...


class TestPostgresRemoved(OnPostgres, RemovedDatasetsContract): ...


class TestPostgresRows(OnPostgres, ChainRowsContract): ...


class TestPostgresSubscriptions(OnPostgres, SubscriptionsContract): ...


class TestPostgresDeliveries(OnPostgres, DeliveriesContract): ...


class TestPostgresChainsBetweenProcesses(OnPostgres, ChainProcessContract): ...
