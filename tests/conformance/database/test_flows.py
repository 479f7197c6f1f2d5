"""Flows and roles: memory and SQL keep one contract."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from odfabric.adapters.memory.datasets.catalog import MemoryCatalog, MemorySearchDocuments
from odfabric.adapters.memory.datasets.chains import MemoryChains
from odfabric.adapters.memory.datasets.removed_datasets import MemoryRemovedDatasets
from odfabric.adapters.memory.jobs.flows import MemoryFlows, MemoryRoles
from odfabric.adapters.memory.people.audit import MemoryAuditLog
from odfabric.adapters.memory.store import MemoryStore
from odfabric.adapters.memory.subscriptions.deliveries import MemoryDeliveries, MemoryOutbox, MemorySubscriptions
from odfabric.adapters.sql.audit import SqlAuditLog
from odfabric.adapters.sql.database import Database
from odfabric.adapters.sql.datasets.catalog import SqlCatalog
from odfabric.adapters.sql.datasets.chains import SqlChains
from odfabric.adapters.sql.datasets.removed_datasets import SqlRemovedDatasets
from odfabric.adapters.sql.datasets.search import SqlSearchDocuments
from odfabric.adapters.sql.jobs.flows import SqlFlows, SqlRoles
from odfabric.adapters.sql.outbox import SqlOutbox
from odfabric.adapters.sql.subscriptions.deliveries import SqlDeliveries, SqlSubscriptions
from odfabric.ports.jobs.flows import Flows
from odfabric.ports.people.audit import AuditLog
from odfabric.ports.people.roles import Roles
from odfabric.testing.conformance.examples import StoragePorts
from odfabric.testing.conformance.jobs.flows import FlowsContract, RolesContract


class OnSqlite:
    @pytest.fixture
    def database_url(self, sqlite_url: str) -> str:
        return sqlite_url

    @pytest.fixture
    def database(self, database_url: str) -> Iterator[Database]:
        database = Database(database_url, busy_s_max=30)
        yield database
        database.close()

    @pytest.fixture
    def storage(self, database: Database) -> StoragePorts:
        return StoragePorts(
            chains=SqlChains(database),
            catalog=SqlCatalog(database),
            search_documents=SqlSearchDocuments(database),
            outbox=SqlOutbox(database),
            removed=SqlRemovedDatasets(database),
            subscriptions=SqlSubscriptions(database),
            deliveries=SqlDeliveries(database),
        )

    @pytest.fixture
    def flows(self, database: Database) -> Flows:
        return SqlFlows(database)

    @pytest.fixture
    def roles(self, database: Database) -> Roles:
        return SqlRoles(database)

    @pytest.fixture
    def audit(self, database: Database) -> AuditLog:
        return SqlAuditLog(database)


class OnPostgres(OnSqlite):
    @pytest.fixture
    def database_url(self, migrated_url: str) -> str:
        return migrated_url


class TestMemoryFlows(FlowsContract):
    @pytest.fixture
    def store(self) -> MemoryStore:
        return MemoryStore()

    @pytest.fixture
    def storage(self, store: MemoryStore) -> StoragePorts:
        return StoragePorts(
            chains=MemoryChains(store),
            catalog=MemoryCatalog(store),
            search_documents=MemorySearchDocuments(store),
            outbox=MemoryOutbox(store),
            removed=MemoryRemovedDatasets(store),
            subscriptions=MemorySubscriptions(store),
            deliveries=MemoryDeliveries(store),
        )

    @pytest.fixture
    def flows(self, store: MemoryStore) -> Flows:
        return MemoryFlows(store)

    @pytest.fixture
    def audit(self, store: MemoryStore) -> AuditLog:
        return MemoryAuditLog(store)


class TestMemoryRoles(RolesContract):
    @pytest.fixture
    def roles(self) -> Roles:
        return MemoryRoles()


class TestSqliteFlows(OnSqlite, FlowsContract): ...


class TestSqliteRoles(OnSqlite, RolesContract): ...


class TestPostgresFlows(OnPostgres, FlowsContract): ...


class TestPostgresRoles(OnPostgres, RolesContract): ...
