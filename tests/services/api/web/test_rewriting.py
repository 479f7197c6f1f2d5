"""Rewriting history on pages: confirmed by name, by owners."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx
import pytest

from odfabric.formats.operations.verification_report import report_text
from odfabric.model.jobs.job import Job
from odfabric.model.jobs.requests import PullRequest
from odfabric.model.people.account import DatasetRole
from odfabric.usecases.ingestion.push_data import PushData
from odfabric.usecases.verification.verification_run import VerifyOptions
from tests.services.api.browsing import Browsers, alert_of, browsing, text_of
from tests.services.api.people import People
from tests.usecases.manifests import DERIVED


@pytest.fixture
def browsers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browsers]:
    people = People(tmp_path_factory.mktemp("node"))
    cities = people.add("ann", "cities")
    people.grant(cities, "edda", DatasetRole.EDITOR)
    for day in (1, 2, 3):
        row = f'{{"event_time":"2026-01-0{day}T00:00:00Z","city":"Ulm"}}'.encode()
        job = people.node.requests.push(PushData(dataset=cities.id, body=iter([row])), by=people.subject("ann"))
        assert isinstance(job, Job)
        people.memory.finish(job)
    with browsing(people) as found:
        yield found


@pytest.fixture
def ann(browsers: Browsers) -> Iterator[httpx.Client]:
    with browsers.open("ann") as found:
        yield found


def head_of(ann: httpx.Client) -> str:
    return ann.get("/ann/cities/refs/head").text


def test_a_reset_takes_the_name_and_the_head_that_was_seen(ann: httpx.Client) -> None:
    assert "Reset this dataset" in text_of(ann.get("/ann/cities/-/settings"))
    head = head_of(ann)
    wrong = ann.post("/ann/cities/-/reset", data={"to": "3", "head": head, "confirm": "cities"})
    assert (wrong.status_code, head_of(ann)) == (400, head)
    assert "type ann/cities to confirm" in alert_of(wrong)
    done = ann.post("/ann/cities/-/reset", data={"to": "3", "head": head, "confirm": "ann/cities"})
    assert (done.status_code, done.headers["location"]) == (303, "/ann/cities/-/history")
    assert "This history was rewritten" in text_of(ann.get(done.headers["location"]))
    late = ann.post("/ann/cities/-/reset", data={"to": "2", "head": head, "confirm": "ann/cities"})
    assert late.status_code == 409
    shown = ann.get("/ann/cities/history").json()
    assert [(one["kind"], one["oldHead"]) for one in shown["rewrites"]] == [("reset", head)]


def test_a_compaction_is_a_job(ann: httpx.Client, browsers: Browsers) -> None:
    queued = ann.post("/ann/cities/-/compact", data={"confirm": "ann/cities"})
    assert queued.status_code == 303
    number = queued.headers["location"].rpartition("/")[2]
    memory = browsers.people.memory
    memory.finish(memory.node.jobs.get(number, by=browsers.people.subject("ann")))
    assert "blocks became" in text_of(ann.get(queued.headers["location"]))


def test_a_dataset_that_is_computed_from_it_says_so(ann: httpx.Client, browsers: Browsers) -> None:
    memory, subject = browsers.people.memory, browsers.people.subject("ann")
    manifest = DERIVED.replace("name: copied", "name: ann/copied").replace(
        "datasetRef: readings", "datasetRef: ann/cities"
    )
    manifest = manifest.replace("FROM readings", "FROM `ann/cities`")
    made = ann.post("/datasets", content=manifest, headers={"content-type": "application/yaml"})
    assert made.status_code == 201, made.text
    derived = memory.node.datasets.page(by=subject, after=None, limit=9)[1]
    memory.finish(memory.node.requests.pull(PullRequest(dataset=derived.id, alias=derived.alias), by=subject))
    ann.post("/ann/cities/-/reset", data={"to": "3", "head": head_of(ann), "confirm": "ann/cities"})
    shown = text_of(ann.get("/ann/copied"))
    assert "The history of the input ann/cities was rewritten (reset)" in shown
    assert "Drop the rows and compute them again" in shown
    (found,) = ann.get("/ann/copied/history").json()["rewrittenInputs"]
    assert (found["alias"], found["kind"]) == ("ann/cities", "reset")


def test_after_a_compaction_it_says_that_the_rows_are_the_same(ann: httpx.Client, browsers: Browsers) -> None:
    memory, subject = browsers.people.memory, browsers.people.subject("ann")
    manifest = DERIVED.replace("name: copied", "name: ann/copied").replace("readings", "ann/cities", 1)
    manifest = manifest.replace("FROM readings", "FROM `ann/cities`")
    assert ann.post("/datasets", content=manifest, headers={"content-type": "application/yaml"}).status_code == 201
    derived = memory.node.datasets.page(by=subject, after=None, limit=9)[1]
    memory.finish(memory.node.requests.pull(PullRequest(dataset=derived.id, alias=derived.alias), by=subject))
    queued = ann.post("/ann/cities/-/compact", data={"confirm": "ann/cities"})
    memory.finish(memory.node.jobs.get(queued.headers["location"].rpartition("/")[2], by=subject))
    shown = text_of(ann.get("/ann/copied"))
    assert "The history of the input ann/cities was rewritten (compacted)" in shown
    assert "The rows that were read are the same." in shown
    answer = ann.get("/ann/copied/history").json()
    assert [one["keepsRows"] for one in answer["rewrittenInputs"]] == [True]
    assert ann.get("/ann/cities/history").json()["rewrites"][0]["rowsKept"] == 3


def test_who_vouches_is_on_the_page(ann: httpx.Client, browsers: Browsers) -> None:
    memory, subject = browsers.people.memory, browsers.people.subject("ann")
    (cities,) = memory.node.datasets.page(by=subject, after=None, limit=1)
    job = memory.finish(memory.node.requests.verify(cities, VerifyOptions(report=True), by=subject))
    document = json.loads(job.result or "{}")["report"]
    published = ann.post(
        "/ann/cities/reports", content=report_text(document), headers={"content-type": "application/json"}
    )
    assert published.status_code == 201, published.text
    shown = text_of(ann.get("/ann/cities"))
    assert "verified by recompute" in shown
    assert "published by ann" in shown
    (listed,) = ann.get("/ann/cities/reports").json()["reports"]
    assert listed["signer"] == document["proof"]["verificationMethod"]
    assert json.loads(listed["document"]) == document
    assert ann.delete(f"/ann/cities/reports/{listed['id']}").status_code == 204
    assert ann.get("/ann/cities/reports").json() == {"reports": []}


def test_who_signs_the_history_is_on_the_page(ann: httpx.Client) -> None:
    log = ann.get("/ann/cities/heads").json()
    shown = text_of(ann.get("/ann/cities"))
    assert f"{log['entries']} signed moves of the head" in shown
    assert log["signer"] in ann.get("/ann/cities").text


def test_an_editor_does_not_rewrite(browsers: Browsers) -> None:
    with browsers.open("edda") as edda:
        assert "Reset this dataset" not in text_of(edda.get("/ann/cities/-/settings"))
        for action in ("reset", "compact"):
            assert edda.post(f"/ann/cities/-/{action}", data={"confirm": "ann/cities"}).status_code == 403
