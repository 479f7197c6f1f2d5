"""The ports about people in memory and in a database, for suites and drills."""

from __future__ import annotations

from odfabric.adapters.memory.datasets.catalog import MemoryCatalog, MemorySearchDocuments
from odfabric.adapters.memory.datasets.chains import MemoryChains
from odfabric.adapters.memory.datasets.removed_datasets import MemoryRemovedDatasets
from odfabric.adapters.memory.people.accounts import MemoryAccounts, MemoryRelations
from odfabric.adapters.memory.people.audit import MemoryAuditLog
from odfabric.adapters.memory.people.credentials import MemoryDeviceAuthorisations, MemoryInvitations, MemoryTokens
from odfabric.adapters.memory.people.saved_queries import MemorySavedQueries
from odfabric.adapters.memory.store import MemoryStore
from odfabric.adapters.memory.subscriptions.deliveries import MemoryDeliveries, MemoryOutbox, MemorySubscriptions
from odfabric.adapters.sql.audit import SqlAuditLog
from odfabric.adapters.sql.database import Database
from odfabric.adapters.sql.datasets.catalog import SqlCatalog
from odfabric.adapters.sql.datasets.chains import SqlChains
from odfabric.adapters.sql.datasets.removed_datasets import SqlRemovedDatasets
from odfabric.adapters.sql.datasets.search import SqlSearchDocuments
from odfabric.adapters.sql.outbox import SqlOutbox
from odfabric.adapters.sql.people.accounts import SqlAccounts
from odfabric.adapters.sql.people.credentials import SqlDeviceAuthorisations, SqlInvitations, SqlTokens
from odfabric.adapters.sql.people.relations import SqlRelations
from odfabric.adapters.sql.people.saved_queries import SqlSavedQueries
from odfabric.adapters.sql.subscriptions.deliveries import SqlDeliveries, SqlSubscriptions
from odfabric.testing.conformance.account_examples import PeoplePorts
from odfabric.testing.conformance.examples import StoragePorts


def in_memory(store: MemoryStore) -> PeoplePorts:
    """The ports of a store."""
    return PeoplePorts(
        storage=StoragePorts(
            chains=MemoryChains(store),
            catalog=MemoryCatalog(store),
            search_documents=MemorySearchDocuments(store),
            outbox=MemoryOutbox(store),
            removed=MemoryRemovedDatasets(store),
            subscriptions=MemorySubscriptions(store),
            deliveries=MemoryDeliveries(store),
        ),
        accounts=MemoryAccounts(store),
        relations=MemoryRelations(store),
        tokens=MemoryTokens(store),
        invitations=MemoryInvitations(store),
        devices=MemoryDeviceAuthorisations(store),
        saved_queries=MemorySavedQueries(store),
        audit=MemoryAuditLog(store),
    )


def in_database(database: Database, storage: StoragePorts | None = None) -> PeoplePorts:
    """The ports of a database; `storage` replaces its own ports of datasets."""
    return PeoplePorts(
        storage=storage
        or StoragePorts(
            chains=SqlChains(database),
            catalog=SqlCatalog(database),
            search_documents=SqlSearchDocuments(database),
            outbox=SqlOutbox(database),
            removed=SqlRemovedDatasets(database),
            subscriptions=SqlSubscriptions(database),
            deliveries=SqlDeliveries(database),
        ),
        accounts=SqlAccounts(database),
        relations=SqlRelations(database),
        tokens=SqlTokens(database),
        invitations=SqlInvitations(database),
        devices=SqlDeviceAuthorisations(database),
        saved_queries=SqlSavedQueries(database),
        audit=SqlAuditLog(database),
    )
