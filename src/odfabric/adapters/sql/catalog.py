"""The catalog in SQL: reads, and how an entry becomes a row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlalchemy import ColumnElement, Row, Select, select, tuple_

from odfabric.adapters.sql.database import Database
from odfabric.adapters.sql.relations import visible_to
from odfabric.adapters.sql.tables import datasets, heads
from odfabric.domain.access import Viewer
from odfabric.model.commit import CatalogEntry
from odfabric.model.identity import DatasetAlias, DatasetId, Name
from odfabric.model.metadata import DatasetKind


class SqlCatalog:
    """A Catalog."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def by_id(self, dataset: DatasetId) -> CatalogEntry | None:
        """See the port."""
        return self._one(select(datasets).where(datasets.c.id == dataset))

    def by_alias(self, alias: DatasetAlias) -> CatalogEntry | None:
        """See the port."""
        account, name = _folded(alias)
        return self._one(select(datasets).where(datasets.c.account_folded == account, datasets.c.name_folded == name))

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
        order = (datasets.c.account_folded, datasets.c.name_folded)
        wanted = select(datasets).where(*_narrowed(account, kind, words, viewer)).order_by(*order).limit(limit)
        if after is not None:
            wanted = wanted.where(tuple_(*order) > tuple_(*_folded(after)))
        return self._all(wanted)

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
        moved = heads.c.system_time.desc(), datasets.c.account_folded, datasets.c.name_folded
        wanted = select(datasets).join(heads, heads.c.dataset_id == datasets.c.id)
        return self._all(wanted.where(*_narrowed(account, kind, words, viewer)).order_by(*moved).limit(limit))

    def _all(self, wanted: Select[tuple[object, ...]]) -> Sequence[CatalogEntry]:
        with self._database.read() as connection:
            return [_entry(row) for row in connection.execute(wanted)]

    def _one(self, wanted: Select[tuple[object, ...]]) -> CatalogEntry | None:
        with self._database.read() as connection:
            found = connection.execute(wanted).one_or_none()
        return _entry(found) if found else None


def _narrowed(
    account: Name | None, kind: DatasetKind | None, words: Sequence[str], viewer: Viewer | None
) -> Iterator[ColumnElement[bool]]:
    if account is not None:
        yield datasets.c.account_folded == account.folded
    if kind is not None:
        yield datasets.c.kind == kind.name.lower()
    name = datasets.c.account_folded + "/" + datasets.c.name_folded
    for word in words:
        yield name.contains(word.lower(), autoescape=True)
    if viewer is not None:
        yield visible_to(viewer)


def entry_values(entry: CatalogEntry) -> dict[str, object]:
    """Columns of an entry's row."""
    account, name = _folded(entry.alias)
    return {
        "id": entry.id,
        "account": str(entry.alias.account or ""),
        "name": str(entry.alias.name),
        "account_folded": account,
        "name_folded": name,
        "kind": entry.kind.name.lower(),
        "created_at": entry.created_at,
        "sealed_key": entry.sealed_key,
        "remote_url": entry.remote_url,
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
