"""Subscriptions to a dataset and the deliveries they cause."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from urllib.parse import urlsplit

from odfabric.model.identity import AccountId, DatasetId
from odfabric.model.instant import Instant
from odfabric.model.multihash import Multihash
from odfabric.model.offsets import OffsetRange
from odfabric.model.subscriptions.event import HEAD_MOVES, Event, EventType


class SubscriptionState(Enum):
    """`active` is delivered to.

    `paused` by a person and `disabled` by the node are not, and what is to be delivered waits.
    """

    ACTIVE = "active"
    PAUSED = "paused"
    DISABLED = "disabled"


class SubscriptionFormat(Enum):
    """What is sent: a CloudEvent, or what the reference node sends."""

    CLOUD_EVENT = "cloudevents"
    REFERENCE = "kamu"


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveOptions:
    """Which head moves a subscription receives, and whether with their records.

    `only_with_data`: those alone that bring records. `columns`: those alone that bring or take away records, or change a value in one
    of these columns; empty for any. `with_rows`: the changed records come with the event, as many as fit.
    """

    only_with_data: bool = False
    columns: frozenset[str] = frozenset()
    with_rows: bool = False

    @property
    def skips(self) -> bool:
        """Whether some moves make no event."""
        return self.only_with_data or bool(self.columns)


ALL_MOVES = MoveOptions()


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """A webhook on a dataset, an account or the node.

    The secrets that sign its deliveries are kept apart, and asked for by those alone who sign.

    With `dataset_id` it receives events of one dataset, with `scope_account` those of all datasets of an account, with neither those of
    the node. `created_at_head` is None unless it is of a dataset. It receives the types `events`. `failing_since` is the first failure after the last success. `slow` if its last attempt took long, `proven` if its receiver has
    ever accepted something. `moves` says what it gets of head moves.
    """

    id: str
    dataset_id: DatasetId | None
    account: str
    url: str
    created_at: Instant
    created_at_head: Multihash | None
    state: SubscriptionState = SubscriptionState.ACTIVE
    state_reason: str | None = None
    failing_since: Instant | None = None
    old_secret_until: Instant | None = None
    slow: bool = False
    proven: bool = False
    format: SubscriptionFormat = SubscriptionFormat.CLOUD_EVENT
    scope_account: AccountId | None = None
    events: frozenset[EventType] = HEAD_MOVES
    moves: MoveOptions = ALL_MOVES

    @property
    def receiver(self) -> str:
        """Host and port of the receiver."""
        return receiver_of(self.url)


def receiver_of(url: str) -> str:
    """`host:port` of a checked URL: receivers distinguished when senders are shared."""
    place = urlsplit(url)
    return f"{place.hostname or ''}:{place.port or (443 if place.scheme == 'https' else 80)}"


class DeliveryStatus(Enum):
    """`pending -> delivered | failed | dropped`.

    A replay makes a delivered or failed one pending again.
    """

    PENDING = "pending"
    DELIVERED = "delivered"
    FAILED = "failed"
    DROPPED = "dropped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One event to be sent to one subscription.

    `id` is stable over attempts and is the event id; `sequence` is the gap-free number of the event within its
    subscription, from 1. `event` is None for a head move."""

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
    event: Event | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadMoveFacts:
    """What a head move brought: records of `offsets` (None: none), in so many blocks.

    `watermark` is the newest that one of the blocks states, None if none does.
    """

    blocks: int
    offsets: OffsetRange | None
    records: int
    watermark: Instant | None


@dataclass(frozen=True, slots=True)
class MovedRows:
    """Records that a move changed, as streams and cursors give them.

    `changes` of one block after the other; `next` is the position where those begin that did not fit, None if all did.
    """

    changes: Sequence[Mapping[str, object]]
    next: str | None


def delivery_id(subscription_id: str, new_head: Multihash) -> str:
    """Identity of the delivery of one head to one subscription.

    SHA3-256, in hexadecimal, of the length of the id in UTF-8 (4 bytes, big-endian), the id, and the binary multihash.
    """
    subscriber = subscription_id.encode()
    return hashlib.sha3_256(len(subscriber).to_bytes(4, "big") + subscriber + new_head.to_bytes()).hexdigest()


def event_delivery_id(subscription_id: str, message_id: int, type: EventType) -> str:
    """Identity of the delivery of another event to one subscription.

    An outbox message causes one event of each type at most.
    """
    cause = f"{message_id}\0{type.value}\0{subscription_id}"
    return hashlib.sha3_256(cause.encode()).hexdigest()


RESPONSE_BYTES_MAX = 16 * 1024
"""Part of an answer that is kept."""
REQUEST_BYTES_KEPT = 20_000
"""Part of a request that is kept: all of it but of one with many rows."""


@dataclass(frozen=True, slots=True)
class WebhookResponse:
    """A receiver's answer: status code, Retry-After in seconds, start of the body.

    Its Retry-After header if that was sensible, and the beginning of the body (`RESPONSE_BYTES_MAX`) as text."""

    status: int
    retry_after_s: int | None = None
    excerpt: str = ""


class FailureKind(Enum):
    """What an attempt failed of.

    `refused`: the node does not send to that place; `broken`: the connection ended before an answer; `node`: nothing was sent because
    of the node itself.
    """

    DNS = "dns"
    CONNECT = "connect"
    TLS = "tls"
    TIME = "time"
    REFUSED = "refused"
    STATUS = "status"
    BROKEN = "broken"
    NODE = "node"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryAttempt:
    """One attempt and its outcome: `failure` is None if the receiver accepted it.

    `request_headers` has no signature; `request_body` is the beginning (`REQUEST_BYTES_KEPT`). `number` counts the attempts of a delivery since it was made or replayed.
    """

    number: int
    at: Instant
    duration_ms: int
    status_code: int | None
    failure: FailureKind | None
    error: str | None
    request_headers: Mapping[str, str]
    request_body: bytes
    response: str

    @property
    def is_slow(self) -> bool:
        """Whether it held a sender for long, however it ended."""
        return self.duration_ms >= SLOW_MS or self.failure is FailureKind.TIME


SLOW_MS = 5_000
"""An attempt that takes longer marks its subscription as slow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Avoided:
    """Subscriptions that get no further sender for now.

    Doubtful is who is slow, or has not accepted anything yet.
    """

    receivers: frozenset[str] = frozenset()
    accounts: frozenset[str] = frozenset()
    doubtful_accounts: frozenset[str] = frozenset()
    doubtful_datasets: frozenset[DatasetId] = frozenset()
    doubtful: bool = False
    slow: bool = False


NOTHING_AVOIDED = Avoided()
