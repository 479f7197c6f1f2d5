"""Subscriptions in REST: request bodies, and the members of JSON values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from pydantic import Field

from odfabric.model.subscriptions.event import EventType
from odfabric.model.subscriptions.subscription import (
    Delivery,
    DeliveryAttempt,
    MoveOptions,
    Subscription,
    SubscriptionFormat,
)
from odfabric.usecases.subscriptions.change_subscription import OVERLAP_S_MAX
from odfabric.usecases.subscriptions.subscribe import COLUMNS_MAX
from odfabric_api.bodies.json_body import JsonModel

EventName = Literal[
    "dataset.created",
    "dataset.deleted",
    "dataset.renamed",
    "dataset.head-moved",
    "dataset.schema-changed",
    "dataset.watermark-advanced",
    "dataset.source-changed",
    "dataset.query-changed",
    "dataset.info-changed",
    "flow.failed",
    "flow.stopped",
    "verification.failed",
    "access.granted",
    "access.revoked",
]
EVENTS = len(EventType)


class MovesBody(JsonModel):
    """What is wanted of head moves."""

    only_with_data: bool = Field(
        False,
        alias="onlyWithData",
        description="No event for changes that bring no records; the interval of the next event covers them",
    )
    rows: bool = Field(
        False, description="Events carry the changed records (`changes`), as many as fit; the rest begins at `next`"
    )

    @property
    def moves(self) -> MoveOptions:
        """As the subscription keeps it."""
        return MoveOptions(only_with_data=self.only_with_data, with_rows=self.rows)


class ReceiverBody(MovesBody):
    """Where to deliver; a secret is made if none is given."""

    url: str = Field(min_length=1, max_length=2048)
    secret: str | None = Field(
        None, max_length=256, description="`whsec_` and the base64 of 24 to 64 random bytes (Standard Webhooks)"
    )

    @property
    def sent_format(self) -> SubscriptionFormat:
        """The form of what is sent."""
        return SubscriptionFormat.CLOUD_EVENT


class SubscriptionBody(ReceiverBody):
    """Where to deliver; a secret is made if none is given."""

    format: Literal["cloudevents", "kamu"] = Field(
        "cloudevents",
        description="`kamu`: body and headers of the reference node, and a secret of hexadecimal digits, beside the headers of Standard "
        "Webhooks",
    )
    events: list[EventName] | None = Field(
        None, min_length=1, max_length=EVENTS, description="Types of events; default: head moves"
    )
    columns: list[str] = Field(
        [],
        max_length=COLUMNS_MAX,
        description="Events only of changes that bring or take away records, or change a value in one of these columns",
    )

    @property
    def moves(self) -> MoveOptions:
        """As the subscription keeps it."""
        return replace(super().moves, columns=frozenset(self.columns))

    @property
    def sent_format(self) -> SubscriptionFormat:
        """The form of what is sent."""
        return SubscriptionFormat(self.format)


class WideSubscriptionBody(ReceiverBody):
    """Where to deliver, and which types of events; a secret is made if none is given."""

    events: list[EventName] | None = Field(None, min_length=1, max_length=EVENTS, description="Default: all types")


class NoMembers(JsonModel):
    """Nothing is asked for; the body may be left out."""


class RotationBody(JsonModel):
    """The secret that signs from now on, and how long the old one signs beside it."""

    secret: str | None = Field(
        None, max_length=256, description="`whsec_` and the base64 of 24 to 64 random bytes; default: one is made"
    )
    overlap_seconds: int | None = Field(
        None, alias="overlapSeconds", ge=0, le=int(OVERLAP_S_MAX), description="Default: what the node has set"
    )


class ReplayBody(JsonModel):
    """Which deliveries go out again: exactly one of the two."""

    from_sequence: int | None = Field(
        None, alias="fromSequence", ge=1, le=2**63 - 1, description="This one and all later ones"
    )
    failed: bool = Field(False, description="All that were given up")


def event_types(names: Sequence[str] | None) -> frozenset[EventType] | None:
    """The types of a body."""
    return None if names is None else frozenset(map(EventType, names))


def subscription_value(subscription: Subscription) -> dict[str, object]:
    """As answers show it, without its secret."""
    return {
        "id": subscription.id,
        "url": subscription.url,
        "createdAt": str(subscription.created_at),
        "createdAtHead": str(subscription.created_at_head) if subscription.created_at_head else None,
        "events": sorted(each.value for each in subscription.events),
        "format": subscription.format.value,
        "onlyWithData": subscription.moves.only_with_data,
        "columns": sorted(subscription.moves.columns),
        "rows": subscription.moves.with_rows,
        "state": subscription.state.value,
        "stateReason": subscription.state_reason,
        "failingSince": str(subscription.failing_since) if subscription.failing_since else None,
        "oldSecretUntil": str(subscription.old_secret_until) if subscription.old_secret_until else None,
    }


def delivery_value(delivery: Delivery) -> dict[str, object]:
    """As answers show it."""
    return {
        "id": delivery.id,
        "sequence": delivery.sequence,
        "type": (delivery.event.type if delivery.event else EventType.HEAD_MOVED).value,
        "datasetId": str(delivery.dataset_id),
        "oldHead": str(delivery.old_head) if delivery.old_head else None,
        "newHead": str(delivery.new_head) if delivery.new_head else None,
        "occurredAt": str(delivery.occurred_at),
        "status": delivery.status.value,
        "attempts": delivery.attempts,
        "nextAttemptAt": str(delivery.next_attempt_at),
        "lastStatusCode": delivery.last_status_code,
        "lastError": delivery.last_error,
    }


def attempt_value(attempt: DeliveryAttempt) -> dict[str, object]:
    """As answers show it."""
    return {
        "number": attempt.number,
        "at": str(attempt.at),
        "durationMs": attempt.duration_ms,
        "statusCode": attempt.status_code,
        "failure": attempt.failure.value if attempt.failure else None,
        "error": attempt.error,
        "requestHeaders": dict(attempt.request_headers),
        "requestBody": attempt.request_body.decode("utf-8", "replace"),
        "response": attempt.response,
    }
