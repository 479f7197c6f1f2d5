"""Events of an account and of the node: types, receivers, gap-free numbers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from odfabric.domain.people.access import Subject
from odfabric.errors import InvalidRequest, NotFound
from odfabric.formats.identifiers.dataset_layout import head_key
from odfabric.formats.webhooks.cloud_event import EVENT_WITHHELD, TYPE_PREFIX
from odfabric.formats.webhooks.event_catalogue import CATALOGUE, control_schemas, event_schema
from odfabric.model.commit import CatalogEntry
from odfabric.model.jobs.job import Job
from odfabric.model.metadata import SetInfo
from odfabric.model.people.account import DatasetRole, Visibility
from odfabric.model.subscriptions.event import ALL_EVENTS, EventType
from odfabric.model.subscriptions.subscription import SubscriptionFormat
from odfabric.usecases.ingestion.push_data import PushData
from odfabric.usecases.people.accounts import delete_account
from odfabric.usecases.people.sharing import set_role, set_visibility
from odfabric.usecases.subscriptions.subscription_scope import Scope, WholeNode
from odfabric.usecases.verification.verification_run import VerifyOptions
from odfabric.wiring.composed.renaming import rename
from tests.usecases.people.conftest import People

URL = "https://receiver.test/hook"
SCHEMAS = {each.name: event_schema(each) for each in CATALOGUE.values()} | dict(control_schemas())


def follow(people: People, scope: Scope, by: Subject, events: frozenset[EventType] | None = None) -> str:
    people.memory.node.background.relay_outbox()
    made = people.memory.node.webhooks.subscribe(scope, by=by, url=URL, secret=None, events=events)
    return made.subscription.id


def delivered(people: People, subscription: str | None = None) -> list[dict[str, Any]]:
    """What has arrived, all that is due being sent first; every body fits its schema."""
    node = people.memory.node
    while node.background.relay_outbox():
        pass
    for _ in range(50):
        for delivery in node.background.due_deliveries("test", limit=20):
            node.background.deliver(delivery)
    events = [json.loads(each.body) for each in people.memory.webhooks.received]
    for event in events:
        Draft202012Validator(SCHEMAS[event["type"]]).validate(event)
    mine = [each for each in events if subscription in (None, each["data"]["subscriptionId"])]
    assert [each["data"]["sequence"] for each in mine] == list(range(1, len(mine) + 1)) or subscription is None
    return mine


def types(events: list[dict[str, Any]]) -> list[str]:
    return [each["type"].removeprefix(TYPE_PREFIX) for each in events]


def push(people: People, entry: CatalogEntry, day: int) -> None:
    row = json.dumps({"event_time": f"2026-01-{day:02}T00:00:00Z", "city": "A"}).encode()
    job = people.memory.node.requests.push(PushData(dataset=entry.id, body=iter([row])))
    assert isinstance(job, Job)
    people.memory.finish(job)


def test_an_account_is_followed_from_the_creation_of_a_dataset_to_its_deletion(people: People) -> None:
    node, ann = people.memory.node, people.subject("ann")
    subscription = follow(people, people.account("ann"), ann)
    people.add("bob", "elsewhere")
    entry = people.add("ann")
    push(people, entry, 1)
    node.editing.set_info(entry, [SetInfo(description="Cities")], ann)
    set_role(entry, "bob", DatasetRole.READER, subject=ann, ports=people.ports)
    set_role(entry, "bob", None, subject=ann, ports=people.ports)
    set_visibility(entry, Visibility.PUBLIC, subject=ann, ports=people.ports)
    entry = rename(node, entry, "towns", by=ann)
    before = delivered(people, subscription)
    node.datasets.delete(entry, by=ann)
    events = delivered(people, subscription)
    assert types(events) == [
        "dataset.head-moved",
        "dataset.created",
        "dataset.head-moved",
        "dataset.schema-changed",
        "dataset.watermark-advanced",
        "dataset.head-moved",
        "dataset.info-changed",
        "access.granted",
        "access.revoked",
        "access.granted",
        "dataset.renamed",
        "dataset.deleted",
    ]
    assert len(before) == len(events) - 1
    assert len({each["id"] for each in events}) == len(events)
    renamed, deleted = events[-2:]
    assert (renamed["data"]["oldAlias"], renamed["subject"], deleted["subject"]) == ("ann/readings",) + (
        "ann/towns",
    ) * 2
    assert events[6]["data"]["change"] == "SetInfo"
    assert events[4]["data"]["watermark"] == "2026-01-01T00:00:00Z"
    assert [(each["data"]["account"], each["data"]["role"]) for each in events[7:10]] == [
        ("bob", "reader"),
        ("bob", None),
        (None, "reader"),
    ]


def test_the_node_is_followed_by_types(people: People) -> None:
    wanted = frozenset({EventType.DATASET_CREATED, EventType.WATERMARK_ADVANCED})
    subscription = follow(people, WholeNode(), people.operator, wanted)
    first = people.add("ann")
    people.add("bob")
    for day in (2, 1, 3):
        push(people, first, day)
    events = delivered(people, subscription)
    assert types(events) == ["dataset.created"] * 2 + ["dataset.watermark-advanced"] * 2
    assert [each["subject"] for each in events] == ["ann/readings", "bob/readings"] + ["ann/readings"] * 2
    assert events[-1]["data"]["oldWatermark"] == "2026-01-02T00:00:00Z"


def test_what_may_not_be_seen_any_more_leaves_its_number(people: People) -> None:
    entry = people.add("ann")
    subscription = follow(people, people.account("ann"), people.operator)
    push(people, entry, 1)
    people.memory.node.background.relay_outbox()
    people.memory.node.datasets.delete(entry, by=people.subject("ann"))
    events = delivered(people, subscription)
    assert types(events)[-1] == "dataset.deleted"
    assert {each["type"] for each in events[:-1]} == {EVENT_WITHHELD}
    assert all(set(each["data"]) == {"subscriptionId", "sequence"} for each in events[:-1])


def test_who_reads_a_dataset_does_not_receive_who_else_may(people: People) -> None:
    ann, bob = people.subject("ann"), people.subject("bob")
    entry = people.add("ann")
    set_role(entry, "bob", DatasetRole.MAINTAINER, subject=ann, ports=people.ports)
    wanted = frozenset({EventType.HEAD_MOVED, EventType.ACCESS_GRANTED, EventType.ACCESS_REVOKED})
    subscription = follow(people, entry, bob, wanted)
    set_visibility(entry, Visibility.PUBLIC, subject=ann, ports=people.ports)
    assert types(delivered(people, subscription)) == ["access.granted"]
    set_role(entry, "bob", DatasetRole.READER, subject=ann, ports=people.ports)
    push(people, entry, 1)
    assert types(delivered(people, subscription))[1:] == ["subscription.withheld", "dataset.head-moved"]


def test_a_verification_that_finds_problems_is_an_event(people: People) -> None:
    node, ann = people.memory.node, people.subject("ann")
    entry = people.add("ann")
    push(people, entry, 1)
    wanted = ALL_EVENTS - {EventType.HEAD_MOVED}
    subscription = follow(people, people.account("ann"), ann, wanted)
    people.memory.objects.replace_ref(head_key(entry.id), "nonsense", expected=str(node.datasets.head(entry).hash))
    people.memory.finish(node.requests.verify(entry, VerifyOptions(), by=ann))
    events = delivered(people, subscription)
    assert types(events) == ["verification.failed"]
    assert (events[0]["data"]["problems"], events[0]["data"]["kinds"]) == (1, ["RefNotFound"])


def test_subscriptions_of_an_account_go_with_it(people: People) -> None:
    subscription = follow(people, people.account("bob"), people.operator)
    delete_account("bob", subject=people.operator, ports=people.ports)
    with pytest.raises(NotFound):
        people.memory.node.webhooks.get(WholeNode(), subscription, by=people.operator)
    assert people.memory.node.ports.subscriptions.get(subscription) is None


@pytest.mark.parametrize(
    ("events", "format"),
    [
        (frozenset[EventType](), SubscriptionFormat.CLOUD_EVENT),
        (frozenset({EventType.DATASET_CREATED}), SubscriptionFormat.CLOUD_EVENT),
        (frozenset({EventType.INFO_CHANGED}), SubscriptionFormat.REFERENCE),
    ],
)
def test_types_that_a_dataset_has_not(people: People, events: frozenset[EventType], format: SubscriptionFormat) -> None:
    entry = people.add("ann")
    with pytest.raises(InvalidRequest):
        people.memory.node.webhooks.subscribe(
            entry, by=people.subject("ann"), url=URL, secret=None, format=format, events=events
        )


def test_every_type_is_described() -> None:
    assert set(CATALOGUE) == ALL_EVENTS
    for schema in SCHEMAS.values():
        Draft202012Validator.check_schema(schema)
