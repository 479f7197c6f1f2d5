"""Questions that take long: a job, its answer, and the page that waits."""

from __future__ import annotations

import httpx
import pytest

from odfabric.cli.backends.node_client import NodeBackend
from odfabric.model.why_request import WhyRequest
from odfabric.testing.memory_node import MemoryNode
from odfabric_api.bodies.answer_in_time import LongQuestions
from tests.services.api.datasets.test_jobs import finished
from tests.services.api.serving import Served
from tests.services.api.test_why import derived, filled

__all__ = ["derived", "filled"]

FORMS = ("json", "prov", "openlineage")
ASYNC = {"prefer": "respond-async"}


@pytest.fixture
def impatient(memory: MemoryNode, served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """The node waits for no answer longer than the first word of the engine."""
    monkeypatch.setitem(memory.node.settings.__dict__, "provenance_wait_s_max", 1e-9)
    served.app.state.long_questions = LongQuestions(0.0)


def test_a_question_becomes_a_job_if_asked_for(client: httpx.Client, filled: str) -> None:
    asked = {"offset": "1", "values": "true"}
    direct = client.get(filled, params=asked)
    assert direct.status_code == 200
    queued = client.get(filled, params=asked, headers=ASYNC)
    assert queued.headers["preference-applied"] == "respond-async"
    job = finished(client, queued)
    assert (job["kind"], job["status"], job["dataset"]) == ("why", "succeeded", None)
    address = f"/jobs/{job['id']}/answer"
    assert job["result"] == {"answer": address}
    assert client.get(address).json() == direct.json()
    assert "entity" in client.get(address, params={"format": "prov"}).json()


def test_a_question_that_takes_too_long_becomes_a_job(client: httpx.Client, filled: str, impatient: None) -> None:
    answer = client.post(filled, json={"offsets": [0, 2]})
    job = finished(client, answer)
    assert [one["offset"] for one in client.get(f"{job['result']['answer']}").json()["records"]][:2] == [0, 2]  # type: ignore[index]


def test_the_page_shows_a_job_and_then_its_answer(client: httpx.Client, filled: str, impatient: None) -> None:
    page = filled.replace("/why", "/-/why")
    asked = {"offset": "1", "column": "city", "wait": "true"}
    waiting = client.get(page, params=asked).text
    assert "a job works on it" in waiting
    job = waiting.partition("&amp;job=")[2].partition('"')[0]
    assert 'hx-trigger="load delay:1s"' in waiting

    finished(client, httpx.Response(202, headers={"location": f"/jobs/{job}"}))
    shown = client.get(page, params={**asked, "job": job}).text
    assert "<strong>B</strong>" in shown
    assert client.get(page, params={**asked, "offset": "0", "job": job}).status_code == 404
    assert client.get(f"/-/jobs/{job}").status_code == 200


def test_the_command_waits_for_a_job(backend: NodeBackend, client: httpx.Client, filled: str, impatient: None) -> None:
    asked = WhyRequest(offsets=(1,), columns=("city",), values=True)
    answer = backend.why("copied", asked)
    assert [one["depth"] for one in answer["records"]] == [0, 1]  # type: ignore[attr-defined]
    document = backend.why_in("copied", asked, "prov", namespace="")
    assert isinstance(document, dict)
    plans = [one for name, one in document["entity"].items() if name.startswith("odfp:query-")]
    assert "city from local/readings city (copied, IDENTITY)" in plans[0]["odfp:columnLineage"]


def test_other_forms_have_the_lineage_of_all_columns(backend: NodeBackend, client: httpx.Client, filled: str) -> None:
    asked = WhyRequest(offsets=(1,), columns=("city",))
    events = backend.why_in("copied", asked, "openlineage", namespace="")
    assert isinstance(events, list)
    fields = events[0]["outputs"][0]["facets"]["columnLineage"]["fields"]
    assert {"city", "event_time"} <= set(fields)
    assert fields["city"]["inputFields"][0]["transformations"] == [{"type": "DIRECT", "subtype": "IDENTITY"}]


def test_a_kind_of_question_that_was_too_long_is_a_job_from_the_start(
    client: httpx.Client, served: Served, filled: str, memory: MemoryNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    served.app.state.long_questions = LongQuestions(60.0, clock=lambda: now[0])
    asked = {"offset": "0", "columns": "value", "depth": "1"}
    with monkeypatch.context() as impatient:
        impatient.setitem(memory.node.settings.__dict__, "provenance_wait_s_max", 1e-9)
        finished(client, client.get(filled, params=asked))
    assert client.get(filled, params={**asked, "offset": "1"}).status_code == 202
    assert client.get(filled, params={**asked, "columns": "city"}).status_code == 200, "another kind"
    now[0] = 61.0
    assert client.get(filled, params={**asked, "offset": "2"}).status_code == 200


def test_other_forms_of_an_answer_have_a_place_among_queries(
    client: httpx.Client, served: Served, filled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = finished(client, client.get(filled, params={"offset": "1"}, headers=ASYNC))
    capacity = served.app.state.capacity
    monkeypatch.setattr(capacity.queries, "taken", capacity.queries.maximum)
    statuses = {form: client.get(f"/jobs/{job['id']}/answer", params={"format": form}).status_code for form in FORMS}
    assert statuses == {"json": 200, "prov": 429, "openlineage": 429}
