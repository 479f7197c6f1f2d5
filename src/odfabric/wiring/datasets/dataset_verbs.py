"""Datasets, bound to a node's ports: create, delete, find, read their chains."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from odfabric.domain.chain.walk import ChainLink
from odfabric.domain.people.access import Subject
from odfabric.domain.people.dataset_search import EVERYTHING, Narrowing
from odfabric.model.commit import CatalogEntry, Head
from odfabric.model.identity import DatasetAlias, DatasetRef
from odfabric.model.manifest import DatasetSnapshot
from odfabric.model.multihash import Multihash
from odfabric.model.people.account import Visibility
from odfabric.ports.subscriptions.signals import Topic
from odfabric.usecases.chain.read_chain import read_log, read_metadata
from odfabric.usecases.datasets.create_dataset import create_dataset, delete_dataset
from odfabric.usecases.transform.expected_columns import ExpectedColumns
from odfabric.wiring.node_core import NodeCore
from odfabric.wiring.sources.polling import permitted_sources


@dataclass(frozen=True, slots=True)
class DatasetVerbs:
    """Verbs about whole datasets. Raises leaves of the closed error tree only."""

    core: NodeCore

    def create(
        self, snapshot: DatasetSnapshot, subject: Subject, *, visibility: Visibility = Visibility.PRIVATE
    ) -> tuple[CatalogEntry, Multihash]:
        """Create a dataset; its entry and head."""
        core = self.core
        created = create_dataset(
            snapshot,
            subject=subject,
            access=core.access,
            quotas=core.quotas,
            visibility=visibility,
            repository=core.seen_by(subject),
            commits=core.commits,
            keys=core.ports.keys,
            engine=core.ports.engine,
            exchange=core.ports.exchange,
            clock=core.ports.clock,
            column_name_bytes_max=core.settings.column_name_bytes_max,
            permitted=permitted_sources(core.settings),
        )
        core.ports.signals.send(Topic.OUTBOX)
        return created

    def delete(self, entry: CatalogEntry, *, by: Subject | None = None, if_match: Multihash | None = None) -> None:
        """Delete a dataset."""
        core = self.core
        subject = by or core.operator
        delete_dataset(
            entry,
            subject=subject,
            access=core.access,
            repository=core.seen_by(subject),
            commits=core.commits,
            if_match=if_match,
        )
        core.ports.signals.send(Topic.OUTBOX)

    def resolve(self, ref: DatasetRef) -> CatalogEntry:
        """The dataset of a reference. Raises NotFound."""
        return self.core.repository.resolve(ref)

    def page(
        self, narrowed: Narrowing = EVERYTHING, *, by: Subject | None = None, after: DatasetAlias | None, limit: int
    ) -> Sequence[CatalogEntry]:
        """A page of the catalog."""
        catalog = self.core.access.seen_by(by or self.core.operator)
        return catalog.page(narrowed, after=after, limit=min(limit, self.core.settings.page_rows_max))

    def head(self, entry: CatalogEntry) -> Head:
        """The head of record."""
        return self.core.repository.head(entry.id)

    def log(self, entry: CatalogEntry, *, limit: int, start: Multihash | None = None) -> Iterator[ChainLink]:
        """Blocks, newest first."""
        return read_log(entry, repository=self.core.repository, blocks_max=limit, start=start)

    def metadata(self, entry: CatalogEntry, include: frozenset[str], schema_format: str) -> dict[str, object]:
        """Parts of the current metadata."""
        return read_metadata(entry, include, schema_format, repository=self.core.repository)

    def expected_columns(self) -> ExpectedColumns:
        """The columns of datasets, of those without data too, each asked for once."""
        ports = self.core.ports
        return ExpectedColumns(self.core.repository, ports.engine, ports.exchange, ports.clock.now())
