"""SQL over HTTP."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from odfabric.settings import Settings
from odfabric.testing.memory_node import MemoryNode
from odfabric.wiring import Node
from tests.services.api.intercepting import Around
from tests.services.api.serving import TOKEN, Served, serving
from tests.support.engines.pulsing_engine import PulsingEngine
from tests.support.waiting import wait_until
from tests.usecases.manifests import ROOT

ROWS = b"".join(
    b'{"event_time":"2026-01-0%dT00:00:00Z","city":"C%d","value":%d}\n' % (n, n, 2**62 + n) for n in range(1, 4)
)
SQL = "select * from readings"
MISSING_ID = "did:odf:fed01df230b49615d175307d580c33d6fda61fc7b9aec91df0f5c1a5ebe3b8cbfee02"


@dataclass(frozen=True, slots=True)
class Readings:
    """A dataset with three rows, and its head before they came."""

    id: str
    empty_head: str
    head: str


@pytest.fixture(scope="module")
def readings(memory: MemoryNode, served: Served) -> Readings:
    entry = memory.add(ROOT)
    empty_head = str(memory.node.datasets.head(entry).hash)
    with served.client() as client:
        head = client.post("/local/readings/ingest", content=ROWS).json()["head"]
    return Readings(str(entry.id), empty_head, head)


def cities(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 200
    return [entry["city"] for entry in answer.json()["output"]["data"]]


def test_a_query_gives_rows(client: httpx.Client, readings: Readings) -> None:
    answer = client.post("/query", json={"query": SQL})
    assert cities(answer) == ["C1", "C2", "C3"]
    output = answer.json()["output"]
    assert output["data"][0]["value"] == 2**62 + 1  # exact, though no float
    assert list(output) == ["data", "dataFormat"]
    assert "input" not in answer.json()


def test_a_query_in_the_address_is_the_same(client: httpx.Client, readings: Readings) -> None:
    posted = client.post("/query", json={"query": SQL, "skip": 1, "limit": 1, "dataFormat": "JsonAoA"})
    for name in ("dataFormat", "format"):
        params = {"query": SQL, "skip": "1", "limit": "1", name: "json-aoa"}
        assert client.get("/query", params=params).json() == posted.json()


def test_input_and_schema_are_told_when_asked_for(client: httpx.Client, readings: Readings) -> None:
    answer = client.get("/query", params={"query": SQL, "include": "input, Schema", "schemaFormat": "Parquet"}).json()
    assert answer["output"]["schema"].startswith("message")
    assert answer["input"]["datasets"] == [{"id": readings.id, "alias": "readings", "blockHash": readings.head}]


def test_a_dataset_may_be_pinned(client: httpx.Client, readings: Readings) -> None:
    def pinned(block_hash: str | None) -> httpx.Response:
        entry = {"id": readings.id, "alias": "readings", "blockHash": block_hash}
        return client.post("/query", json={"query": SQL, "datasets": [entry]})

    assert cities(pinned(None)) == ["C1", "C2", "C3"]
    assert cities(pinned(readings.head)) == ["C1", "C2", "C3"]
    assert cities(pinned(readings.empty_head)) == []
    assert pinned("f1620" + "0" * 64).status_code == 404
    assert pinned("x").status_code == 400


@pytest.mark.parametrize("escape", [b"\\ud800", b"\\udfff", b"\\ud800\\ud800", b"\\uDC00\\uD800"])
def test_half_a_surrogate_pair_is_no_text(client: httpx.Client, readings: Readings, escape: bytes) -> None:
    answer = client.post("/query", content=b'{"query":"select \'' + escape + b"'\"}")
    assert (answer.status_code, "surrogate" in answer.json()["message"]) == (400, True)
    whole = client.post("/query", content=b'{"query":"select \'\\ud83d\\ude00\'"}')
    assert whole.json()["code"] == "invalid-query"  # read as text, and then not to the engine's liking


def test_a_pinned_dataset_that_is_not_there_is_not_found(client: httpx.Client, readings: Readings) -> None:
    answer = client.post("/query", json={"query": SQL, "datasets": [{"id": MISSING_ID, "alias": "readings"}]})
    assert (answer.status_code, MISSING_ID in answer.json()["message"]) == (404, True)


def test_with_a_list_only_its_datasets_exist(client: httpx.Client, readings: Readings) -> None:
    answer = client.post("/query", json={"query": SQL, "datasets": []})
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid-query")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"query": 1},
        {"query": SQL, "queryDialect": "SqlOther"},
        {"query": SQL, "dataFormat": "Csv"},
        {"query": SQL, "schemaFormat": "Avro"},
        {"query": SQL, "include": ["Everything"]},
        {"query": SQL, "include": ["Proof"]},
        {"query": SQL, "include": "Input"},
        {"query": SQL, "limit": -1},
        {"query": SQL, "limit": 1.0},
        {"query": SQL, "limit": 2**63},
        {"query": SQL, "skip": -1},
        {"query": SQL, "skip": 2**63},
        {"query": SQL, "datasets": [{"id": "x", "alias": "readings"}]},
        {"query": SQL, "datasets": [{"alias": "readings"}]},
        {"query": SQL, "datasets": [{"id": MISSING_ID, "alias": "readings"}] * 101},
        {"query": SQL, "unknown": True},
        {"query": "drop table readings"},
        {"query": ""},
        {"query": "\x00"},
    ],
    ids=lambda body: str(body)[:60],
)
def test_a_wrong_query_is_a_bad_request(client: httpx.Client, readings: Readings, body: dict[str, object]) -> None:
    answer = client.post("/query", json=body)
    assert answer.status_code == 400
    assert answer.json()["code"] in ("invalid-request", "invalid-query", "invalid-name")


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"query": SQL, "limit": "x"},
        {"query": SQL, "datasets": "[]"},
        {"query": SQL, "queryDialect": "x"},
        {"query": SQL, "limit": str(2**63)},
    ],
)
def test_a_wrong_query_in_the_address_is_a_bad_request(
    client: httpx.Client, readings: Readings, params: dict[str, str]
) -> None:
    assert client.get("/query", params=params).status_code == 400


@pytest.mark.parametrize("path", ["/query", "/-/sql"])
def test_a_query_ends_when_its_client_leaves(tmp_path: Path, path: str) -> None:
    memory = MemoryNode(tmp_path)
    memory.add(ROOT)
    engine = PulsingEngine(memory.node.ports.exchange.root)
    memory.use_engine(engine)
    with serving(memory.node) as served, served.connect() as connection, served.client() as client:
        queries = served.app.state.capacity.queries
        body = b"query=" + SQL.replace(" ", "+").encode() if path == "/-/sql" else b'{"query":"%s"}' % SQL.encode()
        kind = "application/x-www-form-urlencoded" if path == "/-/sql" else "application/json"
        connection.sendall(
            f"POST {path} HTTP/1.1\r\nHost: {urlsplit(served.url).netloc}\r\nAuthorization: Bearer {TOKEN}\r\n"
            f"Content-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        wait_until(lambda: queries.taken == 1, what="the query")
        connection.close()
        wait_until(lambda: queries.taken == 0, what="the end of a query that nobody waits for")
        engine.release.set()
        assert client.post("/query", json={"query": SQL}).status_code == 200


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[tuple[Served, threading.Event]]:
    """Queries that end when they are asked to; two at once."""
    around, release = Around(), threading.Event()
    memory = MemoryNode(tmp_path, interceptor=around)
    memory.add(ROOT)
    around.before["engine.query"] = lambda: release.wait(20) and None
    node = Node(memory.node.ports, Settings(workspace=tmp_path, queries_at_once_max=2))
    with serving(node) as served:
        yield served, release
        release.set()


def test_slow_queries_take_their_own_places_only(slow: tuple[Served, threading.Event]) -> None:
    served, release = slow
    with ThreadPoolExecutor(2) as pool, served.client() as client:
        running = [pool.submit(client.post, "/query", json={"query": SQL}) for _ in range(2)]
        wait_until(lambda: served.app.state.capacity.queries.taken == 2, what="the slow queries")
        refused = client.post("/query", json={"query": SQL})
        assert (refused.status_code, refused.json()["limit"]) == (429, "queries_at_once_max")
        assert client.get("/local/readings/tail").status_code == 200
        release.set()
        assert [answer.result(10).status_code for answer in running] == [200, 200]
        assert client.post("/query", json={"query": SQL}).status_code == 200


def test_a_query_is_at_a_moment(client: httpx.Client, readings: Readings) -> None:
    time = "2026-01-02T00:00:00Z"
    assert cities(client.post("/query", json={"query": SQL, "asOf": time})) == ["C1", "C2"]
    assert cities(client.get("/query", params={"query": SQL, "asAt": readings.empty_head})) == []
    answer = client.get("/query", params={"query": f"select * from as_of('readings', '{time}')", "include": "Input"})
    assert cities(answer) == ["C1", "C2"]
    read = answer.json()["input"]
    assert read["tableFunctions"] == [
        {"call": f"as_of('readings', '{time}')", "id": readings.id, "blockHash": readings.head}
    ]
    again = client.post("/query", json={key: value for key, value in read.items() if key != "tableFunctions"})
    assert cities(again) == ["C1", "C2"]


def test_moments_that_are_none_are_refused(client: httpx.Client, readings: Readings) -> None:
    for params, status in (({"asAt": "2026"}, 404), ({"asAt": "2026-01"}, 400), ({"asOf": readings.head}, 400)):
        answer = client.get("/query", params={"query": SQL, **params})
        assert answer.status_code == status
        assert "2026-01-31T12:00:00Z" in answer.text
    answer = client.get("/query", params={"query": "select * from as_of('hidden', '2026-01-01T00:00:00Z')"})
    assert answer.status_code == 400
    assert "dataset not found: hidden" in answer.text
