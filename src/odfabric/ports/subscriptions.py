"""Subscriptions and their deliveries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from odfabric.model.audit import AuditEntry
from odfabric.model.identity import DatasetId
from odfabric.model.instant import Instant
from odfabric.model.subscription import Delivery, Subscription


class Subscriptions(Protocol):
    """Subscriptions of datasets; deleting one drops its pending deliveries."""

    def create(self, subscription: Subscription, *, secret: bytes, audit: Sequence[AuditEntry] = ()) -> None:
        """Store it, with its secret and its audit entries; it gets exactly the moves of the head away from `created_at_head` and later ones.

        Raises NotFound if the dataset does not exist, AlreadyExists for a known id, HeadMoved if `created_at_head` is not the
        head now (the caller looks again), Determinate, Indeterminate.
        """

    def get(self, subscription_id: str) -> Subscription | None:
        """The subscription, or None."""

    def secret(self, subscription_id: str) -> bytes | None:
        """The secret of a subscription, None if that is not there. Raises Corrupt for one that cannot be opened."""

    def of_dataset(self, dataset: DatasetId, *, limit: int) -> Sequence[Subscription]:
        """Subscriptions of one dataset, oldest first."""

    def delete(self, subscription_id: str, *, audit: Sequence[AuditEntry] = ()) -> bool:
        """Delete it and drop its pending deliveries; whether it existed, without which no audit entry is written."""


class Deliveries(Protocol):
    """Deliveries as leased rows. Within a subscription they go out in sequence order, one at a time."""

    def lease_due(self, worker: str, *, now: Instant, lease_ms: int, limit: int) -> Sequence[Delivery]:
        """Due pending deliveries, at most one per subscription (its lowest sequence), hidden from others for the lease.

        A subscription with a lower sequence that is not due yet, or leased, gives none. Attempts grow by one. What was last written more than
        `lease_ms` after `now` is of a clock that was ahead and has been set back: it is due, and its lease has expired.
        """

    def record_success(self, delivery_id: str, *, now: Instant, status_code: int) -> None:
        """Delivered. Nothing changes if the delivery is not pending any more."""

    def record_failure(
        self, delivery_id: str, *, now: Instant, status_code: int | None, error: str, next_attempt_at: Instant | None
    ) -> None:
        """Try again at `next_attempt_at`, or give up for good if None. Nothing changes if it is not pending any more."""

    def of_subscription(self, subscription_id: str, *, limit: int) -> Sequence[Delivery]:
        """The delivery log, newest first."""
