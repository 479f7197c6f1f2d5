"""Repositories elsewhere and aliases there: memory and SQL keep one contract."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from odfabric.adapters.memory.store import MemoryStore
from odfabric.adapters.memory.transfer.repositories import MemoryRepositories
from odfabric.adapters.sql.database import Database
from odfabric.adapters.sql.transfer.repositories import SqlRepositories
from odfabric.ports.transfer.repositories import RemoteRepositories
from odfabric.testing.conformance.account_examples import PeoplePorts
from odfabric.testing.conformance.transfer import RepositoriesContract
from tests.support.people import in_database, in_memory


class TestMemoryRepositories(RepositoriesContract):
    @pytest.fixture
    def store(self) -> MemoryStore:
        return MemoryStore()

    @pytest.fixture
    def people(self, store: MemoryStore) -> PeoplePorts:
        return in_memory(store)

    @pytest.fixture
    def repositories(self, store: MemoryStore) -> RemoteRepositories:
        return MemoryRepositories(store)


class OnDatabase(RepositoriesContract):
    @pytest.fixture
    def database(self, database_url: str) -> Iterator[Database]:
        database = Database(database_url, busy_s_max=30)
        yield database
        database.close()

    @pytest.fixture
    def people(self, database: Database) -> PeoplePorts:
        return in_database(database)

    @pytest.fixture
    def repositories(self, database: Database) -> RemoteRepositories:
        return SqlRepositories(database)


class TestSqliteRepositories(OnDatabase):
    @pytest.fixture
    def database_url(self, sqlite_url: str) -> str:
        return sqlite_url


class TestPostgresRepositories(OnDatabase):
    @pytest.fixture
    def database_url(self, migrated_url: str) -> str:
        return migrated_url
