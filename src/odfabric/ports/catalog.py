"""The datasets of this node: identity, alias, kind. Written only through the commit seam."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from odfabric.domain.access import Viewer
from odfabric.model.commit import CatalogEntry
from odfabric.model.identity import DatasetAlias, DatasetId, Name


class Catalog(Protocol):
    """Reads of the catalog; aliases compare ASCII case-insensitively."""

    def by_id(self, dataset: DatasetId) -> CatalogEntry | None:
        """The entry of an id, or None."""

    def by_alias(self, alias: DatasetAlias) -> CatalogEntry | None:
        """The entry of an alias that names its account, or None."""

    def page(
        self,
        *,
        account: Name | None = None,
        after: DatasetAlias | None = None,
        viewer: Viewer | None = None,
        limit: int,
    ) -> Sequence[CatalogEntry]:
        """At most `limit` entries in order of (account, name), folded, strictly after `after`.

        With a `viewer` only those that it admits; a page is short of `limit` only at the end.
        """
