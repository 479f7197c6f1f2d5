"""Which changes are events, and who may see them.

Owns how an audit entry becomes an event, and the right that each type needs. Pure. Not here: events that are derived from blocks
(`usecases.events.chain_events`), the form of an event (`formats.webhooks.event_catalogue`).
"""

from __future__ import annotations

from collections.abc import Mapping

from odfabric.domain.people.access import Action
from odfabric.model.identity import DatasetAlias, Name
from odfabric.model.people.account import Visibility
from odfabric.model.people.audit import AuditEntry, AuditKind, AuditOutcome
from odfabric.model.subscriptions.event import Event, EventType

NEEDED_ACTIONS: Mapping[EventType, Action] = {
    **dict.fromkeys(EventType, Action.FOLLOW),
    **dict.fromkeys(
        (EventType.FLOW_FAILED, EventType.FLOW_STOPPED, EventType.ACCESS_GRANTED, EventType.ACCESS_REVOKED),
        Action.SHARE,
    ),
}
"""What the subscriber must be allowed to do to the dataset to see an event. A deleted dataset has no roles any more: its event needs
MANAGE on the account that it was named under."""

_TYPES = {
    AuditKind.DATASET_CREATED: EventType.DATASET_CREATED,
    AuditKind.DATASET_DELETED: EventType.DATASET_DELETED,
    AuditKind.DATASET_RENAMED: EventType.DATASET_RENAMED,
    AuditKind.FLOW_STOPPED: EventType.FLOW_STOPPED,
    AuditKind.ROLE_GRANTED: EventType.ACCESS_GRANTED,
    AuditKind.ROLE_REVOKED: EventType.ACCESS_REVOKED,
}


def event_of(entry: AuditEntry) -> Event | None:
    """The event of what an audit entry reports, None if it is none."""
    type = _type_of(entry)
    if type is None or entry.dataset is None or entry.target is None or entry.outcome is not AuditOutcome.DONE:
        return None
    account, _, name = entry.target.rpartition("/")
    return Event(
        type=type,
        dataset_id=entry.dataset,
        alias=DatasetAlias(Name(account) if account else None, Name(name)),
        occurred_at=entry.at,
        detail=_detail(type, entry),
    )


def _type_of(entry: AuditEntry) -> EventType | None:
    if entry.kind is AuditKind.VISIBILITY_CHANGED:
        is_public = entry.detail.get("visibility") == Visibility.PUBLIC.value
        return EventType.ACCESS_GRANTED if is_public else EventType.ACCESS_REVOKED
    return _TYPES.get(entry.kind)


def _detail(type: EventType, entry: AuditEntry) -> dict[str, object]:
    given = entry.detail
    match type:
        case EventType.DATASET_RENAMED:
            return {"oldAlias": given.get("oldName")}
        case EventType.FLOW_STOPPED:
            return {"flow": given.get("flow"), "kind": given.get("kind"), "reason": given.get("reason")}
        case EventType.ACCESS_GRANTED | EventType.ACCESS_REVOKED if entry.kind is AuditKind.VISIBILITY_CHANGED:
            return {"account": None, "role": "reader" if type is EventType.ACCESS_GRANTED else None}
        case EventType.ACCESS_GRANTED | EventType.ACCESS_REVOKED:
            return {"account": given.get("account"), "role": given.get("role")}
        case _:
            return {}
