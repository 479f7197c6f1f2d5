"""Subscriptions that want events only for changes that bring records."""

from __future__ import annotations

import json
from pathlib import Path

from odfabric.model.commit import CatalogEntry
from odfabric.model.metadata import SetInfo
from odfabric.testing.memory_node import MemoryNode
from odfabric.usecases.push_data import PushData
from tests.usecases.manifests import ROOT

URL, OTHER_URL = "https://receiver.test/all", "https://receiver.test/data"


def test_a_change_without_records_makes_no_event_and_the_next_one_covers_it(tmp_path: Path) -> None:
    memory = MemoryNode(tmp_path)
    entry, node = memory.add(ROOT), memory.node
    node.relay_outbox()
    began = node.head(entry).hash
    node.subscribe(entry, url=URL, secret=None)
    node.webhooks.subscribe(entry, by=node.operator, url=OTHER_URL, secret=None, only_with_data=True)
    push(memory, entry, 1)
    node.editing.set_info(entry, [SetInfo(description="Where buses are")], node.operator, seen=None)
    node.relay_outbox()
    push(memory, entry, 2)
    for _ in range(5):
        for delivery in node.due_deliveries("test", limit=8):
            node.deliver(delivery)
    every = [json.loads(each.body)["data"] for each in memory.webhooks.received if each.url == URL]
    filtered = [json.loads(each.body)["data"] for each in memory.webhooks.received if each.url == OTHER_URL]
    assert [each["records"] for each in every] == [1, 0, 1]
    assert [(each["sequence"], each["records"]) for each in filtered] == [(1, 1), (2, 1)]
    assert filtered[0]["oldHead"] == str(began)
    assert filtered[1]["oldHead"] == filtered[0]["newHead"] == every[0]["newHead"]
    assert filtered[1]["newHead"] == every[2]["newHead"]
    assert filtered[1]["blocks"] == every[1]["blocks"] + every[2]["blocks"]


def push(memory: MemoryNode, entry: CatalogEntry, day: int) -> None:
    row = json.dumps({"event_time": f"2026-01-{day:02}T00:00:00Z", "city": "A"}).encode()
    memory.node.accept_push(PushData(dataset=entry.id, body=iter([row])))
    memory.work()
