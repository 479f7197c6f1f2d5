"""Job pages: who sees which, texts on every state, actions that queue a job."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from odfabric.model.jobs.job import Job
from odfabric.model.people.account import DatasetRole
from odfabric.usecases.ingestion.push_data import PushData
from odfabric.usecases.verification.verification_run import VerifyOptions
from tests.services.api.browsing import Browsers, alert_of, job_done, text_of
from tests.services.api.people import People
from tests.services.api.serving import serving, working
from tests.support.waiting import wait_until
from tests.usecases.manifests import DERIVED

ROW = b'{"event_time":"2026-01-01T00:00:00Z","city":"A","value":1}\n'
DERIVED_OF_ANN = DERIVED.replace("datasetRef: readings", "datasetRef: ann/readings, alias: readings")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browsers]:
    people = People(tmp_path_factory.mktemp("node"))
    readings = people.add("ann", "readings")
    people.grant(readings, "rita", DatasetRole.READER)
    people.add("ann", "copied", manifest=DERIVED_OF_ANN)
    with serving(people.node) as served, working(people.node):
        with served.client(people.bearer("ann")["authorization"].removeprefix("Bearer ")) as client:
            assert client.post("/ann/readings/ingest", content=ROW).status_code == 200
        yield Browsers(people, served)


@pytest.fixture
def unattended(tmp_path: Path) -> Iterator[Browsers]:
    """A node for which nobody works."""
    people = People(tmp_path)
    people.add("ann", "readings")
    with serving(people.node) as served:
        yield Browsers(people, served)


@pytest.fixture
def ann(site: Browsers) -> Iterator[httpx.Client]:
    with site.open("ann") as found:
        yield found


def test_update_now_leads_to_the_job_and_its_blocks(ann: httpx.Client) -> None:
    assert "Update now" in text_of(ann.get("/ann/copied"))
    first = job_done(ann, ann.post("/ann/copied/-/pull", data={}))
    assert "Update of ann/copied" in text_of(first)
    assert "Records added 1 (offsets 0 to 0)" in text_of(first)
    block = re.search(r'href="(/ann/copied/-/blocks/\w+)"', first.text)
    assert block is not None
    assert ann.get(block[1]).status_code == 200
    again = re.search(r'action="(/ann/copied/-/pull)"', first.text)
    assert again is not None
    assert "nothing was new" in text_of(job_done(ann, ann.post(again[1], data={"recursive": "yes"})))


def test_verify_says_that_all_is_well_or_names_what_is_not(site: Browsers, ann: httpx.Client) -> None:
    assert "All is well" in text_of(job_done(ann, ann.post("/ann/readings/-/verify", data={})))
    spoilt = site.people.add("ann", "spoilt")
    job = site.people.node.requests.push(PushData(dataset=spoilt.id, body=iter([ROW])), by=site.people.subject("ann"))
    assert isinstance(job, Job)
    site.people.memory.finish(job)
    (data,) = (name for name in site.people.memory.objects.keys("") if spoilt.id.multibase in name and "/data/" in name)
    site.people.memory.objects.damage(data)
    page = job_done(ann, ann.post("/ann/spoilt/-/verify", data={}))
    assert "DataDoesNotMatchMetadata" in text_of(page)
    assert data.rpartition("/")[2] in page.text


def test_a_job_that_failed_says_why_and_where(site: Browsers, ann: httpx.Client) -> None:
    node, entry = site.people.node, site.people.add("ann", "wrong")
    wrong = b'{"event_time":"2026-01-01T00:00:00Z","city":"A","value":"many"}\n'
    job = node.requests.push(PushData(dataset=entry.id, body=iter([wrong])), by=site.people.subject("ann"))
    assert isinstance(job, Job)
    wait_until(lambda: node.jobs.get(job.id).status.final, what="the push")
    page = ann.get(f"/-/jobs/{job.id}")
    assert "failed" in text_of(page)
    assert "Line 1" in alert_of(page)
    assert "not a int64: 'many'" in alert_of(page)
    assert "not a int64: 'many'" in text_of(ann.get("/ann/wrong/-/jobs"))


def test_update_is_offered_only_where_it_can_do_something(ann: httpx.Client) -> None:
    page = text_of(ann.get("/ann/readings"))
    assert "Verify" in page
    assert "Update now" not in page


def test_whoever_only_reads_verifies_and_does_not_update(site: Browsers, ann: httpx.Client) -> None:
    with site.open("rita") as rita:
        assert rita.post("/ann/readings/-/pull", data={}).status_code == 403
        done = rita.post("/ann/readings/-/verify", data={})
        assert "All is well" in text_of(job_done(rita, done))
        number = done.headers["location"].rpartition("/")[2]
        assert number in rita.get("/-/jobs").text
        assert number in rita.get("/ann/readings/-/jobs").text
    assert number in ann.get("/-/jobs").text  # she may change the dataset
    with site.open("pia") as pia:
        assert pia.get(f"/-/jobs/{number}").status_code == 404
        assert number not in pia.get("/-/jobs").text
        assert "No job yet." in text_of(pia.get("/-/jobs"))
        assert pia.post(f"/-/jobs/{number}/cancel", data={}).status_code == 404


def test_a_job_that_waits_says_for_what_and_can_be_cancelled(unattended: Browsers) -> None:
    people = unattended.people
    with unattended.open("ann") as ann:
        first = ann.post("/ann/readings/-/verify", data={}).headers["location"]
        entry = people.node.datasets.resolve(
            people.memory.node.browsing.jobs_seen(None, limit=1, by=people.subject("ann"))[0].dataset_id
        )
        second = people.node.requests.verify(entry, VerifyOptions(data=False), by=people.subject("ann"))
        page = ann.get(first)
        assert "It waits for a worker to be free." in text_of(page)
        assert 'http-equiv="refresh"' in page.text
        assert 'http-equiv="refresh"' not in ann.get(f"{first}?live=no").text
        behind = ann.get(f"/-/jobs/{second.id}")
        assert "It waits for a job of the same dataset" in text_of(behind)
        assert f'href="{first}"' in behind.text
        answer = ann.post(f"{first}/cancel", data={})
        assert (answer.status_code, answer.headers["location"]) == (303, first)
        cancelled = ann.get(first)
    assert "cancelled" in text_of(cancelled)
    assert 'http-equiv="refresh"' not in cancelled.text
    assert "Cancel" not in text_of(cancelled).replace("cancelled", "")


def test_strangers_are_led_to_sign_in(site: Browsers) -> None:
    with site.open(None) as stranger:
        answer = stranger.get("/-/jobs")
    assert (answer.status_code, answer.headers["location"]) == (303, "/login?then=/-/jobs")
