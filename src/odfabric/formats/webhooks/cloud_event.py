"""The body of a webhook: one CloudEvent 1.0 per head move, as JSON.

Owns the event's members and their bytes. Invariant: the same delivery gives the same bytes at every attempt, so receivers
may compare, and without `rows` the body carries identifiers only: who may read the dataset asks for them. Not here: headers
and signature (`formats.webhooks.webhook_signature`). Source: CloudEvents 1.0, JSON format, structured mode.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from odfabric.model.identity import DatasetAlias
from odfabric.model.instant import Instant
from odfabric.model.multihash import Multihash
from odfabric.model.subscriptions.event import Event, EventType
from odfabric.model.subscriptions.subscription import Delivery, HeadMoveFacts, MovedRows, Subscription

CONTENT_TYPE = "application/cloudevents+json; charset=utf-8"
TYPE_PREFIX = "dev.odfabric."
SUBSCRIPTION_TESTED = "dev.odfabric.subscription.test"
EVENT_WITHHELD = "dev.odfabric.subscription.withheld"
EVENT_BYTES_MAX = 20_000


def type_name(type: EventType) -> str:
    """The `type` of a CloudEvent."""
    return f"{TYPE_PREFIX}{type.value}"


def head_move_event(
    delivery: Delivery,
    *,
    alias: DatasetAlias,
    source: str,
    base: str = "",
    facts: HeadMoveFacts | None = None,
    rows: MovedRows | None = None,
) -> bytes:
    """The body of a delivery.

    `source` is the URI of the node, `base` the URL before the paths of its links, empty if nobody knows it.

    Without `facts` of the move the event has none. Raises ValueError if it would pass `EVENT_BYTES_MAX` without its `rows`.
    """
    event: dict[str, Any] = {
        "specversion": "1.0",
        "id": delivery.id,
        "source": source,
        "type": type_name(EventType.HEAD_MOVED),
        "subject": str(alias),
        "time": str(delivery.occurred_at),
        "datacontenttype": "application/json",
        "data": {
            "datasetId": str(delivery.dataset_id),
            "alias": str(alias),
            "subscriptionId": delivery.subscription_id,
            "sequence": delivery.sequence,
            "oldHead": str(delivery.old_head) if delivery.old_head else None,
            "newHead": str(delivery.new_head) if delivery.new_head else None,
            **(_members(facts) if facts else {}),
            **({"links": _links(base, alias, delivery.new_head)} if delivery.new_head else {}),
        },
    }
    body = _bytes(event)
    if rows is None:
        return body
    event["data"] |= {"changes": rows.changes, "next": rows.next}
    if rows.next is not None:
        event["data"]["links"]["next"] = f"{_dataset(base, alias)}/changes?from={rows.next}"
    return _json(event)


def other_event(delivery: Delivery, event: Event, *, source: str) -> bytes:
    """The body of a delivery of an event that is no head move.

    Raises ValueError as the other.
    """
    body = {
        "specversion": "1.0",
        "id": delivery.id,
        "source": source,
        "type": type_name(event.type),
        "subject": str(event.alias),
        "time": str(event.occurred_at),
        "datacontenttype": "application/json",
        "data": {
            "datasetId": str(event.dataset_id),
            "alias": str(event.alias),
            "subscriptionId": delivery.subscription_id,
            "sequence": delivery.sequence,
            **event.detail,
        },
    }
    return _bytes(body)


def withheld_event(delivery: Delivery, *, source: str) -> bytes:
    """The body for an event that the subscriber may no longer see: its number only."""
    event = {
        "specversion": "1.0",
        "id": delivery.id,
        "source": source,
        "type": EVENT_WITHHELD,
        "time": str(delivery.occurred_at),
        "datacontenttype": "application/json",
        "data": {"subscriptionId": delivery.subscription_id, "sequence": delivery.sequence},
    }
    return _bytes(event)


def wide_check_event(subscription: Subscription, *, message_id: str, sent_at: Instant, source: str) -> bytes:
    """The same as `check_event` for a subscription of an account or of the node."""
    event = {
        "specversion": "1.0",
        "id": message_id,
        "source": source,
        "type": SUBSCRIPTION_TESTED,
        "time": str(sent_at),
        "datacontenttype": "application/json",
        "data": {"subscriptionId": subscription.id},
    }
    return _bytes(event)


def check_event(
    subscription: Subscription, *, message_id: str, sent_at: Instant, head: Multihash, alias: DatasetAlias, source: str
) -> bytes:
    """The body of a test message: no news and no number. Raises ValueError as above."""
    event = {
        "specversion": "1.0",
        "id": message_id,
        "source": source,
        "type": SUBSCRIPTION_TESTED,
        "subject": str(alias),
        "time": str(sent_at),
        "datacontenttype": "application/json",
        "data": {
            "datasetId": str(subscription.dataset_id),
            "alias": str(alias),
            "subscriptionId": subscription.id,
            "head": str(head),
        },
    }
    return _bytes(event)


def _members(facts: HeadMoveFacts) -> dict[str, object]:
    interval = facts.offsets.to_wire() if facts.offsets else None
    return {
        "offsets": {"first": interval.start, "last": interval.end} if interval else None,
        "records": facts.records,
        "blocks": facts.blocks,
        "watermark": str(facts.watermark) if facts.watermark else None,
    }


def _links(base: str, alias: DatasetAlias, head: Multihash) -> dict[str, str]:
    dataset = _dataset(base, alias)
    return {"rows": f"{dataset}/state?asOfBlock={head}", "verify": f"{dataset}/verify"}


def _dataset(base: str, alias: DatasetAlias) -> str:
    return f"{base.rstrip('/')}/{alias}"


def _json(event: Mapping[str, object]) -> bytes:
    return json.dumps(event, separators=(",", ":")).encode("ascii")


def _bytes(event: Mapping[str, object]) -> bytes:
    body = _json(event)
    if len(body) > EVENT_BYTES_MAX:
        raise ValueError(f"an event has at most {EVENT_BYTES_MAX} bytes")
    return body
