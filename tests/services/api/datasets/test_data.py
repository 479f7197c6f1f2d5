"""Pushing and reading over HTTP."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from odfabric.errors import Determinate
from odfabric.settings import Settings
from odfabric.testing.memory_node import MemoryNode
from odfabric.wiring import Node
from tests.services.api.intercepting import Around
from tests.services.api.serving import Served, serving, working
from tests.support.waiting import wait_until
from tests.usecases.manifests import DERIVED, ROOT

NDJSON = {"content-type": "application/x-ndjson"}


def row(day: int, city: str = "A") -> bytes:
    return b'{"event_time":"2026-01-%02dT00:00:00Z","city":"%s"}\n' % (day, city.encode())


def add(memory: MemoryNode, name: str) -> str:
    memory.add(ROOT.replace("name: readings", f"name: {name}"))
    return f"/local/{name}"


@pytest.fixture
def path(memory: MemoryNode, request: pytest.FixtureRequest) -> str:
    """Path of a dataset of this test's own."""
    return add(memory, "d-" + hashlib.sha256(request.node.name.encode()).hexdigest()[:16])


@pytest.fixture
def unattended(tmp_path: Path) -> Iterator[tuple[MemoryNode, httpx.Client]]:
    """A node for which nobody works."""
    memory = MemoryNode(tmp_path)
    memory.add(ROOT)
    with serving(memory.node) as served, served.client() as client:
        yield memory, client


def rows(client: httpx.Client, path: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = client.get(f"{path}/tail").json()["data"]
    return found


def test_a_push_answers_what_it_committed(client: httpx.Client, path: str) -> None:
    first = client.post(f"{path}/ingest", content=row(1) + row(2), headers=NDJSON)
    assert first.status_code == 200
    done = first.json()
    assert (done["rows"], done["offsets"], len(done["blocks"])) == (2, {"start": 0, "end": 1}, 2)
    assert done["head"] == done["blocks"][-1] == client.get(f"{path}/refs/head").text
    again = client.post(f"{path}/ingest", content=row(3)).json()
    assert (again["rows"], again["offsets"], len(again["blocks"])) == (1, {"start": 2, "end": 2}, 1)


def test_a_push_of_nothing_commits_nothing(client: httpx.Client, path: str) -> None:
    client.post(f"{path}/ingest", content=row(1))
    head = client.get(f"{path}/refs/head").text
    answer = client.post(f"{path}/ingest", content=b"", headers=NDJSON)
    changes = {"added": 0, "corrected": 0, "retracted": 0, "unchanged": 0}
    nothing = {"head": head, "blocks": [], "offsets": None, "rows": 0, "changes": changes}
    assert (answer.status_code, answer.json()) == (200, nothing)


LEDGER = ROOT.replace("{kind: Append}", "{kind: Ledger, primaryKey: [city]}")


def test_rows_that_a_ledger_leaves_out_are_counted(memory: MemoryNode, client: httpx.Client) -> None:
    memory.add(LEDGER.replace("name: readings", "name: kept"))
    first = client.post("/local/kept/ingest", content=row(1) + row(2, "B"), headers=NDJSON).json()
    assert first["changes"] == {"added": 2, "corrected": 0, "retracted": 0, "unchanged": 0}
    for key in ({}, {"idempotency-key": "said-twice"}, {"idempotency-key": "said-twice"}):
        again = client.post("/local/kept/ingest", content=row(3) + row(4), headers={**NDJSON, **key}).json()
        assert (again["rows"], again["changes"]["knownKeys"]) == (0, 2)


def test_a_push_is_tried_without_being_made(client: httpx.Client, path: str) -> None:
    client.post(f"{path}/ingest", content=row(1))
    head = client.get(f"{path}/refs/head").text
    tried = client.post(f"{path}/ingest?dryRun=true", content=row(2) + row(3), headers=NDJSON).json()
    assert (tried["rows"], tried["operations"], tried["changes"]["added"]) == (2, {"0": 2}, 2)
    assert [one["event_time"][:10] for one in tried["sample"]] == ["2026-01-02", "2026-01-03"]
    wrong = b'{"event_time":"yesterday","city":"A"}\n' * 2
    refused = client.post(f"{path}/ingest?dryRun=true", content=row(2) + wrong, headers=NDJSON)
    assert (refused.status_code, refused.json()["refusedCount"]) == (200, 2)
    assert [one["line"] for one in refused.json()["refused"]] == [2, 3]
    assert client.get(f"{path}/refs/head").text == head


def test_a_confirmation_is_true_or_false(client: httpx.Client, path: str) -> None:
    for said, status in (("true", 200), ("false", 200), ("perhaps", 400)):
        answer = client.post(f"{path}/ingest", content=row(1), headers={**NDJSON, "odf-allow-shrink": said})
        assert answer.status_code == status


def test_a_body_may_come_in_chunks(client: httpx.Client, path: str) -> None:
    assert client.post(f"{path}/ingest", content=iter([row(1)[:10], row(1)[10:], row(2)])).json()["rows"] == 2


def test_bad_data_is_told_with_its_place_and_writes_nothing(client: httpx.Client, path: str) -> None:
    head = client.get(f"{path}/refs/head").text
    answer = client.post(f"{path}/ingest", content=row(1) + b'{"event_time":"yesterday","city":"A"}\n')
    problem = answer.json()
    assert (answer.status_code, problem["code"], problem["status"]) == (422, "invalid-data", 422)
    assert (problem["line"], problem["field"]) == (2, "event_time")
    assert problem["errors"] == [{"file": "body", "line": 2, "field": "event_time", "message": problem["message"]}]
    assert client.get(f"{path}/refs/head").text == head


@pytest.mark.parametrize(
    ("params", "headers", "status", "code"),
    [
        ({"sourceName": "other"}, {}, 400, "source-not-found"),
        ({}, {"content-type": "image/png"}, 415, "unsupported-media-type"),
        ({}, {"content-type": "application/x-ndjson; charset=klingon"}, 415, "unsupported-media-type"),
        ({}, {"odf-event-time": "yesterday"}, 400, "invalid-request"),
        ({}, {"odf-event-time": "2026-13-01T00:00:00Z"}, 400, "invalid-request"),
        ({}, {"idempotency-key": ""}, 400, "invalid-request"),
        ({}, {"idempotency-key": "k" * 256}, 400, "invalid-request"),
        ({}, {"if-match": "*"}, 400, "invalid-request"),
        ({}, {"if-match": "x"}, 400, "invalid-name"),
        ({"uploadToken": "x"}, {}, 400, "invalid-request"),
        ({}, {"content-encoding": "gzip"}, 415, "unsupported-media-type"),
    ],
)
def test_a_wrong_push_is_refused(
    client: httpx.Client, path: str, params: dict[str, str], headers: dict[str, str], status: int, code: str
) -> None:
    answer = client.post(f"{path}/ingest", content=row(1), params=params, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert rows(client, path) == []


def test_a_source_may_be_named(client: httpx.Client, path: str) -> None:
    assert client.post(f"{path}/ingest", content=row(1), params={"sourceName": "default"}).json()["rows"] == 1


def test_rows_without_a_time_take_the_one_of_the_header(client: httpx.Client, memory: MemoryNode) -> None:
    optional = "{kind: Option, inner: Timestamp}"
    memory.add(ROOT.replace("name: readings", "name: timeless").replace("type: Timestamp", f"type: {optional}"))
    headers = {"odf-event-time": "2026-05-06T07:08:09+02:00"}
    client.post("/local/timeless/ingest", content=b'{"city":"A"}\n', headers=headers)
    assert rows(client, "/local/timeless")[0]["event_time"] == "2026-05-06T05:08:09Z"


def test_derived_datasets_take_no_push(client: httpx.Client, memory: MemoryNode) -> None:
    add(memory, "pushed-input")
    memory.add(DERIVED.replace("readings", "pushed-input").replace("name: copied", "name: not-pushed"))
    answer = client.post("/local/not-pushed/ingest", content=row(1))
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid-request")


# idempotency


def test_a_repeated_push_answers_as_the_first_time(client: httpx.Client, path: str) -> None:
    key = {"idempotency-key": "k-1"}
    first = client.post(f"{path}/ingest", content=row(1), headers=key)
    client.post(f"{path}/ingest", content=row(2))
    again = client.post(f"{path}/ingest", content=row(1), headers=key)
    assert (again.status_code, again.json()) == (200, first.json())
    assert len(rows(client, path)) == 2


def test_a_key_with_another_body_is_refused(client: httpx.Client, path: str) -> None:
    key = {"idempotency-key": "k-2"}
    client.post(f"{path}/ingest", content=row(1), headers=key)
    answer = client.post(f"{path}/ingest", content=row(2), headers=key)
    assert (answer.status_code, answer.json()["code"]) == (422, "idempotency-key-reused")


def test_a_key_is_bound_to_its_dataset_and_source(client: httpx.Client, memory: MemoryNode, path: str) -> None:
    key = {"idempotency-key": "k-3"}
    other = add(memory, "other-of-key")
    assert client.post(f"{path}/ingest", content=row(1), headers=key).json()["rows"] == 1
    assert client.post(f"{other}/ingest", content=row(2), headers=key).json()["rows"] == 1


def test_a_key_is_free_after_a_failure(client: httpx.Client, path: str) -> None:
    key = {"idempotency-key": "k-4"}
    assert client.post(f"{path}/ingest", content=b"no json", headers=key).status_code == 422
    assert client.post(f"{path}/ingest", content=row(1), headers=key).json()["rows"] == 1


def test_a_key_in_flight_is_one_push(served: Served, memory: MemoryNode, path: str) -> None:
    def push(_: int) -> dict[str, object]:
        with served.client() as client:
            answer: dict[str, object] = client.post(
                f"{path}/ingest", content=row(1), headers={"idempotency-key": "k-5"}
            ).json()
            return answer

    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(push, range(6)))
    assert all(answer == answers[0] for answer in answers)
    with served.client() as client:
        assert len(rows(client, path)) == 1


# conditions and waiting


def test_a_push_may_expect_a_head(client: httpx.Client, path: str) -> None:
    head = client.get(f"{path}/refs/head").headers["etag"]
    moved = client.post(f"{path}/ingest", content=row(1), headers={"if-match": head})
    assert moved.status_code == 200
    stale = client.post(f"{path}/ingest", content=row(2), headers={"if-match": head})
    problem = stale.json()
    assert (stale.status_code, problem["code"]) == (409, "head-moved")
    assert (problem["expected"], problem["actual"]) == (head.strip('"'), moved.json()["head"])
    assert len(rows(client, path)) == 1


def test_whoever_does_not_want_to_wait_is_told_the_job(unattended: tuple[MemoryNode, httpx.Client]) -> None:
    memory, client = unattended
    answer = client.post(
        "/local/readings/ingest", content=row(1), headers={"prefer": "handling=lenient, respond-async"}
    )
    assert answer.status_code == 202
    job = answer.json()["job"]
    assert job["status"] == "queued"
    assert answer.headers["location"] == f"/jobs/{job['id']}"
    assert answer.headers["preference-applied"] == "respond-async"
    memory.finish(memory.node.jobs.get(job["id"]))
    done = client.get(answer.headers["location"]).json()
    assert (done["status"], done["result"]["rows"]) == ("succeeded", 1)


@pytest.mark.parametrize("wish", ["wait=0", "wait=1"])
def test_whoever_waited_long_enough_is_told_the_job(unattended: tuple[MemoryNode, httpx.Client], wish: str) -> None:
    _, client = unattended
    answer = client.post("/local/readings/ingest", content=row(1), headers={"prefer": wish})
    assert answer.status_code == 202


def test_nobody_waits_longer_than_the_limit(tmp_path: Path) -> None:
    memory = MemoryNode(tmp_path)
    memory.add(ROOT)
    node = Node(memory.node.ports, Settings(workspace=tmp_path, push_wait_s_max=0.1))
    with serving(node) as served, served.client() as client:
        answer = client.post("/local/readings/ingest", content=row(1), headers={"prefer": "wait=600"})
        assert answer.status_code == 202
        assert "preference-applied" not in answer.headers


def test_a_wait_ends_with_the_commit(client: httpx.Client, path: str) -> None:
    answer = client.post(f"{path}/ingest", content=row(1), headers={"prefer": "wait=20"})
    assert (answer.status_code, answer.json()["rows"]) == (200, 1)


@pytest.mark.parametrize("whose", ["dataset", "account"])
def test_a_queue_that_is_full_takes_no_more_pushes(tmp_path: Path, whose: str) -> None:
    memory = MemoryNode(tmp_path)
    memory.settings = memory.settings.model_copy(update={f"pushes_queued_per_{whose}_max": 2})
    memory.restart()
    path = f"/{memory.add(ROOT).alias}/ingest"
    with serving(memory.node) as served, served.client() as client:
        asynchronously = {"prefer": "respond-async"}
        taken = [client.post(path, content=row(1), headers=asynchronously).status_code for _ in range(2)]
        refused = client.post(path, content=row(1), headers=asynchronously)
        assert taken == [202, 202]
        assert (refused.status_code, refused.json()["limit"]) == (429, f"pushes_queued_per_{whose}_max")
        assert int(refused.headers["retry-after"]) > 0
        for job in memory.node.ports.jobs.page(limit=10):
            memory.finish(job)
        assert client.post(path, content=row(1), headers=asynchronously).status_code == 202


def test_a_push_that_is_cancelled_while_it_waits_says_so(unattended: tuple[MemoryNode, httpx.Client]) -> None:
    memory, client = unattended
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.post, "/local/readings/ingest", content=row(1))
        (job,) = wait_until(lambda: memory.node.ports.jobs.page(unfinished_only=True, limit=2), what="the job")
        memory.node.jobs.cancel(job.id)
        answer = waiting.result(10)
    assert (answer.status_code, answer.json()["code"]) == (409, "cancelled")
    assert memory.node.jobs.lease("late") is None


def test_a_push_during_an_outage_succeeds_when_it_is_over(tmp_path: Path) -> None:
    """The engine fails twice; the client sees one answer."""
    around = Around()
    memory = MemoryNode(tmp_path, interceptor=around)
    memory.add(ROOT)
    failures = iter([1, 2])

    def fail() -> None:
        if next(failures, None):
            raise Determinate("the engine is not there")

    around.before["engine.ingest"] = fail
    with serving(memory.node) as served, working(memory.node), served.client() as client:
        assert client.post("/local/readings/ingest", content=row(1)).json()["rows"] == 1
        assert len(rows(client, "/local/readings")) == 1


# tail and metadata


@pytest.fixture(scope="module")
def filled(memory: MemoryNode, served: Served) -> str:
    path = add(memory, "filled")
    with served.client() as client:
        for day in range(1, 6):
            client.post(f"{path}/ingest", content=row(day, f"C{day}"))
    return path


@pytest.mark.parametrize(
    ("params", "cities"),
    [
        ({}, ["C1", "C2", "C3", "C4", "C5"]),
        ({"limit": "2"}, ["C4", "C5"]),
        ({"limit": "2", "skip": "1"}, ["C3", "C4"]),
        ({"limit": "0"}, []),
        ({"skip": "5"}, []),
        ({"skip": str(2**70)}, []),
    ],
)
def test_the_tail_counts_from_the_end(
    client: httpx.Client, filled: str, params: dict[str, str], cities: list[str]
) -> None:
    found = client.get(f"{filled}/tail", params=params).json()["data"]
    assert [entry["city"] for entry in found] == cities


@pytest.mark.parametrize(
    "params",
    [{"limit": "-1"}, {"skip": "-1"}, {"limit": "1.5"}, {"limit": ""}, {"dataFormat": "Csv"}, {"schemaFormat": "x"}],
)
def test_a_wrong_tail_is_refused(client: httpx.Client, filled: str, params: dict[str, str]) -> None:
    answer = client.get(f"{filled}/tail", params=params)
    assert (answer.status_code, answer.json()["field"]) == (400, next(iter(params)))


def test_the_tail_has_a_limit(client: httpx.Client, filled: str) -> None:
    assert client.get(f"{filled}/tail", params={"limit": "10000"}).status_code == 200
    answer = client.get(f"{filled}/tail", params={"limit": "10001"})
    assert (answer.status_code, answer.json()["limit"]) == (413, "tail_rows_max")


def test_the_tail_has_three_shapes_and_a_schema(client: httpx.Client, filled: str) -> None:
    params = {"limit": "2", "dataFormat": "json-soa", "schemaFormat": "odf-json"}
    found = client.get(f"{filled}/tail", params=params).json()
    assert (found["dataFormat"], found["data"]["city"]) == ("JsonSoA", ["C4", "C5"])
    assert (found["schemaFormat"], "city" in str(found["schema"])) == ("OdfJson", True)
    assert len(client.get(f"{filled}/tail", params={"dataFormat": "JsonAoA"}).json()["data"][0]) == 6


def test_an_empty_dataset_has_an_empty_tail(client: httpx.Client, path: str) -> None:
    assert client.get(f"{path}/tail").json() == {"data": [], "dataFormat": "JsonAoS"}


def test_metadata_has_the_seed_unless_other_parts_are_asked_for(client: httpx.Client, filled: str) -> None:
    assert list(client.get(f"{filled}/metadata").json()["output"]) == ["seed"]
    asked = client.get(f"{filled}/metadata", params={"include": "Refs, VOCAB,schema,info"}).json()["output"]
    assert set(asked) == {"refs", "vocab", "schema", "schemaFormat"}
    assert asked["refs"] == [{"name": "head", "blockHash": client.get(f"{filled}/refs/head").text}]


def test_an_unknown_part_is_refused(client: httpx.Client, filled: str) -> None:
    answer = client.get(f"{filled}/metadata", params={"include": "seed,secrets"})
    assert (answer.status_code, "secrets" in answer.json()["message"]) == (400, True)
