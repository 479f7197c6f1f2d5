"""Events caused by a head move's blocks: schema, watermark, source, query, info.

Invariant: a move causes one event of each type at most, of its newest block of that type; the blocks that a dataset is created with cause
none. Not here: the head move itself (`usecases.chain.head_move`), when events are derived (`usecases.events.relay_outbox`).
"""

from __future__ import annotations

import logging
from itertools import islice

from odfabric.domain.chain.walk import ChainLink, walk
from odfabric.errors import ChainsDiverged, Corrupt, InvalidBlock, LimitExceeded, NotFound
from odfabric.model.commit import OutboxMessage
from odfabric.model.instant import Instant
from odfabric.model.metadata import (
    AddData,
    AddPushSource,
    DisablePollingSource,
    DisablePushSource,
    ExecuteTransform,
    MetadataBlock,
    SetAttachments,
    SetDataSchema,
    SetInfo,
    SetLicense,
    SetPollingSource,
    SetTransform,
)
from odfabric.model.multihash import Multihash
from odfabric.model.subscriptions.event import Event, EventType
from odfabric.usecases.chain.head_move import BLOCKS_READ_MAX
from odfabric.usecases.chain.repository import Repository

_log = logging.getLogger(__name__)


def chain_events(message: OutboxMessage, wanted: frozenset[EventType], *, repository: Repository) -> list[Event]:
    """The wanted events of a head move.

    None for a first commit, and for a move that does not go forwards or cannot be read.

    Raises External if the blocks cannot be reached now.
    """
    entry = repository.find(message.dataset_id)
    if entry is None or message.old_head is None or message.new_head is None:
        return []
    try:
        details = _details(message, message.old_head, wanted, repository)
    except (ChainsDiverged, LimitExceeded, NotFound, Corrupt, InvalidBlock) as error:
        _log.error("dataset %s, events of the head move to %s: %s", entry.id, message.new_head, error)
        return []
    heads = {"oldHead": str(message.old_head), "newHead": str(message.new_head)}
    return [
        Event(
            type=type,
            dataset_id=entry.id,
            alias=entry.alias,
            occurred_at=message.occurred_at,
            detail={**heads, **details[type]},
        )
        for type in EventType
        if type in details
    ]


def _details(
    message: OutboxMessage, old_head: Multihash, wanted: frozenset[EventType], repository: Repository
) -> dict[EventType, dict[str, object]]:
    details: dict[EventType, dict[str, object]] = {}
    watermark: Instant | None = None
    blocks = repository.blocks(message.dataset_id)
    for link in walk(blocks, message.new_head, tail=old_head, blocks_max=BLOCKS_READ_MAX):
        watermark = watermark or _watermark(link.block)
        type = _type(link.block)
        if type in wanted and type is not None and type not in details:
            details[type] = _detail(link)
    if EventType.WATERMARK_ADVANCED in wanted and watermark is not None:
        before = _watermark_at(message, old_head, repository)
        if before is None or before < watermark:
            details[EventType.WATERMARK_ADVANCED] = {
                "watermark": str(watermark),
                "oldWatermark": str(before) if before else None,
            }
    return details


def _type(block: MetadataBlock) -> EventType | None:
    match block.event:
        case SetDataSchema():
            return EventType.SCHEMA_CHANGED
        case AddPushSource() | DisablePushSource() | SetPollingSource() | DisablePollingSource():
            return EventType.SOURCE_CHANGED
        case SetTransform():
            return EventType.QUERY_CHANGED
        case SetInfo() | SetLicense() | SetAttachments():
            return EventType.INFO_CHANGED
        case _:
            return None


def _detail(link: ChainLink) -> dict[str, object]:
    return {"block": str(link.hash), "change": type(link.block.event).__name__}


def _watermark(block: MetadataBlock) -> Instant | None:
    event = block.event
    return event.new_watermark if isinstance(event, AddData | ExecuteTransform) else None


def _watermark_at(message: OutboxMessage, head: Multihash, repository: Repository) -> Instant | None:
    """The newest watermark that a block states at `head` or below it.

    None if the next `BLOCKS_READ_MAX` state none.
    """
    below = walk(repository.blocks(message.dataset_id), head)
    stated = (_watermark(link.block) for link in islice(below, BLOCKS_READ_MAX))
    return next((watermark for watermark in stated if watermark is not None), None)
