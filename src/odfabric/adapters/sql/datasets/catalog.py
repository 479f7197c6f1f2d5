"""The catalog in SQL: reads, and how an entry becomes a row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Row, Select, select, tuple_

from odfabric.adapters.sql.database import Database
from odfabric.adapters.sql.datasets.search import NAMES, SearchStatements
from odfabric.adapters.sql.tables.datasets import datasets
from odfabric.domain.people.dataset_search import EVERYTHING, Facets, Narrowing, Order
from odfabric.model.commit import CatalogEntry
from odfabric.model.identity import DatasetAlias, DatasetId, Name
from odfabric.model.instant import Instant
from odfabric.model.metadata import DatasetKind


class SqlCatalog:
    """A Catalog."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._search = SearchStatements(is_sqlite=database.is_sqlite)

    def by_id(self, dataset: DatasetId) -> CatalogEntry | None:
        """See the port."""
        return self._one(select(datasets).where(datasets.c.id == dataset))

    def by_alias(self, alias: DatasetAlias) -> CatalogEntry | None:
        """See the port."""
        account, name = _folded(alias)
        return self._one(select(datasets).where(datasets.c.account_folded == account, datasets.c.name_folded == name))

    def page(
        self, narrowed: Narrowing = EVERYTHING, *, after: DatasetAlias | None = None, limit: int
    ) -> Sequence[CatalogEntry]:
        """See the port."""
        wanted = self._search.narrowed(select(datasets), narrowed).order_by(*NAMES).limit(limit)
        if after is not None:
            wanted = wanted.where(tuple_(*NAMES) > tuple_(*_folded(after)))
        return self._all(wanted)

    def found(
        self, narrowed: Narrowing = EVERYTHING, *, order: Order, skip: int = 0, limit: int
    ) -> Sequence[CatalogEntry]:
        """See the port."""
        wanted = self._search.ordered(self._search.narrowed(select(datasets), narrowed, order), narrowed, order)
        return self._all(wanted.offset(skip).limit(limit))

    def facets(self, narrowed: Narrowing, *, since: Sequence[Instant], limit: int) -> Facets:
        """See the port."""
        with self._database.read() as connection:
            return self._search.facets(connection, narrowed, since, limit)

    def _all(self, wanted: Select[Any]) -> Sequence[CatalogEntry]:
        with self._database.read() as connection:
            return [_entry(row) for row in connection.execute(wanted)]

    def _one(self, wanted: Select[Any]) -> CatalogEntry | None:
        with self._database.read() as connection:
            found = connection.execute(wanted).one_or_none()
        return _entry(found) if found else None


def entry_values(entry: CatalogEntry) -> dict[str, object]:
    """Columns of an entry's row."""
    return {
        "id": entry.id,
        **alias_values(entry.alias),
        "kind": entry.kind.name.lower(),
        "created_at": entry.created_at,
        "sealed_key": entry.sealed_key,
        "remote_url": entry.remote_url,
    }


def alias_values(alias: DatasetAlias) -> dict[str, object]:
    """Columns of a name."""
    account, name = _folded(alias)
    return {
        "account": str(alias.account or ""),
        "name": str(alias.name),
        "account_folded": account,
        "name_folded": name,
    }


def _entry(row: Row[tuple[object, ...]]) -> CatalogEntry:
    return CatalogEntry(
        id=row.id,
        alias=DatasetAlias(Name(row.account) if row.account else None, Name(row.name)),
        kind=DatasetKind[row.kind.upper()],
        created_at=row.created_at,
        sealed_key=row.sealed_key,
        remote_url=row.remote_url,
    )


def _folded(alias: DatasetAlias) -> tuple[str, str]:
    return (alias.account.folded if alias.account else "", alias.name.folded)
