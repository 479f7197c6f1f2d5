"""The catalog of a node whose heads of record lie in the objects: its own rows, brought to what the objects say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from odfabric.adapters.object_heads.chains import ObjectHeadChains
from odfabric.domain.access import Viewer
from odfabric.formats.dataset_layout import name_key
from odfabric.model.commit import CatalogEntry
from odfabric.model.identity import DatasetAlias, DatasetId, Name
from odfabric.model.metadata import DatasetKind
from odfabric.ports.catalog import Catalog

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
        self,
        *,
        account: Name | None = None,
        kind: DatasetKind | None = None,
        words: Sequence[str] = (),
        after: DatasetAlias | None = None,
        viewer: Viewer | None = None,
        limit: int,
    ) -> Sequence[CatalogEntry]:
        """See the port."""
        self.find_new()
        return self._local.page(account=account, kind=kind, words=words, after=after, viewer=viewer, limit=limit)

    def newest(
        self,
        *,
        account: Name | None = None,
        kind: DatasetKind | None = None,
        words: Sequence[str] = (),
        viewer: Viewer | None = None,
        limit: int,
    ) -> Sequence[CatalogEntry]:
        """See the port."""
        self.find_new()
        return self._local.newest(account=account, kind=kind, words=words, viewer=viewer, limit=limit)

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
