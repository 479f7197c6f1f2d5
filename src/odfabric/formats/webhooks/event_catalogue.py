"""The catalogue of events: types, who may see them, JSON Schema of `data`.

The one table that documents are made from (`docs/asyncapi.json`) and that tests hold events against. Not here: when an event happens
(`domain.subscriptions.events`, `usecases.events.chain_events`), its bytes (`formats.webhooks.cloud_event`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from odfabric.formats.webhooks.cloud_event import EVENT_WITHHELD, SUBSCRIPTION_TESTED, type_name
from odfabric.model.subscriptions.event import EventType

JsonSchema = Mapping[str, object]

_TEXT: JsonSchema = {"type": "string"}
_OPTIONAL_TEXT: JsonSchema = {"type": ["string", "null"]}
_TIME: JsonSchema = {"type": "string", "format": "date-time"}
_OPTIONAL_TIME: JsonSchema = {"type": ["string", "null"], "format": "date-time"}
_COUNT: JsonSchema = {"type": "integer", "minimum": 0}
_HEADS: Mapping[str, JsonSchema] = {"oldHead": _TEXT, "newHead": _TEXT}
_CHANGE: Mapping[str, JsonSchema] = {
    **_HEADS,
    "block": {**_TEXT, "description": "Hash of the newest block of the head move that makes such a change"},
    "change": {**_TEXT, "description": "Kind of its event, such as `SetInfo`"},
}
_FLOW: Mapping[str, JsonSchema] = {"flow": _TEXT, "kind": _TEXT}
_ROLE: Mapping[str, JsonSchema] = {
    "account": {**_OPTIONAL_TEXT, "description": "Name of the account; null for everybody"},
    "role": _OPTIONAL_TEXT,
}
_ROWS: JsonSchema = {
    "type": "object",
    "description": "Rows of one block, or some of them, in their order; as `/changes` and cursors give them",
    "properties": {
        "id": _TEXT,
        "kind": {"const": "changes"},
        "block": _TEXT,
        "sequence": _COUNT,
        "systemTime": _TIME,
        "last": {"type": "boolean", "description": "Whether the last row of the block is among them"},
        "rows": {"type": "array", "items": {"type": "object"}},
    },
    "required": ["id", "kind", "block", "sequence", "systemTime", "last", "rows"],
}
READERS, MAINTAINERS = "who may read the dataset", "who may share the dataset"


@dataclass(frozen=True, slots=True, kw_only=True)
class EventDescription:
    """A type as documents show it.

    `members` are those of `data` beside the ones that all events of datasets have; `optional` of them may be missing.
    """

    name: str
    summary: str
    seen_by: str
    members: Mapping[str, JsonSchema]
    optional: frozenset[str] = frozenset()


CATALOGUE: Mapping[EventType, EventDescription] = {
    type: EventDescription(
        name=type_name(type), summary=summary, seen_by=seen_by, members=members, optional=frozenset(optional)
    )
    for type, summary, seen_by, members, optional in (
        (EventType.DATASET_CREATED, "A dataset was created", READERS, {}, ()),
        (EventType.DATASET_DELETED, "A dataset was deleted", "who may manage its account", {}, ()),
        (EventType.DATASET_RENAMED, "A dataset has another name", READERS, {"oldAlias": _TEXT}, ()),
        (
            EventType.HEAD_MOVED,
            "Records or metadata were committed",
            READERS,
            {
                "oldHead": _OPTIONAL_TEXT,
                "newHead": _TEXT,
                "offsets": {"type": ["object", "null"], "properties": {"first": _COUNT, "last": _COUNT}},
                "records": _COUNT,
                "blocks": _COUNT,
                "watermark": _OPTIONAL_TIME,
                "links": {"type": "object", "properties": {"rows": _TEXT, "verify": _TEXT, "next": _TEXT}},
                "changes": {
                    "type": "array",
                    "items": _ROWS,
                    "description": "The changed records, as many as fit, to a subscription with `rows`",
                },
                "next": {
                    **_OPTIONAL_TEXT,
                    "description": "Position from which `/changes` gives the records that did not fit; null if all did",
                },
            },
            ("offsets", "records", "blocks", "watermark", "changes", "next"),
        ),
        (EventType.SCHEMA_CHANGED, "The records have another schema", READERS, _CHANGE, ()),
        (
            EventType.WATERMARK_ADVANCED,
            "The watermark advanced",
            READERS,
            {**_HEADS, "watermark": _TIME, "oldWatermark": _OPTIONAL_TIME},
            (),
        ),
        (EventType.SOURCE_CHANGED, "A push source or the polling source changed", READERS, _CHANGE, ()),
        (EventType.QUERY_CHANGED, "The query of a derivative dataset changed", READERS, _CHANGE, ()),
        (EventType.INFO_CHANGED, "Description, keywords, licence or attachments changed", READERS, _CHANGE, ()),
        (
            EventType.FLOW_FAILED,
            "A run failed and is not tried again",
            MAINTAINERS,
            {**_FLOW, "run": _TEXT, "attempts": _COUNT, "code": _OPTIONAL_TEXT},
            (),
        ),
        (
            EventType.FLOW_STOPPED,
            "A flow stopped after failures and starts no more runs",
            MAINTAINERS,
            {**_FLOW, "reason": _TEXT},
            (),
        ),
        (
            EventType.VERIFICATION_FAILED,
            "A verification found problems",
            READERS,
            {"job": _TEXT, "problems": _COUNT, "kinds": {"type": "array", "items": _TEXT}},
            (),
        ),
        (EventType.ACCESS_GRANTED, "An account, or everybody, was given a role", MAINTAINERS, _ROLE, ()),
        (EventType.ACCESS_REVOKED, "An account, or everybody, lost a role", MAINTAINERS, _ROLE, ()),
    )
}


def event_schema(description: EventDescription) -> JsonSchema:
    """JSON Schema of the body of an event of a dataset."""
    common: dict[str, JsonSchema] = {
        "datasetId": _TEXT,
        "alias": {**_TEXT, "description": "Name of the dataset at that time"},
        "subscriptionId": _TEXT,
        "sequence": {"type": "integer", "minimum": 1, "description": "Without a gap for each subscription"},
    }
    members = {**common, **description.members}
    return _body(description.name, members, required=[name for name in members if name not in description.optional])


def control_schemas() -> Mapping[str, JsonSchema]:
    """JSON Schemas, by type, of the bodies that are about the subscription itself."""
    number: JsonSchema = {"type": "integer", "minimum": 1}
    return {
        SUBSCRIPTION_TESTED: _body(
            SUBSCRIPTION_TESTED,
            {"subscriptionId": _TEXT, "datasetId": _TEXT, "alias": _TEXT, "head": _TEXT},
            required=["subscriptionId"],
        ),
        EVENT_WITHHELD: _body(
            EVENT_WITHHELD, {"subscriptionId": _TEXT, "sequence": number}, required=["subscriptionId", "sequence"]
        ),
    }


def _body(name: str, members: Mapping[str, JsonSchema], *, required: list[str]) -> JsonSchema:
    return {
        "type": "object",
        "required": ["specversion", "id", "source", "type", "time", "datacontenttype", "data"],
        "additionalProperties": False,
        "properties": {
            "specversion": {"const": "1.0"},
            "id": {**_TEXT, "description": "The same at every attempt: receivers take each id once"},
            "source": {**_TEXT, "description": "URI of the node"},
            "type": {"const": name},
            "subject": {**_TEXT, "description": "Name of the dataset"},
            "time": _TIME,
            "datacontenttype": {"const": "application/json"},
            "data": {
                "type": "object",
                "required": required,
                "additionalProperties": False,
                "properties": dict(members),
            },
        },
    }
