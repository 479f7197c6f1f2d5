"""Why records are there, over HTTP: through datasets, in pages, by rights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from odfabric.model.jobs.job import Job, JobStatus
from odfabric.model.jobs.requests import PullRequest
from odfabric.model.people.account import DatasetRole
from odfabric.model.why_request import WhyRequest
from odfabric.testing.memory_node import MemoryNode
from odfabric.usecases.ingestion.push_data import PushData
from tests.services.api.datasets.test_jobs import finished
from tests.services.api.people import People
from tests.usecases.manifests import ROOT
from tests.usecases.test_ask_why import OTHER, copy_of


@pytest.fixture(scope="module")
def derived(memory: MemoryNode) -> str:
    """A copy of a root with three rows of one push."""
    memory.add(ROOT)
    memory.add(OTHER)
    return str(memory.add(copy_of("readings", "copied")).alias)


@pytest.fixture
def filled(memory: MemoryNode, client: httpx.Client, derived: str) -> str:
    body = "".join(f'{{"event_time":"2026-01-01T00:00:00Z","city":"{city}","value":1}}\n' for city in "ABC")
    headers = {"content-type": "application/x-ndjson", "idempotency-key": "once"}
    for root in ("readings", "others"):
        assert client.post(f"/local/{root}/ingest", content=body, headers=headers).status_code == 200
    answer = client.post(f"/{derived}/pull", json={})
    if answer.status_code == 202:
        finished(client, answer)
    return f"/{derived}/why"


def test_a_record_is_explained(client: httpx.Client, filled: str) -> None:
    answer = client.get(filled, params={"offset": "1", "values": "true", "columns": "city"})
    assert answer.status_code == 200, answer.text
    first, root = answer.json()["records"]
    assert first["why"]["verified"] is True
    assert first["why"]["cells"] == [{"input": 0, "offset": 1, "column": "city", "of": "city", "role": "copied"}]
    assert (root["values"]["city"], root["end"]["reason"]) == ("B", "root")


def test_many_records_are_asked_for_at_once(client: httpx.Client, filled: str) -> None:
    answer = client.post(filled, json={"offsets": [0, 1, 2], "depth": 0})
    assert [one["end"]["reason"] for one in answer.json()["records"]] == ["depth"] * 3
    answer = client.post(filled, json={"offsets": [0, 1, 2], "values": True})
    assert [one["depth"] for one in answer.json()["records"]] == [0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize(
    ("params", "status"),
    [
        ({}, 400),
        ({"offset": "-1"}, 400),
        ({"offset": "9"}, 404),
        ({"offset": "0", "columns": "citi"}, 400),
        ({"offset": "0", "depth": "deep"}, 400),
        ({"offset": "0", "limit": "100000"}, 413),
        ({"offset": "0", "after": "0123456789abcdef-1"}, 400),
    ],
)
def test_what_cannot_be_answered_is_refused(
    client: httpx.Client, filled: str, params: dict[str, str], status: int
) -> None:
    assert client.get(filled, params=params).status_code == status


def test_of_an_input_that_may_not_be_read_there_are_counts_alone(tmp_path: Path) -> None:
    people = People(tmp_path)
    secret = people.add("ann", "readings")
    others = people.add("ann", "others")
    derived = people.add("ann", "copied", manifest=copy_of("ann/readings", "copied", second="ann/others"))
    people.grant(derived, "*", DatasetRole.READER)
    memory = people.memory
    line = b'{"event_time": "2026-01-01T00:00:00Z", "city": "Hidden"}'
    for work in (
        memory.node.requests.push(PushData(dataset=others.id, body=iter([line])), by=people.subject("ann")),
        memory.node.requests.push(PushData(dataset=secret.id, body=iter([line])), by=people.subject("ann")),
        memory.node.requests.pull(PullRequest(dataset=derived.id, alias=derived.alias), by=people.subject("ann")),
    ):
        assert isinstance(work, Job)
        assert memory.finish(work).status is JobStatus.SUCCEEDED
    request = WhyRequest(offsets=(0,), values=True)
    answer: dict[str, Any] = memory.node.provenance.why(derived, request, by=people.subject("pia"))
    (record,) = answer["records"]
    (rows,) = record["why"]["witnesses"]
    assert (rows["count"], rows["ranges"], rows["end"]["reason"]) == (1, [], "not-readable")
    assert (record["why"]["cells"], record["why"]["how"], record["why"]["replay"]) == ([], None, None)
    assert str(secret.id) not in answer["datasets"]
    assert "ann/readings" not in json.dumps(answer)
    everything: dict[str, Any] = memory.node.provenance.why(derived, request, by=people.subject("ann"))
    assert [one["depth"] for one in everything["records"]] == [0, 1]
