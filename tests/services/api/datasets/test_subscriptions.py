"""Webhooks over HTTP: the secret is shown once."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import httpx
import pytest

from odfabric.model.identity import DatasetAlias, Name
from odfabric.model.jobs.job import Job
from odfabric.model.subscriptions.subscription import WebhookResponse
from odfabric.settings import Settings
from odfabric.testing.memory_node import MemoryNode
from odfabric.usecases.ingestion.push_data import PushData
from odfabric.wiring import Node
from tests.services.api.serving import serving
from tests.usecases.manifests import ROOT

ROWS = b'{"event_time":"2026-01-01T00:00:00Z","city":"A"}\n'
URL = "https://receiver.example/hook"
SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()


def add(memory: MemoryNode, name: str) -> str:
    memory.add(ROOT.replace("name: readings", f"name: {name}"))
    return f"/local/{name}/subscriptions"


def test_a_subscription_shows_its_secret_once(client: httpx.Client, memory: MemoryNode) -> None:
    path = add(memory, "secretive")
    answer = client.post(path, json={"url": URL})
    assert answer.status_code == 201
    assert answer.headers["cache-control"] == "no-store"
    made = answer.json()
    assert made["secret"].startswith("whsec_")
    assert made["createdAtHead"] == client.get("/local/secretive/refs/head").text
    listed = client.get(path)
    assert [entry["id"] for entry in listed.json()["subscriptions"]] == [made["id"]]
    assert "secret" not in listed.text
    assert made["secret"] not in listed.text


def test_a_secret_may_be_brought(client: httpx.Client, memory: MemoryNode) -> None:
    path = add(memory, "brought")
    assert client.post(path, json={"url": URL, "secret": SECRET}).json()["secret"] == SECRET
    other = client.post(path, json={"url": URL, "secret": None}).json()["secret"]
    assert other != SECRET


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "url"),
        ({"url": ""}, "url"),
        ({"url": 1}, "url"),
        ({"url": "https://a.example/" + "a" * 2048}, "url"),
        ({"url": URL, "secret": "whsec_c2hvcnQ="}, "secret"),
        ({"url": URL, "secret": "whatever"}, "secret"),
        ({"url": URL, "secret": "whsec_" + "A" * 300}, "secret"),
        ({"url": URL, "events": []}, "events"),
        ({"url": URL, "columns": ["city"]}, "columns"),
        ({"url": URL, "columns": "city"}, "columns"),
        ({"url": URL, "columns": ["x"] * 101}, "columns"),
        ({"url": URL, "rows": "yes"}, "rows"),
        ({"url": URL, "rows": True, "format": "kamu"}, "rows"),
        ({"url": URL, "rows": True, "events": ["dataset.info-changed"]}, "events"),
    ],
)
def test_a_wrong_subscription_is_refused(
    client: httpx.Client, memory: MemoryNode, body: dict[str, object], field: str, request: pytest.FixtureRequest
) -> None:
    path = add(memory, f"wrong{request.node.name.translate({ord(c): '' for c in '[]-_{}'})}"[:60])
    answer = client.post(path, json=body)
    assert (answer.status_code, answer.json()["field"]) == (400, field)
    assert str(body.get("secret", "no such text")) not in answer.text
    assert client.get(path).json() == {"subscriptions": []}


@pytest.mark.parametrize("url", ["ftp://a.example/", "no url", "file:///etc/passwd"])
def test_a_url_that_is_no_web_address_is_refused(client: httpx.Client, memory: MemoryNode, url: str) -> None:
    path = add(memory, "web" + "".join(character for character in url if character.isalnum()))
    assert client.post(path, json={"url": url}).status_code in (400, 403)


def test_the_changed_records_come_with_the_event(client: httpx.Client, memory: MemoryNode) -> None:
    path = add(memory, "carried")
    push(memory, "carried")
    made = client.post(path, json={"url": URL, "columns": ["city"], "rows": True}).json()
    assert (made["columns"], made["rows"], made["onlyWithData"]) == (["city"], True, False)
    push(memory, "carried")
    while memory.node.background.relay_outbox():
        pass
    for delivery in memory.node.background.due_deliveries("test", limit=50):
        memory.node.background.deliver(delivery)
    bodies = [json.loads(each.body)["data"] for each in memory.webhooks.received]
    (event,) = [each for each in bodies if each["subscriptionId"] == made["id"]]
    (changes,) = event["changes"]
    assert [(row["op"], row["city"], row["offset"]) for row in changes["rows"]] == [("append", "A", 1)]
    assert (changes["block"], event["next"]) == (event["newHead"], None)
    unknown = client.post(path, json={"url": URL, "columns": ["town"]})
    assert unknown.status_code == 400
    assert unknown.json()["hint"] == "it has event_time, city, value"


def push(memory: MemoryNode, name: str) -> None:
    entry = memory.node.datasets.resolve(DatasetAlias(None, Name(name)))
    job = memory.node.requests.push(PushData(dataset=entry.id, body=iter([ROWS])))
    assert isinstance(job, Job)
    memory.finish(job)


def test_every_commit_is_in_the_delivery_log(client: httpx.Client, memory: MemoryNode) -> None:
    path = add(memory, "logged")
    made = client.post(path, json={"url": URL}).json()
    log = f"{path}/{made['id']}/deliveries"
    assert client.get(log).json() == {"deliveries": []}
    head = client.post("/local/logged/ingest", content=ROWS).json()["head"]
    memory.node.background.relay_outbox()
    (pending,) = client.get(log).json()["deliveries"]
    assert (pending["sequence"], pending["newHead"], pending["status"], pending["attempts"]) == (1, head, "pending", 0)


def test_a_subscription_ends(client: httpx.Client, memory: MemoryNode) -> None:
    path = add(memory, "ending")
    made = client.post(path, json={"url": URL}).json()
    assert client.delete(f"{path}/{made['id']}").status_code == 204
    assert client.get(path).json() == {"subscriptions": []}
    assert client.delete(f"{path}/{made['id']}").status_code == 404
    assert client.get(f"{path}/{made['id']}/deliveries").status_code == 404


def test_a_subscription_is_reached_through_its_dataset_only(client: httpx.Client, memory: MemoryNode) -> None:
    mine, other = add(memory, "mine"), add(memory, "somebodys")
    made = client.post(mine, json={"url": URL}).json()
    assert client.delete(f"{other}/{made['id']}").status_code == 404
    assert client.get(f"{other}/{made['id']}/deliveries").status_code == 404
    assert len(client.get(mine).json()["subscriptions"]) == 1


def test_a_dataset_has_so_many_subscriptions_and_no_more(tmp_path: Path) -> None:
    memory = MemoryNode(tmp_path)
    path = add(memory, "popular")
    node = Node(memory.node.ports, Settings(workspace=tmp_path, subscriptions_per_dataset_max=2))
    with serving(node) as served, served.client() as client:
        assert [client.post(path, json={"url": URL}).status_code for _ in range(3)] == [201, 201, 429]
        assert client.post(path, json={"url": URL}).json()["limit"] == "subscriptions_per_dataset_max"


def made_and_delivered(client: httpx.Client, memory: MemoryNode, name: str) -> str:
    """A subscription whose first event has been delivered."""
    path = add(memory, name)
    one = f"{path}/{client.post(path, json={'url': URL}).json()['id']}"
    client.post(f"/local/{name}/ingest", content=ROWS)
    deliver(memory)
    return one


def deliver(memory: MemoryNode) -> None:
    memory.node.background.relay_outbox()
    for delivery in memory.node.background.due_deliveries("test", limit=8):
        memory.node.background.deliver(delivery)


def test_a_subscription_is_paused_and_resumed(client: httpx.Client, memory: MemoryNode) -> None:
    one = made_and_delivered(client, memory, "pausing")
    assert client.get(one).json()["state"] == "active"
    assert client.post(f"{one}/pause").json()["state"] == "paused"
    assert client.get(one).json()["state"] == "paused"
    assert client.post(f"{one}/resume").json()["state"] == "active"


def test_a_new_secret_is_shown_once(client: httpx.Client, memory: MemoryNode) -> None:
    one = made_and_delivered(client, memory, "rotating")
    answer = client.post(f"{one}/rotate-secret", json={"secret": SECRET, "overlapSeconds": 60})
    assert (answer.status_code, answer.json()["secret"]) == (200, SECRET)
    assert answer.json()["oldSecretUntil"] > str(memory.clock.now())
    assert SECRET not in client.get(one).text
    assert client.post(f"{one}/rotate-secret", json={}).json()["secret"] != SECRET
    for wrong in ({"overlapSeconds": -1}, {"overlapSeconds": 10**9}, {"secret": "weak"}, {"overlap": 1}):
        assert client.post(f"{one}/rotate-secret", json=wrong).status_code == 400


def test_the_receiver_is_tried(client: httpx.Client, memory: MemoryNode) -> None:
    one = made_and_delivered(client, memory, "trying")
    memory.webhooks.script.append(WebhookResponse(404, excerpt="not here"))
    tried = client.post(f"{one}/test").json()
    assert (tried["statusCode"], tried["failure"], tried["response"]) == (404, "status", "not here")
    assert tried["error"] == "the receiver answered 404"
    assert client.post(f"{one}/test").json()["failure"] is None


def test_a_delivery_is_shown_and_replayed(client: httpx.Client, memory: MemoryNode) -> None:
    one = made_and_delivered(client, memory, "replaying")
    (listed,) = client.get(f"{one}/deliveries").json()["deliveries"]
    path = f"{one}/deliveries/{listed['id']}"
    shown = client.get(path).json()
    (attempt,) = shown.pop("attemptLog")
    assert shown == listed
    assert (attempt["number"], attempt["statusCode"], attempt["failure"]) == (1, 204, None)
    assert json.loads(attempt["requestBody"])["id"] == listed["id"]
    assert client.post(f"{path}/replay").json() == {"replayed": 1}
    assert client.get(path).json()["status"] == "pending"
    deliver(memory)
    assert client.post(f"{one}/replay", json={"fromSequence": 1}).json() == {"replayed": 1}
    assert client.post(f"{one}/replay", json={"failed": True}).json() == {"replayed": 0}
    for wrong in ({}, {"fromSequence": 0}, {"fromSequence": 1, "failed": True}):
        assert client.post(f"{one}/replay", json=wrong).status_code == 400
    assert client.get(f"{one}/deliveries/none").status_code == 404
    assert client.post(f"{one}/deliveries/none/replay").status_code == 404


def test_a_subscription_may_have_the_form_of_the_reference(client: httpx.Client, memory: MemoryNode) -> None:
    path = add(memory, "referring")
    made = client.post(path, json={"url": URL, "format": "kamu"}).json()
    assert (made["format"], len(bytes.fromhex(made["secret"]))) == ("kamu", 32)
    assert client.post(path, json={"url": URL}).json()["format"] == "cloudevents"
    assert client.post(path, json={"url": URL, "format": "other"}).status_code == 400
