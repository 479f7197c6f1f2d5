"""The body of a webhook: one CloudEvent 1.0 per head move, as JSON.

Owns the event's members and their bytes. Invariant: the same delivery gives the same bytes at every attempt, so receivers
may compare, and the body carries identifiers only, never rows: who may read the dataset asks for them. Not here: headers
and signature (`formats.webhook_signature`). Source: CloudEvents 1.0, JSON format, structured mode.
"""

from __future__ import annotations

import json

from odfabric.model.identity import DatasetAlias
from odfabric.model.subscription import Delivery

CONTENT_TYPE = "application/cloudevents+json; charset=utf-8"
HEAD_MOVED = "dev.odfabric.dataset.head-moved"
DATASET_DELETED = "dev.odfabric.dataset.deleted"
EVENT_BYTES_MAX = 20_000


def head_move_event(delivery: Delivery, *, alias: DatasetAlias, source: str) -> bytes:
    """The body of a delivery. `source` is the URI of the node. Raises ValueError if it would pass `EVENT_BYTES_MAX`."""
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
        },
    }
    body = json.dumps(event, separators=(",", ":")).encode("ascii")
    if len(body) > EVENT_BYTES_MAX:
        raise ValueError(f"an event has at most {EVENT_BYTES_MAX} bytes")
    return body
