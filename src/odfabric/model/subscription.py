"""Subscriptions to a dataset and the deliveries they cause."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import Enum

from odfabric.model.identity import DatasetId
from odfabric.model.instant import Instant
from odfabric.model.multihash import Multihash


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """A webhook on a dataset. The secret that signs its deliveries is kept apart, and asked for by those alone who sign."""

    id: str
    dataset_id: DatasetId
    account: str
    url: str
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


def delivery_id(subscription_id: str, new_head: Multihash) -> str:
    """Identity of the delivery of one head to one subscription: SHA3-256, in hexadecimal, of the length of the id in UTF-8 (4
    bytes, big-endian), the id, and the binary multihash."""
    subscriber = subscription_id.encode()
    return hashlib.sha3_256(len(subscriber).to_bytes(4, "big") + subscriber + new_head.to_bytes()).hexdigest()


@dataclass(frozen=True, slots=True)
class WebhookResponse:
    """What a receiver answered: the status code, and its Retry-After header in seconds if that was sensible."""

    status: int
    retry_after_s: int | None = None
