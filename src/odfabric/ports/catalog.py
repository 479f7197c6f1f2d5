"""The datasets of this node: identity, alias, kind. Written only through the commit seam."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from odfabric.domain.access import Viewer
from odfabric.model.commit import CatalogEntry
from odfabric.model.identity import DatasetAlias, DatasetId, Name
from odfabric.model.metadata import DatasetKind


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
        kind: DatasetKind | None = None,
        words: Sequence[str] = (),
        after: DatasetAlias | None = None,
        viewer: Viewer | None = None,
        limit: int,
    ) -> Sequence[CatalogEntry]:
        """At most `limit` entries in order of (account, name), folded, strictly after `after`.

        With a `viewer` only those that it admits; a page is short of `limit` only at the end. `kind` and `words` narrow the page: each word
        is somewhere in `account/name`, in any case of letters.
        """

    def newest(
        self,
        *,
        account: Name | None = None,
        kind: DatasetKind | None = None,
        words: Sequence[str] = (),
        viewer: Viewer | None = None,
        limit: int,
    ) -> Sequence[CatalogEntry]:
        """At most `limit` entries, narrowed like a page, those whose heads moved last before others."""
