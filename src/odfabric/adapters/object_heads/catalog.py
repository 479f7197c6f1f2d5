"""The catalog of a node whose heads of record are in the objects.

Its own rows, brought to what the objects say.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from odfabric.adapters.object_heads.chains import ObjectHeadChains
from odfabric.domain.people.dataset_search import EVERYTHING, Facets, Narrowing, Order
from odfabric.formats.identifiers.dataset_layout import name_key
from odfabric.model.commit import CatalogEntry
from odfabric.model.identity import DatasetAlias, DatasetId
from odfabric.model.instant import Instant
from odfabric.ports.datasets.catalog import Catalog

PAGE_ENTRIES = 1000


class ObjectHeadCatalog:
    """A Catalog over `local`.

    A dataset that another node has made is found at once; one that another node has removed is listed until `HeadFollower` has
    looked, and not found by name or id.
    """

    def __init__(self, local: Catalog, chains: ObjectHeadChains) -> None:
        self._local = local
        self._chains = chains

    def by_id(self, dataset: DatasetId) -> CatalogEntry | None:
        """See the port."""
        return self._local.by_id(dataset) if self._chains.head(dataset) is not None else None

    def by_alias(self, alias: DatasetAlias) -> CatalogEntry | None:
        """See the port."""
        known = self._local.by_alias(alias)
        if known is not None and self._chains.head(known.id) is not None:
            return self._local.by_alias(alias)
        owner = self._chains.names.owner(alias)
        if owner is not None and self._chains.head(owner.dataset) is not None:
            return self._local.by_alias(alias)
        return None

    def page(
        self, narrowed: Narrowing = EVERYTHING, *, after: DatasetAlias | None = None, limit: int
    ) -> Sequence[CatalogEntry]:
        """See the port."""
        self.find_new()
        return self._local.page(narrowed, after=after, limit=limit)

    def found(
        self, narrowed: Narrowing = EVERYTHING, *, order: Order, skip: int = 0, limit: int
    ) -> Sequence[CatalogEntry]:
        """See the port."""
        self.find_new()
        return self._local.found(narrowed, order=order, skip=skip, limit=limit)

    def facets(self, narrowed: Narrowing, *, since: Sequence[Instant], limit: int) -> Facets:
        """See the port.

        Counts the rows that are there: anyone who shows counts beside a listing asks for the listing first.
        """
        return self._local.facets(narrowed, since=since, limit=limit)

    def find_new(self) -> None:
        """Read what the objects have and the rows do not."""
        known = {name_key(entry.alias) for entry in self.entries()}
        for key in self._chains.names.used():
            owner = self._chains.names.at(key) if key not in known else None
            if owner is not None:
                self._chains.head(owner.dataset)

    def entries(self) -> Iterator[CatalogEntry]:
        """All rows, as they are."""
        after: DatasetAlias | None = None
        while page := self._local.page(after=after, limit=PAGE_ENTRIES):
            yield from page
            after = page[-1].alias
