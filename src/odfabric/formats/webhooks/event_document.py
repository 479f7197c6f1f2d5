"""An event as the outbox and the delivery log store it.

A JSON object of its type, the dataset's name and the detail.
"""

from __future__ import annotations

import json

from odfabric.model.identity import DatasetAlias, DatasetId, Name
from odfabric.model.instant import Instant
from odfabric.model.subscriptions.event import Event, EventType


def event_text(event: Event) -> str:
    """What is stored beside the dataset's id and the time."""
    account = str(event.alias.account) if event.alias.account else None
    document = {
        "type": event.type.value,
        "account": account,
        "name": str(event.alias.name),
        "detail": dict(event.detail),
    }
    return json.dumps(document, sort_keys=True)


def parse_event_text(text: str, *, dataset_id: DatasetId, occurred_at: Instant) -> Event:
    """The event that was stored.

    Raises ValueError, KeyError for a text that `event_text` did not write.
    """
    document = json.loads(text)
    account = document["account"]
    return Event(
        type=EventType(document["type"]),
        dataset_id=dataset_id,
        alias=DatasetAlias(Name(account) if account else None, Name(document["name"])),
        occurred_at=occurred_at,
        detail=document["detail"],
    )
