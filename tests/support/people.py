"""The ports about people in memory and in a database, for suites and drills."""

from __future__ import annotations

from odfabric.adapters.memory.accounts import MemoryAccounts, MemoryRelations
from odfabric.adapters.memory.audit import MemoryAuditLog
from odfabric.adapters.memory.catalog import MemoryCatalog, MemorySearchDocuments
from odfabric.adapters.memory.chains import MemoryChains
from odfabric.adapters.memory.credentials import MemoryDeviceAuthorisations, MemoryInvitations, MemoryTokens
from odfabric.adapters.memory.deliveries import MemoryDeliveries, MemoryOutbox, MemorySubscriptions
from odfabric.adapters.memory.removed_datasets import MemoryRemovedDatasets
from odfabric.adapters.memory.saved_queries import MemorySavedQueries
from odfabric.adapters.memory.store import MemoryStore
from odfabric.adapters.sql.accounts import SqlAccounts
from odfabric.adapters.sql.audit import SqlAuditLog
from odfabric.adapters.sql.catalog import SqlCatalog
from odfabric.adapters.sql.chains import SqlChains
from odfabric.adapters.sql.credentials import SqlDeviceAuthorisations, SqlInvitations, SqlTokens
from odfabric.adapters.sql.database import Database
from odfabric.adapters.sql.deliveries import SqlDeliveries, SqlSubscriptions
from odfabric.adapters.sql.outbox import SqlOutbox
from odfabric.adapters.sql.relations import SqlRelations
from odfabric.adapters.sql.removed_datasets import SqlRemovedDatasets
from odfabric.adapters.sql.saved_queries import SqlSavedQueries
from odfabric.adapters.sql.search import SqlSearchDocuments
from odfabric.testing.conformance.examples import StoragePorts
from odfabric.testing.conformance.people import PeoplePorts


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
