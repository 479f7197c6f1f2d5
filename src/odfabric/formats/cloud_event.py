"""The body of a webhook: one CloudEvent 1.0 per head move, as JSON.

Owns the event's members and their bytes. Invariant: the same delivery gives the same bytes at every attempt, so receivers
may compare, and the body carries identifiers only, never rows: who may read the dataset asks for them. Not here: headers
and signature (`formats.webhook_signature`). Source: CloudEvents 1.0, JSON format, structured mode.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from odfabric.model.identity import DatasetAlias
from odfabric.model.instant import Instant
from odfabric.model.multihash import Multihash
from odfabric.model.subscription import Delivery, HeadMoveFacts, Subscription

CONTENT_TYPE = "application/cloudevents+json; charset=utf-8"
HEAD_MOVED = "dev.odfabric.dataset.head-moved"
SUBSCRIPTION_TESTED = "dev.odfabric.subscription.test"
DATASET_DELETED = "dev.odfabric.dataset.deleted"
EVENT_BYTES_MAX = 20_000


def head_move_event(
    delivery: Delivery, *, alias: DatasetAlias, source: str, base: str = "", facts: HeadMoveFacts | None = None
) -> bytes:
    """The body of a delivery. `source` is the URI of the node, `base` the URL before the paths of its links, empty if nobody knows it.

    Without `facts` of the move the event has none. Raises ValueError if it would pass `EVENT_BYTES_MAX`.
    """
    event = {
        "specversion": "1.0",
        "id": delivery.id,
        "source": source,
        "type": HEAD_MOVED if delivery.new_head else DATASET_DELETED,
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
    return _bytes(event)


def check_event(
    subscription: Subscription, *, message_id: str, sent_at: Instant, head: Multihash, alias: DatasetAlias, source: str
) -> bytes:
    """The body of a message that tries a receiver: it tells of nothing new and has no number. Raises ValueError as the other."""
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
    dataset = f"{base.rstrip('/')}/{alias}"
    return {"rows": f"{dataset}/state?asOfBlock={head}", "verify": f"{dataset}/verify"}


def _bytes(event: Mapping[str, object]) -> bytes:
    body = json.dumps(event, separators=(",", ":")).encode("ascii")
    if len(body) > EVENT_BYTES_MAX:
        raise ValueError(f"an event has at most {EVENT_BYTES_MAX} bytes")
    return body
