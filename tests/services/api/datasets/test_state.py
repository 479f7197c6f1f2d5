"""The state of a dataset over HTTP: as of a block, at a time, in portions."""

from __future__ import annotations

import httpx
import pytest

from odfabric.testing.memory_node import MemoryNode
from tests.usecases.manifests import ROOT

LEDGER = ROOT.replace("merge: {kind: Append}", "merge: {kind: Ledger, primaryKey: [city]}")


@pytest.fixture(scope="module")
def filled(memory: MemoryNode) -> str:
    memory.add(LEDGER)
    return "/local/readings"


@pytest.fixture
def heads(client: httpx.Client, filled: str) -> list[str]:
    """The heads after each of two pushes, which are made once."""
    found = []
    for city in "BA":
        line = f'{{"event_time":"2026-01-01T00:00:00Z","city":"{city}","value":1}}\n'
        headers = {"content-type": "application/x-ndjson", "idempotency-key": city}
        found.append(client.post(f"{filled}/ingest", content=line, headers=headers).json()["head"])
    return found


def cities(client: httpx.Client, path: str, **params: str) -> list[str]:
    answer = client.get(path, params=params)
    assert answer.status_code == 200, answer.text
    return [row["city"] for row in answer.json()["data"]]


def test_a_state_is_as_of_a_block_or_the_head(client: httpx.Client, filled: str, heads: list[str]) -> None:
    assert cities(client, f"{filled}/state") == ["A", "B"]
    assert cities(client, f"{filled}/state", asOfBlock=heads[0]) == ["B"]
    found = client.get(
        f"{filled}/state", params={"asOfBlock": heads[1], "limit": "1", "schemaFormat": "OdfJson"}
    ).json()
    assert (found["block"], found["rows"], found["source"]) == (heads[1], 2, "chain")
    assert list(found["data"][0]) == ["event_time", "city", "value"]
    assert "city" in str(found["schema"])
    assert cities(client, f"{filled}/state", skip="1") == ["B"]


def test_a_state_is_at_a_time(client: httpx.Client, filled: str, heads: list[str]) -> None:
    first = client.get(f"{filled}/state", params={"asOfBlock": heads[0]}).json()
    found = client.get(f"{filled}/state", params={"asAt": first["systemTime"]}).json()
    assert (found["block"], found["sequenceNumber"]) == (heads[0], first["sequenceNumber"])


def test_a_moment_is_a_block_or_a_time_and_what_held_then(client: httpx.Client, filled: str, heads: list[str]) -> None:
    assert cities(client, f"{filled}/state", asAt=heads[0]) == ["B"]
    found = client.get(f"{filled}/state", params={"asOf": "2026-01-01T01:00:00+01:00"}).json()
    assert (found["asOf"], found["rows"]) == ("2026-01-01T00:00:00Z", 2)
    assert cities(client, f"{filled}/state", asAt=heads[0], asOf="2026-01-01T00:00:00Z") == ["B"]
    number = client.get(f"{filled}/state", params={"asAt": heads[0]}).json()["sequenceNumber"]
    for written in (f"{number}", f"#{number}"):
        assert client.get(f"{filled}/state", params={"asAt": written}).json()["block"] == heads[0]
    assert cities(client, f"{filled}/state", asOf="2025-12-31T23:59:59.999Z") == []


def test_the_tail_is_as_known_then(client: httpx.Client, filled: str, heads: list[str]) -> None:
    assert cities(client, f"{filled}/tail") == ["B", "A"]
    found = client.get(f"{filled}/tail", params={"asAt": heads[0]}).json()
    assert found["block"] == heads[0]
    assert [row["city"] for row in found["data"]] == ["B"]
    refused = client.get(f"{filled}/tail", params={"asAt": "yesterday"})
    assert refused.status_code == 400
    assert "RFC 3339" in refused.text
    assert "f1620.." in refused.text


@pytest.mark.parametrize(
    ("params", "status"),
    [
        ({"asAt": "yesterday"}, 400),
        ({"asAt": "1970-01-01T00:00:00Z"}, 404),
        ({"asAt": "99"}, 404),
        ({"asAt": "1234567890123"}, 400),
        ({"asAt": "-1"}, 400),
        ({"asOfBlock": "nothing"}, 400),
        ({"asOfBlock": "f1620" + "0" * 64}, 404),
        ({"asAt": "2030-01-01T00:00:00Z", "asOfBlock": "f1620" + "0" * 64}, 400),
        ({"asAt": "f1620" + "0" * 64}, 404),
        ({"asOf": "2030"}, 400),
        ({"asOf": "f1620" + "0" * 64}, 400),
        ({"limit": "10001"}, 413),
        ({"skip": "-1"}, 400),
        ({"dataFormat": "Csv"}, 400),
    ],
)
def test_what_cannot_be_told_is_refused(client: httpx.Client, filled: str, params: dict[str, str], status: int) -> None:
    assert client.get(f"{filled}/state", params=params).status_code == status
