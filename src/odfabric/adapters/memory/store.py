"""The rows of chains, catalog, outbox, subscriptions and deliveries, behind one lock.

Owns the state that several ports share because they share transactions. Invariant: every change is made whole while the lock
is held, so nobody sees half a transaction. Not here: what the changes are (`chains`, `deliveries`).
"""

from __future__ import annotations

import threading
from copy import deepcopy
from dataclasses import dataclass, field

from odfabric.model.commit import BlockRow, CatalogEntry, Head, IdempotencyRecord, OutboxMessage
from odfabric.model.identity import DatasetAlias, DatasetId
from odfabric.model.instant import Instant
from odfabric.model.multihash import Multihash
from odfabric.model.subscription import Delivery, Subscription


@dataclass(slots=True)
class StoredDataset:
    """A dataset with its index. `rows[n]` is the block with number `n` after the first one's."""

    entry: CatalogEntry
    rows: list[BlockRow] = field(default_factory=list)
    by_hash: dict[Multihash, BlockRow] = field(default_factory=dict)
    records: dict[bytes, IdempotencyRecord] = field(default_factory=dict)

    @property
    def head(self) -> Head:
        """The newest block."""
        row = self.rows[-1]
        return Head(row.hash, row.sequence_number, row.system_time)


@dataclass(slots=True)
class StoredMessage:
    """An outbox message; ids are positions in the list, from 1."""

    message: OutboxMessage
    done: bool = False


@dataclass(slots=True)
class StoredSubscription:
    """A subscription, the last outbox message before it, and the number of its last delivery."""

    subscription: Subscription
    after_message: int
    sequence: int = 0


@dataclass(slots=True)
class StoredDelivery:
    """A delivery, when it was written last, and until when it is hidden."""

    delivery: Delivery
    updated_at: Instant
    leased_until: Instant | None = None


class MemoryStore:
    """The state; adapters take `lock` for every read and write."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.datasets: dict[DatasetId, StoredDataset] = {}
        self.job_commits: dict[str, Multihash] = {}
        self.outbox: list[StoredMessage] = []
        self.subscriptions: dict[str, StoredSubscription] = {}
        self.deliveries: dict[str, StoredDelivery] = {}
        self.removed: dict[DatasetId, Instant] = {}
        self.cancelled_jobs: set[str] = set()

    def backup(self) -> MemoryStore:
        """A copy of the state as it is now."""
        copy = MemoryStore()
        with self.lock:
            for name, state in vars(self).items():
                if name != "lock":
                    setattr(copy, name, deepcopy(state))
        return copy

    def by_alias(self, alias: DatasetAlias) -> StoredDataset | None:
        """The dataset of an alias. The lock must be held."""
        return next((stored for stored in self.datasets.values() if stored.entry.alias == alias), None)
