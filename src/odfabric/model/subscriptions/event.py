"""Events for webhooks: the closed list of types, and one as the outbox stores it.

Not here: who may see an event (`domain.subscriptions.events`), its bytes on the wire (`formats.webhooks.cloud_event`, `formats.webhooks.event_catalogue`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from odfabric.model.identity import DatasetAlias, DatasetId
from odfabric.model.instant import Instant


class EventType(Enum):
    """What happened.

    On the wire the type of a CloudEvent is `dev.odfabric.` and the value.
    """

    DATASET_CREATED = "dataset.created"
    DATASET_DELETED = "dataset.deleted"
    DATASET_RENAMED = "dataset.renamed"
    HEAD_MOVED = "dataset.head-moved"
    SCHEMA_CHANGED = "dataset.schema-changed"
    WATERMARK_ADVANCED = "dataset.watermark-advanced"
    SOURCE_CHANGED = "dataset.source-changed"
    QUERY_CHANGED = "dataset.query-changed"
    INFO_CHANGED = "dataset.info-changed"
    FLOW_FAILED = "flow.failed"
    FLOW_STOPPED = "flow.stopped"
    VERIFICATION_FAILED = "verification.failed"
    ACCESS_GRANTED = "access.granted"
    ACCESS_REVOKED = "access.revoked"


ALL_EVENTS = frozenset(EventType)
HEAD_MOVES = frozenset({EventType.HEAD_MOVED})
"""What a subscription of a dataset receives unless it asks for other types."""

CHAIN_EVENTS = frozenset(
    {
        EventType.SCHEMA_CHANGED,
        EventType.WATERMARK_ADVANCED,
        EventType.SOURCE_CHANGED,
        EventType.QUERY_CHANGED,
        EventType.INFO_CHANGED,
    }
)
"""Types that the relay derives from the blocks of a head move."""

WIDE_ONLY = frozenset({EventType.DATASET_CREATED, EventType.DATASET_DELETED})
"""Types that no subscription of a single dataset receives: it begins after the first, and is deleted with the second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An event about a dataset other than a head move.

    `alias` is the dataset's name at that time, `detail` holds JSON values.
    """

    type: EventType
    dataset_id: DatasetId
    alias: DatasetAlias
    occurred_at: Instant
    detail: Mapping[str, object] = field(default_factory=dict)
