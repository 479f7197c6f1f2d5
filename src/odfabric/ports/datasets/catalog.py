"""The datasets of this node: identity, alias, kind.

Written only through the commit seam.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from odfabric.domain.people.dataset_search import EVERYTHING, Facets, Narrowing, Order
from odfabric.model.commit import CatalogEntry
from odfabric.model.identity import DatasetAlias, DatasetId
from odfabric.model.instant import Instant


class Catalog(Protocol):
    """Reads of the catalog; aliases compare ASCII case-insensitively."""

    def by_id(self, dataset: DatasetId) -> CatalogEntry | None:
        """The entry of an id, or None."""

    def by_alias(self, alias: DatasetAlias) -> CatalogEntry | None:
        """The entry of an alias that names its account, or None."""

    def page(
        self, narrowed: Narrowing = EVERYTHING, *, after: DatasetAlias | None = None, limit: int
    ) -> Sequence[CatalogEntry]:
        """At most `limit` entries by (account, name), folded, strictly after `after`.

        A page is short of `limit` only at the end.
        """

    def found(
        self, narrowed: Narrowing = EVERYTHING, *, order: Order, skip: int = 0, limit: int
    ) -> Sequence[CatalogEntry]:
        """At most `limit` entries in an order, without the first `skip`."""

    def facets(self, narrowed: Narrowing, *, since: Sequence[Instant], limit: int) -> Facets:
        """Counts of what `page` would list.

        Of accounts, keywords and licences the `limit` most frequent; `since` in whole seconds.
        """
