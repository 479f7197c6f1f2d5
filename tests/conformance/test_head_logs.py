"""Head logs: memory, SQLite and PostgreSQL keep one contract."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from odfabric.adapters.memory.datasets.catalog import MemoryCatalog
from odfabric.adapters.memory.datasets.chains import MemoryChains
from odfabric.adapters.memory.datasets.head_logs import MemoryHeadLogs
from odfabric.adapters.memory.store import MemoryStore
from odfabric.adapters.sql.database import Database
from odfabric.adapters.sql.datasets.catalog import SqlCatalog
from odfabric.adapters.sql.datasets.chains import SqlChains
from odfabric.adapters.sql.datasets.head_logs import SqlHeadLogs
from odfabric.ports.datasets.catalog import Catalog
from odfabric.ports.datasets.chain_writer import ChainWriter
from odfabric.ports.datasets.head_logs import HeadLogs
from odfabric.testing.conformance.datasets.head_logs import HeadLogsContract


class TestMemoryHeadLogs(HeadLogsContract):
    @pytest.fixture
    def store(self) -> MemoryStore:
        return MemoryStore()

    @pytest.fixture
    def chains(self, store: MemoryStore) -> ChainWriter:
        return MemoryChains(store)

    @pytest.fixture
    def catalog(self, store: MemoryStore) -> Catalog:
        return MemoryCatalog(store)

    @pytest.fixture
    def logs(self, store: MemoryStore) -> HeadLogs:
        return MemoryHeadLogs(store)


class OnDatabase(HeadLogsContract):
    """In SQL."""

    @pytest.fixture
    def database(self, database_url: str) -> Iterator[Database]:
        database = Database(database_url, busy_s_max=30)
        yield database
        database.close()

    @pytest.fixture
    def chains(self, database: Database) -> ChainWriter:
        return SqlChains(database)

    @pytest.fixture
    def catalog(self, database: Database) -> Catalog:
        return SqlCatalog(database)

    @pytest.fixture
    def logs(self, database: Database) -> HeadLogs:
        return SqlHeadLogs(database)


class TestSqliteHeadLogs(OnDatabase):
    @pytest.fixture
    def database_url(self, sqlite_url: str) -> str:
        return sqlite_url


class TestPostgresHeadLogs(OnDatabase):
    @pytest.fixture
    def database_url(self, migrated_url: str) -> str:
        return migrated_url
