"""Webhooks over HTTP: the secret is shown once."""

from __future__ import annotations

import base64
from pathlib import Path

import httpx
import pytest

from odfabric.settings import Settings
from odfabric.testing.memory_node import MemoryNode
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


def test_every_commit_is_in_the_delivery_log(client: httpx.Client, memory: MemoryNode) -> None:
    path = add(memory, "logged")
    made = client.post(path, json={"url": URL}).json()
    log = f"{path}/{made['id']}/deliveries"
    assert client.get(log).json() == {"deliveries": []}
    head = client.post("/local/logged/ingest", content=ROWS).json()["head"]
    memory.node.relay_outbox()
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
