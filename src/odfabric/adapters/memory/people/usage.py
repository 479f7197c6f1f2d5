"""How much accounts use, in memory."""

from __future__ import annotations

from collections.abc import Sequence

from odfabric.adapters.memory.store import MemoryStore
from odfabric.model.identity import AccountName, DatasetId
from odfabric.model.multihash import Multihash
from odfabric.ports.people.usage import AccountUsage


class MemoryUsage:
    """A Usage."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def of_account(self, account: AccountName) -> AccountUsage:
        """See the port."""
        with self._store.lock:
            found = [each for each in self._store.datasets.values() if each.entry.alias.account == account]
            return AccountUsage(len(found), sum(each.stored_bytes or 0 for each in found))

    def unmeasured(self, *, limit: int) -> Sequence[DatasetId]:
        """See the port."""
        with self._store.lock:
            found = [dataset for dataset, each in self._store.datasets.items() if each.stored_bytes is None]
        return found[:limit]

    def measured(self, dataset: DatasetId, head: Multihash, stored_bytes: int) -> bool:
        """See the port."""
        with self._store.lock:
            found = self._store.datasets.get(dataset)
            if found is None or found.head.hash != head or found.stored_bytes is not None:
                return False
            found.stored_bytes = stored_bytes
            return True
