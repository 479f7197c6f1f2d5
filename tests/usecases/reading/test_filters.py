"""Subscriptions to some changes only, and changed records in events."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from odfabric.errors import InvalidRequest
from odfabric.formats.webhooks.event_catalogue import CATALOGUE, event_schema
from odfabric.model.commit import CatalogEntry
from odfabric.model.metadata import SetInfo
from odfabric.model.subscriptions.event import EventType
from odfabric.model.subscriptions.subscription import MoveOptions, WebhookResponse
from odfabric.testing.changelogs import C_FROM, C_TO, A, R
from odfabric.testing.memory_node import MemoryNode
from odfabric.usecases.ingestion.push_data import PushData
from odfabric.wiring.node import Node
from tests.usecases.committed import Committed
from tests.usecases.manifests import ROOT

URL, OTHER_URL = "https://receiver.test/all", "https://receiver.test/data"


def test_a_change_without_records_makes_no_event_and_the_next_one_covers_it(tmp_path: Path) -> None:
    memory = MemoryNode(tmp_path)
    entry, node = memory.add(ROOT), memory.node
    node.background.relay_outbox()
    began = node.datasets.head(entry).hash
    node.webhooks.subscribe(entry, url=URL, secret=None, by=node.operator)
    node.webhooks.subscribe(entry, by=node.operator, url=OTHER_URL, secret=None, moves=MoveOptions(only_with_data=True))
    push(memory, entry, 1)
    node.editing.set_info(entry, [SetInfo(description="Where buses are")], node.operator, seen=None)
    node.background.relay_outbox()
    push(memory, entry, 2)
    for _ in range(5):
        for delivery in node.background.due_deliveries("test", limit=8):
            node.background.deliver(delivery)
    every = [json.loads(each.body)["data"] for each in memory.webhooks.received if each.url == URL]
    filtered = [json.loads(each.body)["data"] for each in memory.webhooks.received if each.url == OTHER_URL]
    assert [each["records"] for each in every] == [1, 0, 1]
    assert [(each["sequence"], each["records"]) for each in filtered] == [(1, 1), (2, 1)]
    assert filtered[0]["oldHead"] == str(began)
    assert filtered[1]["oldHead"] == filtered[0]["newHead"] == every[0]["newHead"]
    assert filtered[1]["newHead"] == every[2]["newHead"]
    assert filtered[1]["blocks"] == every[1]["blocks"] + every[2]["blocks"]


@pytest.fixture
def committed(tmp_path: Path) -> Committed:
    made = Committed(tmp_path)
    made.commit([(A, "a", 1.0), (A, "b", 2.0)])
    made.memory.node.background.relay_outbox()
    return made


def follow(committed: Committed, moves: MoveOptions, **settings: int) -> Node:
    """A node with these settings, on which a webhook follows the dataset from now on."""
    memory = committed.memory
    node = Node(memory.node.ports, memory.settings.model_copy(update=settings))
    node.webhooks.subscribe(committed.entry, by=node.operator, url=URL, secret=None, moves=moves)
    return node


def received(committed: Committed, node: Node) -> list[dict[str, Any]]:
    """What the receiver has got, once everything is delivered."""
    while node.background.relay_outbox():
        pass
    while due := node.background.due_deliveries("test", limit=8):
        for delivery in due:
            node.background.deliver(delivery)
    events = [json.loads(each.body) for each in committed.memory.webhooks.received]
    for event in events:
        Draft202012Validator(event_schema(CATALOGUE[EventType.HEAD_MOVED])).validate(event)
    return [each["data"] for each in events]


def test_only_a_change_in_a_followed_column_makes_an_event(committed: Committed) -> None:
    node, began = follow(committed, MoveOptions(columns=frozenset({"value"}))), committed.heads[-1]
    committed.commit([(C_FROM, "a", 1.0), (C_TO, "c", 1.0)])
    committed.commit([])
    assert received(committed, node) == []
    committed.commit([(C_FROM, "b", 2.0), (C_TO, "d", 2.0), (C_FROM, "c", 1.0), (C_TO, "c", 3.0)])
    committed.commit([(C_FROM, "d", 2.0), (C_TO, "e", 2.0)])
    committed.commit([(R, "e", 2.0)])
    events = received(committed, node)
    assert [each["sequence"] for each in events] == [1, 2]
    assert [each["oldHead"] for each in events] == [str(began.hash), str(committed.heads[-3].hash)]
    assert [each["newHead"] for each in events] == [str(committed.heads[-3].hash), str(committed.heads[-1].hash)]
    assert [each["records"] for each in events] == [6, 3]


def test_a_change_that_is_too_large_to_be_compared_makes_an_event(committed: Committed) -> None:
    node = follow(committed, MoveOptions(columns=frozenset({"value"})), webhook_compared_bytes_max=100)
    committed.commit([(C_FROM, "a", 1.0), (C_TO, "c", 1.0)])
    assert len(received(committed, node)) == 1


@pytest.mark.parametrize(
    ("moves", "refused", "said"),
    [
        ({"columns": frozenset({"value", "prize"})}, "prize", "it has event_time, key, value"),
        ({"columns": frozenset({"Value"})}, "Value", "it has event_time, key, value"),
    ],
)
def test_a_column_that_is_not_there_is_refused(
    committed: Committed, moves: dict[str, Any], refused: str, said: str
) -> None:
    with pytest.raises(InvalidRequest, match=f"no column `{refused}`") as error:
        follow(committed, MoveOptions(**moves))
    assert (error.value.place.field, error.value.hint) == ("columns", said)


@pytest.mark.parametrize("wide", [{"columns": frozenset({"value"})}, {"with_rows": True}])
def test_filters_are_for_those_who_receive_head_moves(committed: Committed, wide: dict[str, Any]) -> None:
    node = committed.memory.node
    with pytest.raises(InvalidRequest) as error:
        node.webhooks.subscribe(
            committed.entry,
            by=node.operator,
            url=URL,
            secret=None,
            events=frozenset({EventType.SCHEMA_CHANGED}),
            moves=MoveOptions(**wide),
        )
    assert "`dataset.head-moved`" in str(error.value.hint)


@pytest.mark.parametrize("bytes_max", [1024, 2048, 4096, 262_144])
def test_an_event_carries_the_records_that_fit_and_says_where_the_others_begin(
    committed: Committed, bytes_max: int
) -> None:
    node = follow(
        committed, MoveOptions(only_with_data=True, with_rows=True), webhook_rows_bytes_max=bytes_max, fetch_rows_max=7
    )
    changes = [(A, f"key {number}", float(number)) for number in range(40)]
    for begin in (0, 10):
        committed.commit(changes[begin : begin + 10])
    committed.commit([])
    committed.commit([*changes[20:], (R, "a", 1.0), (C_FROM, "b", 2.0), (C_TO, "b", 3.0)])
    found: list[tuple[str, str, float]] = []
    for event in received(committed, node):
        assert sum(len(json.dumps(each)) for each in event["changes"]) <= bytes_max
        rows = [row for each in event["changes"] for row in each["rows"]]
        rows += rest(node, committed, event["next"], until=event["offsets"]["last"]) if event["next"] else []
        assert [row["offset"] for row in rows] == list(range(event["offsets"]["first"], event["offsets"]["last"] + 1))
        assert (event["links"].get("next") is None) == (event["next"] is None)
        found += [(row["op"], row["key"], row["value"]) for row in rows]
    assert found == [
        *(("append", key, value) for _, key, value in changes),
        ("retract", "a", 1.0),
        ("correct_from", "b", 2.0),
        ("correct_to", "b", 3.0),
    ]


def test_a_large_change_comes_with_the_first_of_its_records(committed: Committed) -> None:
    node = follow(committed, MoveOptions(with_rows=True), webhook_rows_bytes_max=8192)
    committed.commit([(A, "щ" * 20, float(number)) for number in range(200)])
    (event,) = received(committed, node)
    assert 4096 < sum(len(json.dumps(each)) for each in event["changes"]) <= 8192
    rows = [row for each in event["changes"] for row in each["rows"]]
    rows += rest(node, committed, event["next"], until=event["offsets"]["last"])
    assert [row["value"] for row in rows] == [float(number) for number in range(200)]


def rest(node: Node, committed: Committed, position: str, *, until: int) -> list[dict[str, Any]]:
    """Rows from a position to an offset, as streams give them."""
    rows: list[dict[str, Any]] = []
    while not rows or rows[-1]["offset"] < until:
        event, after = node.cursors.of(node.operator).read_at(committed.entry, position)
        assert event is not None
        rows += event["rows"]  # type: ignore[arg-type]
        position = str(after)
    return rows


def test_the_same_event_has_the_same_bytes_at_each_attempt(committed: Committed) -> None:
    node = follow(committed, MoveOptions(with_rows=True))
    committed.memory.webhooks.script.extend([WebhookResponse(503), WebhookResponse(503)])
    committed.commit([(A, "c", 3.0)])
    while node.background.relay_outbox():
        pass
    for _ in range(3):
        committed.memory.clock.advance(24 * 3_600_000)
        for delivery in node.background.due_deliveries("test", limit=8):
            node.background.deliver(delivery)
    bodies = [each.body for each in committed.memory.webhooks.received]
    assert len(bodies) == 3
    assert len(set(bodies)) == 1


def push(memory: MemoryNode, entry: CatalogEntry, day: int) -> None:
    row = json.dumps({"event_time": f"2026-01-{day:02}T00:00:00Z", "city": "A"}).encode()
    memory.node.requests.push(PushData(dataset=entry.id, body=iter([row])))
    memory.work()
