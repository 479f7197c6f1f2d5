"""Storage with heads of record in objects, for tests of port and sharing nodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from odfabric.adapters.object_heads.catalog import ObjectHeadCatalog
from odfabric.adapters.object_heads.chains import ObjectHeadChains
from odfabric.adapters.sql.database import Database
from odfabric.adapters.sql.datasets.catalog import SqlCatalog
from odfabric.adapters.sql.datasets.chains import SqlChains
from odfabric.adapters.sql.datasets.commit_intents import SqlCommitIntents
from odfabric.adapters.sql.datasets.removed_datasets import SqlRemovedDatasets
from odfabric.adapters.sql.datasets.search import SqlSearchDocuments
from odfabric.adapters.sql.outbox import SqlOutbox
from odfabric.adapters.sql.subscriptions.deliveries import SqlDeliveries, SqlSubscriptions
from odfabric.formats.identifiers.dataset_layout import block_key
from odfabric.model.commit import ChainPage, EncodedBlock
from odfabric.model.identity import DatasetId
from odfabric.ports.datasets.chain_writer import ChainWriter
from odfabric.ports.datasets.object_store import ObjectStore
from odfabric.testing.conformance.examples import StoragePorts


class BlocksStoredFirst:
    """A ChainWriter that stores blocks as objects first, as the commit seam does."""

    def __init__(self, chains: ChainWriter, objects: ObjectStore) -> None:
        self._chains = chains
        self._objects = objects

    def append(self, dataset: DatasetId, *, blocks: Sequence[EncodedBlock], **others: Any) -> None:
        self._store(dataset, blocks)
        self._chains.append(dataset, blocks=blocks, **others)

    def adopt(self, dataset: DatasetId, *, pages: Iterable[ChainPage], **others: Any) -> None:
        read = []
        for page in pages:
            self._store(dataset, page.blocks)
            read.append(page)
        self._chains.adopt(dataset, pages=read, **others)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._chains, name)

    def _store(self, dataset: DatasetId, blocks: Iterable[EncodedBlock]) -> None:
        for block in blocks:
            self._objects.put_bytes(block_key(dataset, block.hash), block.data)


@dataclass
class Sharing:
    """One of several that share objects: its database, and what stands over it."""

    database: Database
    objects: ObjectStore

    def __post_init__(self) -> None:
        self.intents = SqlCommitIntents(self.database)
        self.rows = SqlChains(self.database)
        self.chains = ObjectHeadChains(
            local=self.rows,
            catalog=SqlCatalog(self.database),
            intents=self.intents,
            objects=self.objects,
            block_bytes_max=1 << 20,
            blocks_max=100_000,
        )
        self.catalog = ObjectHeadCatalog(SqlCatalog(self.database), self.chains)

    @property
    def storage(self) -> StoragePorts:
        """The ports of a suite."""
        return StoragePorts(
            chains=BlocksStoredFirst(self.chains, self.objects),  # type: ignore[arg-type]
            catalog=self.catalog,
            search_documents=SqlSearchDocuments(self.database),
            outbox=SqlOutbox(self.database),
            removed=SqlRemovedDatasets(self.database),
            subscriptions=SqlSubscriptions(self.database),
            deliveries=SqlDeliveries(self.database),
        )
