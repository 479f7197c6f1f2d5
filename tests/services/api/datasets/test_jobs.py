"""Pull, verify, and the jobs that do it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from odfabric.testing.memory_node import START, MemoryNode
from tests.services.api.documented import check_documented
from tests.services.api.serving import serving
from tests.support.waiting import wait_until
from tests.usecases.manifests import DERIVED, POLLED, ROOT

ROWS = b'{"event_time":"2026-01-01T00:00:00Z","city":"A"}\n'


@pytest.fixture
def unattended(tmp_path: Path) -> Iterator[tuple[MemoryNode, httpx.Client]]:
    """A node for which nobody works."""
    memory = MemoryNode(tmp_path)
    memory.add(ROOT)
    with serving(memory.node) as served, served.client() as client:
        client.event_hooks = {"response": [check_documented(served.app)]}
        yield memory, client


def finished(client: httpx.Client, answer: httpx.Response) -> dict[str, object]:
    assert answer.status_code == 202
    location = answer.headers["location"]

    def ended() -> dict[str, object] | None:
        job: dict[str, object] = client.get(location).json()
        return job if job["status"] in ("succeeded", "failed", "cancelled") else None

    found = wait_until(ended, what="the job")
    assert found is not None
    return found


def test_a_derived_dataset_is_brought_up_to_date(client: httpx.Client, memory: MemoryNode) -> None:
    memory.add(ROOT)
    memory.add(DERIVED)
    client.post("/local/readings/ingest", content=ROWS)
    job = finished(client, client.post("/local/copied/pull", json={}))
    assert job["status"] == "succeeded"
    result = job["result"]
    assert isinstance(result, dict)
    assert (result["alias"], result["rows"], result["upToDate"]) == ("local/copied", 1, False)
    again = finished(client, client.post("/local/copied/pull"))["result"]
    assert isinstance(again, dict)
    assert again["upToDate"] is True


def test_a_pull_polls_a_source(client: httpx.Client, memory: MemoryNode) -> None:
    memory.add(POLLED)
    memory.files.add("arrivals/one.ndjson", ROWS, modified_at=START)
    result = finished(client, client.post("/local/polled/pull", json={"fetchUncacheable": True}))["result"]
    assert isinstance(result, dict)
    assert result["rows"] == 1


def test_a_pull_that_fails_tells_why(client: httpx.Client) -> None:
    job = finished(client, client.post("/local/fetched/pull", json={"url": "https://elsewhere.invalid/x"}))
    assert job["status"] == "failed"
    error = job["error"]
    assert isinstance(error, dict)
    assert error["type"].startswith("https://odfabric.dev/problems/")


def test_a_pull_of_nothing_is_not_found(client: httpx.Client) -> None:
    answer = client.post("/local/nothing/pull", json={})
    assert (answer.status_code, answer.json()["code"]) == (404, "not-found")


def test_copies_are_made_under_accounts_that_are_there(client: httpx.Client) -> None:
    answer = client.post("/other/copy/pull", json={"url": "https://node.example/a/b"})
    assert (answer.status_code, answer.json()["message"]) == (404, "account not found: other")


@pytest.mark.parametrize(
    "body",
    [
        b"[]",
        b"null",
        b"1",
        b"{",
        b'{"unknown":1}',
        b'{"recursive":"yes"}',
        b'{"recursive":1}',
        b'{"url":"","recursive":true}',
        b'{"url":7}',
        b'{"url":"a","url":"b"}',
        b'{"fetch_uncacheable":true}',
        b'{"recursive":NaN}',
        b'{"url":"\\ud800"}',
        b"\xff",
        b"\xef\xbb\xbf{}",
        b" ",
        b'{"url":"' + b"a" * 2001 + b'"}',
        b"[" * 200_000,
        b'{"a":' * 150 + b"1" + b"}" * 150,
        b'{"recursive":' + b"9" * 5000 + b"}",
    ],
    ids=lambda body: repr(body[:24]),
)
def test_a_wrong_body_is_refused_before_anything_is_queued(
    client: httpx.Client, memory: MemoryNode, body: bytes
) -> None:
    answer = client.post("/local/readings/pull", content=body, headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid-request")
    problem = answer.json()
    assert "field" in problem
    assert not problem["message"].startswith(f"{problem['field']}: ")


def test_json_may_be_nested_as_deep_as_the_limit(client: httpx.Client) -> None:
    for depth, message in ((99, "unknown member `a`"), (100, "deeper than 100")):
        body = b'{"a":' + b"[" * depth + b"]" * depth + b"}"
        answer = client.post("/local/readings/pull", content=body)
        assert message in answer.json()["message"]


@pytest.mark.parametrize(
    "media_type", ["text/plain", "application/x-www-form-urlencoded", "application/json; charset=utf-16"]
)
def test_json_is_called_json(client: httpx.Client, memory: MemoryNode, media_type: str) -> None:
    name = f"called-{len(media_type)}"
    memory.add(ROOT.replace("name: readings", f"name: {name}"))
    answer = client.post(f"/local/{name}/verify", content=b"{}", headers={"content-type": media_type})
    assert (answer.status_code, answer.json()["code"]) == (415, "unsupported-media-type")
    assert "hint" in answer.json()


def test_the_same_pull_twice_is_one_job(unattended: tuple[MemoryNode, httpx.Client]) -> None:
    _, client = unattended
    first, second = (client.post("/local/readings/pull", json={}).json()["job"]["id"] for _ in range(2))
    assert first == second


def test_a_good_dataset_verifies(client: httpx.Client, memory: MemoryNode) -> None:
    memory.add(ROOT.replace("name: readings", "name: good"))
    client.post("/local/good/ingest", content=ROWS)
    assert finished(client, client.post("/local/good/verify"))["result"] == {"ok": True, "errors": []}


def test_a_damaged_dataset_names_the_object(client: httpx.Client, memory: MemoryNode) -> None:
    entry = memory.add(ROOT.replace("name: readings", "name: damaged"))
    client.post("/local/damaged/ingest", content=ROWS)
    key = next(iter(memory.objects.keys(f"{entry.id.multibase}/data/")))
    memory.objects.delete(key)
    job = finished(client, client.post("/local/damaged/verify", json={"replay": False}))
    result = job["result"]
    assert isinstance(result, dict)
    assert (job["status"], result["ok"]) == ("succeeded", False)
    assert result["errors"][0]["object"] == key.rpartition("/")[2]


def test_verify_is_for_those_who_may_read(client: httpx.Client) -> None:
    assert client.post("/local/nothing/verify").status_code == 404


def test_a_job_is_told_as_it_is(unattended: tuple[MemoryNode, httpx.Client]) -> None:
    _, client = unattended
    accepted = client.post("/local/readings/verify").json()["job"]
    job = client.get(f"/jobs/{accepted['id']}").json()
    assert (job["id"], job["kind"], job["status"], job["attempts"]) == (accepted["id"], "verify", "queued", 0)
    assert (job["progress"], job["result"], job["error"]) == (None, None, None)


def test_a_job_is_cancelled_once(unattended: tuple[MemoryNode, httpx.Client]) -> None:
    memory, client = unattended
    path = client.post("/local/readings/verify").headers["location"]
    assert client.delete(path).json()["status"] == "cancelled"
    assert client.delete(path).json()["status"] == "cancelled"
    assert memory.node.jobs.lease("late") is None


def test_a_finished_job_is_not_cancelled(client: httpx.Client, memory: MemoryNode) -> None:
    memory.add(ROOT.replace("name: readings", "name: finished"))
    answer = client.post("/local/finished/verify")
    finished(client, answer)
    assert client.delete(answer.headers["location"]).json()["status"] == "succeeded"


@pytest.mark.parametrize("job_id", ["0" * 32, "x", "%0A", "a" * 3000, "'%20or%201=1", "..%2e"])
def test_a_job_that_is_not_there_is_not_found(client: httpx.Client, job_id: str) -> None:
    assert client.get(f"/jobs/{job_id}").status_code == 404
    assert client.delete(f"/jobs/{job_id}").status_code == 404
