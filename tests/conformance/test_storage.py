"""Chains, catalog, outbox, subscriptions, deliveries: memory and SQL keep one contract."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from odfabric.adapters.memory.chains import MemoryCatalog, MemoryChains
from odfabric.adapters.memory.deliveries import MemoryDeliveries, MemoryOutbox, MemorySubscriptions
from odfabric.adapters.memory.store import MemoryStore
from odfabric.adapters.sql.catalog import SqlCatalog
from odfabric.adapters.sql.chains import SqlChains
from odfabric.adapters.sql.database import Database
from odfabric.adapters.sql.deliveries import SqlDeliveries, SqlOutbox, SqlSubscriptions
from odfabric.adapters.sql.upgrade import upgrade
from odfabric.ports.chain_writer import ChainWriter
from odfabric.testing.conformance.chains import ChainProcessContract, ChainRowsContract, ChainWriterContract
from odfabric.testing.conformance.deliveries import DeliveriesContract, SubscriptionsContract
from odfabric.testing.conformance.examples import StoragePorts


@pytest.fixture
def memory_storage() -> StoragePorts:
    store = MemoryStore()
    return StoragePorts(
        chains=MemoryChains(store),
        catalog=MemoryCatalog(store),
        outbox=MemoryOutbox(store),
        subscriptions=MemorySubscriptions(store),
        deliveries=MemoryDeliveries(store),
    )


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path}/node.db"
    upgrade(url)
    return url


@pytest.fixture
def sqlite_storage(sqlite_url: str) -> Iterator[StoragePorts]:
    database = Database(sqlite_url, busy_s_max=30)
    yield StoragePorts(
        chains=SqlChains(database),
        catalog=SqlCatalog(database),
        outbox=SqlOutbox(database),
        subscriptions=SqlSubscriptions(database),
        deliveries=SqlDeliveries(database),
    )
    database.close()


class InMemory:
    @pytest.fixture
    def storage(self, memory_storage: StoragePorts) -> StoragePorts:
        return memory_storage


class OnSqlite:
    @pytest.fixture
    def storage(self, sqlite_storage: StoragePorts) -> StoragePorts:
        return sqlite_storage


class TestMemoryChains(InMemory, ChainWriterContract): ...


class TestMemoryRows(InMemory, ChainRowsContract): ...


class TestMemorySubscriptions(InMemory, SubscriptionsContract): ...


class TestMemoryDeliveries(InMemory, DeliveriesContract): ...


class TestSqliteChains(OnSqlite, ChainWriterContract): ...


class TestSqliteRows(OnSqlite, ChainRowsContract): ...


class TestSqliteSubscriptions(OnSqlite, SubscriptionsContract): ...


class TestSqliteDeliveries(OnSqlite, DeliveriesContract): ...


def open_sqlite_chains(url: str) -> ChainWriter:
    return SqlChains(Database(url, busy_s_max=30))


class TestSqliteChainsBetweenProcesses(ChainProcessContract):
    @pytest.fixture
    def chains(self, sqlite_storage: StoragePorts) -> ChainWriter:
        return sqlite_storage.chains

    @pytest.fixture
    def open_chains(self, sqlite_url: str) -> Callable[[], ChainWriter]:
        return partial(open_sqlite_chains, sqlite_url)
