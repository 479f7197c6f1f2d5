"""Flow pages: what runs, why a run waits, and the forms that control it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from odfabric.model.commit import CatalogEntry
from odfabric.model.identity import DatasetAlias, Name
from odfabric.model.jobs.job import Job
from odfabric.model.people.account import DatasetRole
from odfabric.usecases.ingestion.push_data import PushData
from tests.services.api.browsing import Browsers, alert_of, field, text_of
from tests.services.api.people import People
from tests.services.api.serving import serving
from tests.usecases.manifests import DERIVED, POLLED

ROW = b'{"event_time":"2026-01-01T00:00:00Z","city":"A","value":1}\n'
PATH = "/ann/copied/-/flows"
POLL = "/ann/polled/-/flows"
RULE = {"attempts": "3", "pause": "10s", "backoff": "fixed", "overlap": "queue-one"}


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Browsers]:
    people = People(tmp_path)
    people.grant(people.add("ann", "readings"), "rita", DatasetRole.READER)
    copied = DERIVED.replace("name: copied", "name: ann/copied")
    people.memory.add(copied.replace("{datasetRef: readings}", "{datasetRef: ann/readings, alias: readings}"))
    people.memory.add(POLLED.replace("name: polled", "name: ann/polled"))
    with serving(people.node) as served:
        yield Browsers(people, served)


@pytest.fixture
def ann(site: Browsers) -> Iterator[httpx.Client]:
    with site.open("ann") as found:
        yield found


def push(site: Browsers) -> None:
    entry = named(site, "readings")
    job = site.people.node.requests.push(PushData(dataset=entry.id, body=iter([ROW])), by=site.people.subject("ann"))
    assert isinstance(job, Job)
    site.people.memory.work()


def named(site: Browsers, name: str) -> CatalogEntry:
    return site.people.node.datasets.resolve(DatasetAlias(Name("ann"), Name(name)))


def test_a_derivative_dataset_has_its_flow_and_its_runs(site: Browsers, ann: httpx.Client) -> None:
    assert "when inputs change" in text_of(ann.get(PATH))
    assert "It has not run yet." in text_of(ann.get(PATH))
    push(site)
    page = text_of(ann.get(PATH))
    assert "succeeded" in page
    assert "ann/readings" in page
    assert "1 row" in page
    everything = text_of(ann.get("/-/flows"))
    assert "ann/copied" in everything
    assert "Compute from the inputs" in everything


def test_a_waiting_run_says_why_and_is_cancelled(site: Browsers, ann: httpx.Client) -> None:
    push(site)
    form = {**RULE, "trigger": "inputs", "records": "5", "wait": "1h"}
    assert "The flow is set." in text_of(ann.post(f"{PATH}/transform", data=form, follow_redirects=True))
    push(site)
    page = ann.get(PATH)
    assert "waits for records: 1 of 5 are there" in text_of(page)
    assert "when inputs have 5 new records, or after 1 hour" in text_of(page)
    assert 'http-equiv="refresh"' not in page.text
    assert 'http-equiv="refresh"' in ann.get(f"{PATH}?live=yes").text
    path = page.text.partition('action="/-/runs/')[2].partition('"')[0]
    assert "The run is cancelled." in text_of(ann.post(f"/-/runs/{path}", data={}, follow_redirects=True))
    assert "waits for records" not in text_of(ann.get(PATH))


def test_paused_resumed_and_run_by_hand(site: Browsers, ann: httpx.Client) -> None:
    assert "paused" in text_of(ann.post(f"{PATH}/transform/pause", data={}, follow_redirects=True))
    push(site)
    assert "It has not run yet." in text_of(ann.get(PATH))
    ann.post(f"{PATH}/transform/run", data={})
    site.people.memory.work()
    assert "by hand (ann)" in text_of(ann.get(PATH))
    assert "The flow goes on." in text_of(ann.post(f"{PATH}/transform/resume", data={}, follow_redirects=True))


def test_a_schedule_is_set_refused_and_removed(site: Browsers, ann: httpx.Client) -> None:
    assert "Not by itself." in text_of(ann.get(POLL))
    wrong = ann.post(f"{POLL}/poll", data={**RULE, "version": "0", "trigger": "cron", "cron": "every morning"})
    assert wrong.status_code == 400
    assert "five fields" in alert_of(wrong)
    assert field(wrong, "cron") == "every morning"
    right = {**RULE, "version": "0", "trigger": "cron", "cron": "30 6 * * *", "zone": "Europe/Berlin", "failures": "2"}
    assert ann.post(f"{POLL}/poll", data=right).status_code == 303
    page = ann.get(POLL)
    assert "30 6 * * * Europe/Berlin" in text_of(page)
    assert field(page, "cron") == "30 6 * * *"
    stale = ann.post(f"{POLL}/poll", data=right)
    assert stale.status_code == 409
    assert "somebody else has changed the flow" in alert_of(stale)
    assert "The flow is removed." in text_of(ann.post(f"{POLL}/poll/remove", data={}, follow_redirects=True))
    assert "Not by itself." in text_of(ann.get(POLL))


def test_a_stopped_flow_says_what_stopped_it(site: Browsers, ann: httpx.Client) -> None:
    site.people.memory.files.add("arrivals/1.ndjson", b"oops\n", modified_at=site.people.memory.clock.now())
    form = {**RULE, "trigger": "every", "every": "1h", "failures": "1"}
    ann.post(f"{POLL}/poll", data=form)
    site.people.memory.work()
    page = ann.get(POLL)
    assert "stopped" in text_of(page)
    assert "1.ndjson" in text_of(page)
    assert "stopped" in text_of(ann.get("/-/flows"))


def test_readers_see_no_flows(site: Browsers) -> None:
    with site.open("rita") as rita:
        assert rita.get("/ann/readings/-/flows").status_code == 403
        assert "Flows" not in text_of(rita.get("/ann/readings")).replace("Flows Jobs", "")
        assert "No flow yet." in text_of(rita.get("/-/flows"))
