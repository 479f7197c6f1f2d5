"""Pushing on a page: rows are committed as by REST, and errors say where."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from odfabric.model.people.account import DatasetRole
from tests.services.api.browsing import Browsers, alert_of, field, job_done, text_of
from tests.services.api.people import People
from tests.services.api.serving import serving, working
from tests.usecases.manifests import POLLED, ROOT

GOOD = '{"event_time":"2026-01-01T00:00:00Z","city":"A","value":1}'
WRONG = '{"event_time":"2026-01-01T00:00:00Z","city":"<b>","value":"many"}'
TWO_SOURCES = ROOT + ROOT[ROOT.index("  - kind: AddPushSource") :].replace("default", "other")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browsers]:
    people = People(tmp_path_factory.mktemp("node"))
    readings = people.add("ann", "readings")
    people.grant(readings, "carl", DatasetRole.CONTRIBUTOR)
    people.grant(readings, "rita", DatasetRole.READER)
    people.add("ann", "polled", manifest=POLLED.replace("name: polled", "name: ann/polled"))
    people.add("ann", "two", manifest=TWO_SOURCES)
    with serving(people.node) as served, working(people.node):
        yield Browsers(people, served)


@pytest.fixture
def carl(site: Browsers) -> Iterator[httpx.Client]:
    """May push and not more."""
    with site.open("carl") as found:
        yield found


def test_the_form_tells_scripts_and_terminals_the_same_way(site: Browsers, carl: httpx.Client) -> None:
    page = carl.get("/ann/readings/-/push").text
    assert 'data-upload="/ann/readings/ingest"' in page
    assert 'data-then="/-/jobs/{id}"' in page
    assert f"{site.served.url}/ann/readings/ingest" in page
    assert 'href="/ann/readings/-/push"' in carl.get("/ann/readings").text


def test_pasted_rows_are_committed(carl: httpx.Client) -> None:
    pushed = carl.post("/ann/readings/-/push", data={"rows": f"{GOOD}\r\n{GOOD}\r\n", "media_type": ""})
    assert pushed.status_code == 303
    answer = carl.get(pushed.headers["location"])
    assert "Records added 2" in text_of(answer)
    assert "/ann/readings/-/blocks/f1620" in answer.text
    assert field(answer, "rows").strip() == ""
    assert "2 records" in text_of(carl.get("/ann/readings"))


def test_a_row_that_is_wrong_is_told_by_line_and_column_and_all_rows_are_kept(carl: httpx.Client) -> None:
    typed = f"{GOOD}\n{WRONG}"
    answer = carl.post("/ann/readings/-/push", data={"rows": typed, "media_type": "application/x-ndjson"})
    assert answer.status_code == 422
    assert "Line 2: value : not a int64: 'many'" in alert_of(answer)
    assert field(answer, "rows").strip() == typed
    assert '<option value="application/x-ndjson" selected>' in answer.text


@pytest.mark.parametrize(
    ("given", "status", "said"),
    [
        ({"rows": ""}, 400, "there are no rows"),
        ({"rows": GOOD, "media_type": "image/png"}, 415, "Unsupported media type"),
        ({"rows": GOOD, "source": "nosuch"}, 400, "nosuch"),
    ],
)
def test_refusals_keep_the_rows(carl: httpx.Client, given: dict[str, str], status: int, said: str) -> None:
    answer = carl.post("/ann/readings/-/push", data=given)
    assert answer.status_code == status
    assert said in alert_of(answer)
    assert field(answer, "rows").strip() == given["rows"]


def test_of_several_sources_one_is_chosen(site: Browsers) -> None:
    with site.open("ann") as ann:
        page = ann.get("/ann/two/-/push").text
        assert "sourceName=other" in page
        assert "<option>other</option>" in page
        answer = ann.post("/ann/two/-/push", data={"rows": GOOD, "source": "other"})
        assert "Records added 1" in text_of(ann.get(answer.headers["location"]))
        assert "no push source" in text_of(ann.get("/ann/polled/-/push"))


def test_more_than_a_form_takes_is_refused(carl: httpx.Client) -> None:
    answer = carl.post("/ann/readings/-/push", data={"rows": "x" * (1024 * 1024 + 20_000)})
    assert answer.status_code == 413


def test_the_result_of_another_dataset_or_person_is_not_shown(site: Browsers, carl: httpx.Client) -> None:
    with site.open("ann") as ann:
        mine = ann.post("/ann/two/-/push", data={"rows": GOOD, "source": "other"}).headers["location"].partition("=")[2]
        assert "Committed" not in text_of(ann.get(f"/ann/readings/-/push?job={mine}"))
    assert carl.get(f"/ann/readings/-/push?job={mine}").status_code == 404


def test_readers_do_not_push(site: Browsers) -> None:
    with site.open("rita") as rita:
        assert rita.get("/ann/readings/-/push").status_code == 403
        assert rita.post("/ann/readings/-/push", data={"rows": GOOD}).status_code == 403


def test_a_push_that_takes_longer_leads_to_its_job(tmp_path: Path) -> None:
    people = People(tmp_path, push_wait_s_max=0.05)
    people.add("ann", "readings")
    with serving(people.node) as served, Browsers(people, served).open("ann") as ann:
        answer = ann.post("/ann/readings/-/push", data={"rows": GOOD})
        assert answer.status_code == 303
        assert "waiting" in text_of(ann.get(answer.headers["location"]))


def tried(browser: httpx.Client, path: str, rows: str, **fields: str) -> httpx.Response:
    """The page that says what a push would do."""
    answer = browser.post(f"{path}/-/push/try", data=fields, files={"file": ("rows.ndjson", rows)})
    return job_done(browser, answer)


def test_a_trial_tells_what_a_push_would_do_and_the_push_needs_no_second_upload(site: Browsers) -> None:
    site.people.add("ann", "ledger", manifest=ROOT.replace("{kind: Append}", "{kind: Ledger, primaryKey: [city]}"))
    other = GOOD.replace('"A"', '"B"')
    with site.open("ann") as ann:
        ann.post("/ann/ledger/-/push", data={"rows": GOOD})
        head = ann.get("/ann/ledger/refs/head").text
        page = tried(ann, "/ann/ledger", f"{GOOD}\n{other}\n", media_type="application/x-ndjson")
        assert "Rows read 2 Records added +1 Records corrected 0" in text_of(page)
        assert ann.get("/ann/ledger/refs/head").text == head
        pushed = job_done(ann, ann.post("/ann/ledger/-/push/tried", data={"job": field(page, "job")}))
        assert "Records added 1" in text_of(pushed)
        assert "2 records" in text_of(ann.get("/ann/ledger"))
        again = tried(ann, "/ann/ledger", GOOD)
        assert "all rows are there already" in text_of(again)


def test_a_trial_lists_all_that_is_refused(carl: httpx.Client) -> None:
    page = tried(carl, "/ann/readings", "\n".join([GOOD, *[WRONG] * 25]))
    assert "would be refused" in alert_of(page)
    text = text_of(page)
    assert "2 value many is no integer that fits write a whole number" in text
    assert "These are the first 20 of 25." in text
    assert "<b>" not in page.text


def test_trials_of_others_and_of_other_datasets_do_not_exist(site: Browsers, carl: httpx.Client) -> None:
    job = field(tried(carl, "/ann/readings", GOOD), "job")
    with site.open("ann") as ann:
        assert ann.get(f"/ann/readings/-/push?tried={job}").status_code == 404
        assert ann.post("/ann/readings/-/push/tried", data={"job": job}).status_code == 404
        mine = field(tried(ann, "/ann/two", GOOD, source="other"), "job")
        assert ann.get(f"/ann/readings/-/push?tried={mine}").status_code == 404
    with site.open("rita") as rita:
        assert rita.post("/ann/readings/-/push/try", files={"file": ("a", GOOD)}).status_code == 403
