"""The catalog in memory, and the documents that it is searched by.

The plainest way to find and count, by which the other adapters are judged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from odfabric.adapters.memory.store import MemoryStore, StoredDataset
from odfabric.domain.people.access import owner_of
from odfabric.domain.people.dataset_search import EVERYTHING, Facets, Narrowing, Order, SearchDocument, matches
from odfabric.model.commit import CatalogEntry
from odfabric.model.identity import DatasetAlias, DatasetId
from odfabric.model.instant import NANOS_PER_SECOND, Instant
from odfabric.model.metadata import DatasetKind
from odfabric.model.people.account import Grantee

Value = TypeVar("Value")


class MemoryCatalog:
    """A Catalog."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def by_id(self, dataset: DatasetId) -> CatalogEntry | None:
        """See the port."""
        with self._store.lock:
            stored = self._store.datasets.get(dataset)
            return stored.entry if stored else None

    def by_alias(self, alias: DatasetAlias) -> CatalogEntry | None:
        """See the port."""
        with self._store.lock:
            stored = self._store.by_alias(alias)
            return stored.entry if stored else None

    def page(
        self, narrowed: Narrowing = EVERYTHING, *, after: DatasetAlias | None = None, limit: int
    ) -> Sequence[CatalogEntry]:
        """See the port."""
        with self._store.lock:
            found = [stored.entry for stored in self._narrowed(narrowed)]
        return [entry for entry in found if after is None or _name(entry.alias) > _name(after)][:limit]

    def found(
        self, narrowed: Narrowing = EVERYTHING, *, order: Order, skip: int = 0, limit: int
    ) -> Sequence[CatalogEntry]:
        """See the port."""
        with self._store.lock:
            found = self._narrowed(narrowed)
            if order in (Order.NEWEST, Order.BEST):
                found.sort(key=lambda stored: stored.head.system_time.epoch_ns, reverse=True)
            if order is Order.BEST:
                found.sort(key=lambda stored: _distance(stored, narrowed.words))
            if order is Order.ROWS:
                found.sort(key=lambda stored: stored.document.rows if stored.document else -1, reverse=True)
            if order is Order.SIZE:
                found.sort(key=lambda stored: -1 if stored.stored_bytes is None else stored.stored_bytes, reverse=True)
            return [stored.entry for stored in found[skip : skip + limit]]

    def facets(self, narrowed: Narrowing, *, since: Sequence[Instant], limit: int) -> Facets:
        """See the port."""
        with self._store.lock:
            found = self._narrowed(narrowed)
            documents = [stored.document for stored in found if stored.document is not None]
            written = {owner_of(stored.entry.alias): owner_of(stored.entry.alias) for stored in found}
            accounts = _counted((owner_of(stored.entry.alias) for stored in found), lambda name: name.folded, limit)
            return Facets(
                total=len(found),
                kinds=_counted((stored.entry.kind for stored in found), lambda kind: kind.name, len(DatasetKind)),
                accounts=[(written[name], count) for name, count in accounts],
                keywords=_counted((word for each in documents for word in each.keywords), str, limit),
                licenses=_counted((each.license for each in documents if each.license is not None), str, limit),
                changed=[sum(_is_since(stored, moment) for stored in found) for moment in since],
            )

    def _narrowed(self, narrowed: Narrowing) -> list[StoredDataset]:
        """In order of names. The lock must be held."""
        found = [stored for stored in self._store.datasets.values() if self._fits(stored, narrowed)]
        return sorted(found, key=lambda stored: _name(stored.entry.alias))

    def _fits(self, stored: StoredDataset, narrowed: Narrowing) -> bool:
        entry, document = stored.entry, stored.document
        return (
            (narrowed.account is None or owner_of(entry.alias) == narrowed.account)
            and (narrowed.kind is None or entry.kind is narrowed.kind)
            and (not narrowed.words or (document is not None and matches(narrowed.words, document.words)))
            and (narrowed.keyword is None or (document is not None and narrowed.keyword in document.keywords))
            and (narrowed.license is None or (document is not None and narrowed.license == document.license))
            and (narrowed.changed_since is None or _is_since(stored, narrowed.changed_since))
            and (narrowed.may_read is None or _may_read(stored, narrowed.may_read))
            and (
                narrowed.viewer is None
                or narrowed.viewer.admits(entry.id, owner_of(entry.alias), self._granted(stored))
            )
        )

    def _granted(self, stored: StoredDataset) -> list[Grantee]:
        return [grant.grantee for grant in self._store.granted(stored.entry.id)]


class MemorySearchDocuments:
    """A SearchDocuments."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def put(self, document: SearchDocument) -> bool:
        """See the port."""
        with self._store.lock:
            stored = self._store.datasets.get(document.dataset)
            if stored is None or stored.head.hash != document.head:
                return False
            stored.document = document
            return True

    def behind(self, *, version: int, after: DatasetId | None = None, limit: int) -> Sequence[DatasetId]:
        """See the port."""
        with self._store.lock:
            found = [
                dataset
                for dataset, stored in self._store.datasets.items()
                if _is_behind(stored) or (stored.document is not None and stored.document.version < version)
            ]
        ordered = sorted(found, key=lambda dataset: dataset.multibase)
        return [each for each in ordered if after is None or each.multibase > after.multibase][:limit]


def _is_behind(stored: StoredDataset) -> bool:
    return stored.document is None or stored.document.head != stored.head.hash


def _may_read(stored: StoredDataset, dataset: DatasetId) -> bool:
    is_reader = stored.document is not None and dataset in stored.document.inputs
    return stored.entry.kind is DatasetKind.DERIVATIVE and (is_reader or _is_behind(stored))


def _is_since(stored: StoredDataset, moment: Instant) -> bool:
    return stored.head.system_time.epoch_ns // NANOS_PER_SECOND >= moment.epoch_ns // NANOS_PER_SECOND


def _distance(stored: StoredDataset, words: Sequence[str]) -> int:
    document = stored.document
    if document is None or not words:
        return 0
    return 0 if matches(words, document.name_words) else 1 if matches(words, document.about_words) else 2


def _counted(values: Iterable[Value], order: Callable[[Value], str], limit: int) -> list[tuple[Value, int]]:
    counts = Counter(values)
    return sorted(counts.items(), key=lambda counted: (-counted[1], order(counted[0])))[:limit]


def _name(alias: DatasetAlias) -> tuple[str, str]:
    return (alias.account.folded if alias.account else "", alias.name.folded)
