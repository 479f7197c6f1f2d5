"""Subscriptions to a dataset and the deliveries they cause."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from odfabric.model.identity import DatasetId
from odfabric.model.instant import Instant
from odfabric.model.multihash import Multihash


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """A webhook on a dataset. `secret` signs deliveries; it is shown to the subscriber once."""

    id: str
    dataset_id: DatasetId
    account: str
    url: str
    secret: bytes
    created_at: Instant
    created_at_head: Multihash


class DeliveryStatus(Enum):
    """`pending -> delivered | failed | dropped`."""

    PENDING = "pending"
    DELIVERED = "delivered"
    FAILED = "failed"
    DROPPED = "dropped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One event to be sent to one subscription. `id` is stable over attempts and is the event id; `sequence` is the
    gap-free number of the event within its subscription, from 1."""

    id: str
    subscription_id: str
    dataset_id: DatasetId
    sequence: int
    old_head: Multihash | None
    new_head: Multihash | None
    occurred_at: Instant
    status: DeliveryStatus
    attempts: int
    next_attempt_at: Instant
    last_status_code: int | None = None
    last_error: str | None = None
