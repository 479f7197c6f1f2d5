"""Cursors over HTTP: each change exactly once, position stored with the data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from odfabric.settings import Settings
from odfabric.testing.memory_node import MemoryNode
from odfabric.wiring import Node
from tests.services.api.serving import serving, working
from tests.usecases.manifests import ROOT


def made(client: httpx.Client, memory: MemoryNode, name: str, *, rows: int = 2) -> str:
    """A dataset with a push of some rows; the path of its cursors."""
    memory.add(ROOT.replace("name: readings", f"name: {name}"))
    push(client, name, rows)
    return f"/local/{name}/cursors"


def push(client: httpx.Client, name: str, rows: int) -> None:
    lines = "".join(
        f'{{"event_time":"2026-01-01T00:00:00Z","city":"c{number}","value":{number}}}\n' for number in range(rows)
    )
    answer = client.post(f"/local/{name}/ingest", content=lines, headers={"content-type": "application/x-ndjson"})
    assert answer.status_code == 200, answer.text


def created(client: httpx.Client, path: str, consumer: str = "warehouse", **given: str) -> dict[str, Any]:
    answer = client.post(path, json={"consumer": consumer, **given})
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_a_baseline_then_changes_then_nothing(client: httpx.Client, memory: MemoryNode) -> None:
    path = made(client, memory, "consumed")
    cursor = created(client, path)
    assert cursor["mode"] == "baseline"
    fence = {"fence": cursor["fence"]}
    told = client.post(f"{path}/warehouse/fetch", json=fence).json()
    assert told["event"]["kind"] == "baseline"
    assert [row["city"] for row in told["event"]["rows"]] == ["c0", "c1"]
    assert client.post(f"{path}/warehouse/fetch", json=fence).json()["event"] == told["event"]
    acknowledged = client.post(f"{path}/warehouse/ack", json={**fence, "position": told["position"]})
    assert acknowledged.json()["mode"] == "listen"
    push(client, "consumed", 1)
    told = client.post(f"{path}/warehouse/fetch", json={**fence, "limit": 1}).json()
    assert told["event"]["block"] == client.get("/local/consumed/refs/head").text
    assert [(row["op"], row["offset"], row["city"]) for row in told["event"]["rows"]] == [("append", 2, "c0")]
    for _ in range(2):
        answer = client.post(f"{path}/warehouse/ack", json={**fence, "position": told["position"]})
        assert answer.json()["position"] == told["position"]
    assert client.post(f"{path}/warehouse/fetch", json=fence).json()["event"] is None


def test_a_stale_fence_is_told_what_to_do(client: httpx.Client, memory: MemoryNode) -> None:
    path = made(client, memory, "fenced")
    first = created(client, path, **{"from": "start"})
    assert client.post(f"{path}/warehouse/claim").status_code == 409
    second = client.post(f"{path}/warehouse/claim", json={"fence": first["fence"]}).json()
    assert second["fence"] != first["fence"]
    for verb, body in (("fetch", {}), ("ack", {"position": first["position"]}), ("claim", {})):
        answer = client.post(f"{path}/warehouse/{verb}", json={"fence": first["fence"], **body})
        assert (answer.status_code, answer.json()["code"]) == (409, "lease-lost")
        assert "claim it when the lease of its holder is over" in answer.json()["hint"]
    assert client.post(f"{path}/warehouse/fetch", json={"fence": second["fence"]}).status_code == 200


def test_cursors_are_listed_without_fences_and_deleted(client: httpx.Client, memory: MemoryNode) -> None:
    path = made(client, memory, "listed")
    fences = [created(client, path, name)["fence"] for name in ("b", "a")]
    listed = client.get(path)
    assert [cursor["consumer"] for cursor in listed.json()["cursors"]] == ["a", "b"]
    assert client.get(f"{path}/a").json() == listed.json()["cursors"][0]
    assert not any(fence in listed.text for fence in fences)
    assert client.delete(f"{path}/a").status_code == 204
    assert [client.request(verb, f"{path}/a").status_code for verb in ("GET", "DELETE")] == [404, 404]
    assert client.post(f"{path}/a/fetch", json={"fence": fences[1]}).status_code == 404


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "consumer"),
        ({"consumer": ""}, "consumer"),
        ({"consumer": 1}, "consumer"),
        ({"consumer": "x", "from": "later"}, "from"),
        ({"consumer": "x", "start": "now"}, "start"),
        ({"consumer": "x", "from": "x" * 101}, "from"),
    ],
)
def test_bad_wishes_are_refused(client: httpx.Client, memory: MemoryNode, body: dict[str, object], field: str) -> None:
    name = f"refused-{field}-{len(str(body))}"
    memory.add(ROOT.replace("name: readings", f"name: {name}"))
    answer = client.post(f"/local/{name}/cursors", json=body)
    assert (answer.status_code, answer.json()["field"]) == (400, field)


def test_names_positions_and_limits_are_refused(client: httpx.Client, memory: MemoryNode) -> None:
    path = made(client, memory, "strict")
    fence = {"fence": created(client, path)["fence"]}
    assert client.post(path, json={"consumer": "warehouse"}).status_code == 409
    assert client.post(path, json={"consumer": "a/b"}).json()["code"] == "invalid-name"
    assert client.get(f"{path}/a%00b").status_code == 400
    assert client.post(f"{path}/warehouse/ack", json={**fence, "position": "x"}).json()["field"] == "position"
    assert client.post(f"{path}/warehouse/ack", json={**fence, "position": "x" * 201}).status_code == 400
    too_many = client.post(f"{path}/warehouse/fetch", json={**fence, "limit": 10_001})
    assert (too_many.status_code, too_many.json()["limit"]) == (413, "fetch_rows_max")
    assert client.post(f"{path}/warehouse/fetch", json={**fence, "limit": 10_000}).status_code == 200
    assert client.post(f"{path}/warehouse/fetch", json={**fence, "limit": 0}).status_code == 400


def test_a_dataset_has_so_many_cursors_and_no_more(tmp_path: Path) -> None:
    memory = MemoryNode(tmp_path)
    memory.add(ROOT)
    node = Node(memory.node.ports, Settings(workspace=tmp_path, cursors_per_dataset_max=1))
    with serving(node) as served, working(node), served.client() as client:
        created(client, "/local/readings/cursors", "first")
        answer = client.post("/local/readings/cursors", json={"consumer": "second"})
        assert (answer.status_code, answer.json()["limit"]) == (429, "cursors_per_dataset_max")
