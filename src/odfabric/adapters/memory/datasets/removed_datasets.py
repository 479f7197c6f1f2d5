"""Marks of deleted datasets in memory."""

from __future__ import annotations

from collections.abc import Sequence

from odfabric.adapters.memory.store import MemoryStore
from odfabric.model.identity import DatasetId
from odfabric.model.instant import Instant


class MemoryRemovedDatasets:
    """A RemovedDatasets."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def removed_at(self, dataset: DatasetId) -> Instant | None:
        """See the port."""
        with self._store.lock:
            return self._store.removed.get(dataset)

    def removed_before(self, time: Instant, *, limit: int) -> Sequence[DatasetId]:
        """See the port."""
        with self._store.lock:
            found = [(at, dataset.multibase, dataset) for dataset, at in self._store.removed.items() if at < time]
        return [dataset for _, _, dataset in sorted(found, key=lambda one: one[:2])[:limit]]

    def forget(self, dataset: DatasetId) -> None:
        """See the port."""
        with self._store.lock:
            self._store.removed.pop(dataset, None)
