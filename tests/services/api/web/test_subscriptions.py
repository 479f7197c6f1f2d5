"""Webhooks on pages: the secret once, the log of deliveries, and who sees whose."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from odfabric.model.identity import DatasetAlias, Name
from odfabric.model.jobs.job import Job
from odfabric.model.people.account import DatasetRole
from odfabric.model.subscriptions.subscription import SubscriptionState, WebhookResponse
from odfabric.usecases.ingestion.push_data import PushData
from tests.services.api.browsing import Browsers, alert_of, field, text_of
from tests.services.api.people import People
from tests.services.api.serving import serving

ROW = b'{"event_time":"2026-01-01T00:00:00Z","city":"A","value":1}\n'
URL = "https://receiver.example/hook?a=1&b=<i>"
PATH = "/ann/readings/-/subscriptions"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Browsers]:
    people = People(tmp_path)
    people.grant(people.add("ann", "readings"), "rita", DatasetRole.READER)
    with serving(people.node) as served:
        yield Browsers(people, served)


@pytest.fixture
def rita(site: Browsers) -> Iterator[httpx.Client]:
    with site.open("rita") as found:
        yield found


def push(site: Browsers) -> None:
    """A commit, and an attempt to deliver it."""
    node = site.people.node
    entry = node.datasets.resolve(DatasetAlias(Name("ann"), Name("readings")))
    job = node.requests.push(PushData(dataset=entry.id, body=iter([ROW])), by=site.people.subject("ann"))
    assert isinstance(job, Job)
    site.people.memory.finish(job)
    node.background.relay_outbox()
    deliver(site)


def deliver(site: Browsers) -> None:
    for delivery in site.people.node.background.due_deliveries("test", limit=10):
        site.people.node.background.deliver(delivery)


def one_of(page: httpx.Response) -> str:
    found = re.search(rf'href="({PATH}/\w+)"', page.text)
    assert found is not None
    return found[1]


def test_the_secret_is_shown_once(rita: httpx.Client) -> None:
    assert "No subscription that you may see." in text_of(rita.get(PATH))
    made = rita.post(PATH, data={"url": URL, "secret": ""})
    assert made.status_code == 200
    assert made.headers["cache-control"] == "no-store"
    secret = re.search(r'<code class="secret">(whsec_[^<]+)</code>', made.text)
    assert secret is not None
    listed = rita.get(PATH)
    assert secret[1] not in listed.text
    assert "https://receiver.example/hook?a=1&b=<i>" in text_of(listed)
    assert "<i>" not in listed.text
    assert "nothing to deliver yet" in text_of(listed)


def test_followed_columns_and_rows_are_asked_for_and_shown(site: Browsers, rita: httpx.Client) -> None:
    push(site)
    wrong = rita.post(PATH, data={"url": URL, "columns": "city, town", "rows": "yes"})
    assert wrong.status_code == 400
    assert "no column `town`" in alert_of(wrong)
    assert field(wrong, "columns") == "city, town"
    made = rita.post(PATH, data={"url": URL, "columns": "value, city", "rows": "yes"})
    shown = text_of(rita.get(one_of(made)))
    assert "Columns city value Content with the changed records" in shown


def test_what_is_wrong_is_said_and_no_secret_comes_back(rita: httpx.Client) -> None:
    answer = rita.post(PATH, data={"url": URL, "secret": "whsec_weakbutsecret"})
    assert answer.status_code == 400
    assert "secret" in alert_of(answer)
    assert "weakbutsecret" not in answer.text
    assert field(answer, "url") == URL
    assert rita.post(PATH, data={"url": "ftp://receiver.example"}).status_code in (400, 403)
    assert "No subscription that you may see." in text_of(rita.get(PATH))


def test_the_log_tells_attempts_and_errors(site: Browsers, rita: httpx.Client) -> None:
    rita.post(PATH, data={"url": URL})
    page = rita.get(one_of(rita.get(PATH)))
    assert "Nothing to deliver yet" in text_of(page)
    site.people.memory.webhooks.script.append(WebhookResponse(500))
    push(site)
    listed = rita.get(PATH)
    assert "retrying next attempt in" in text_of(listed)
    log = text_of(rita.get(one_of(listed)))
    assert "retrying 1 in" in log
    assert "HTTP 500" in log


def test_who_may_share_the_dataset_sees_those_of_others_and_others_do_not(site: Browsers, rita: httpx.Client) -> None:
    with site.open("ann") as ann:
        ann.post(PATH, data={"url": "https://ann.example/"})
        own = one_of(ann.get(PATH))
        rita.post(PATH, data={"url": URL})
        assert "ann.example" not in rita.get(PATH).text
        assert rita.get(own).status_code == 404
        assert rita.post(f"{own}/remove", data={}).status_code == 404
        assert "receiver.example" in ann.get(PATH).text
        ended = ann.post(f"{own}/remove", data={})
        assert (ended.status_code, ended.headers["location"]) == (303, f"{PATH}?done=unsubscribed")
        after = ann.get(ended.headers["location"])
    assert "The subscription has ended." in text_of(after)
    assert "ann.example" not in after.text


def test_it_is_paused_and_resumed(rita: httpx.Client) -> None:
    rita.post(PATH, data={"url": URL})
    one = one_of(rita.get(PATH))
    paused = rita.post(f"{one}/state", data={"state": "paused"})
    assert (paused.status_code, paused.headers["location"]) == (303, f"{one}?done=paused")
    assert "Paused: what is to be delivered waits." in text_of(rita.get(paused.headers["location"]))
    assert "paused" in text_of(rita.get(PATH))
    resumed = rita.post(f"{one}/state", data={"state": "active"})
    assert "what has waited goes out in order" in text_of(rita.get(resumed.headers["location"]))


def test_the_page_says_why_the_node_has_disabled_it(site: Browsers, rita: httpx.Client) -> None:
    rita.post(PATH, data={"url": URL})
    one = one_of(rita.get(PATH))
    ports = site.people.node.ports
    ports.subscriptions.set_state(
        one.rpartition("/")[2], SubscriptionState.DISABLED, now=ports.clock.now(), reason="<i>away</i> for days"
    )
    for page in (rita.get(PATH), rita.get(one)):
        assert "disabled <i>away</i> for days" in text_of(page)
        assert "<i>away" not in page.text
    assert "Resume" in text_of(rita.get(one))


def test_a_test_event_is_answered_on_the_page(site: Browsers, rita: httpx.Client) -> None:
    rita.post(PATH, data={"url": URL})
    one = one_of(rita.get(PATH))
    site.people.memory.webhooks.script.append(WebhookResponse(404, excerpt="<script>alert(1)</script>"))
    tried = rita.post(f"{one}/test", data={})
    assert tried.status_code == 200
    assert "refused by the receiver the receiver answered 404 HTTP 404" in text_of(tried)
    assert "<script>alert(1)</script>" in text_of(tried)
    assert "<script>alert" not in tried.text
    assert "accepted HTTP 204" in text_of(rita.post(f"{one}/test", data={}))


def test_a_new_secret_is_shown_to_its_maker_once(site: Browsers, rita: httpx.Client) -> None:
    rita.post(PATH, data={"url": URL})
    one = one_of(rita.get(PATH))
    changed = rita.post(f"{one}/secret", data={"secret": "", "overlap_hours": "1"})
    secret = re.search(r'<code class="secret">(whsec_[^<]+)</code>', changed.text)
    assert secret is not None
    assert "Old secret signs until" in text_of(changed)
    assert secret[1] not in rita.get(one).text
    for wrong in ({"secret": "weakbutsecret"}, {"overlap_hours": "soon"}, {"overlap_hours": "99999"}):
        refused = rita.post(f"{one}/secret", data=wrong)
        assert refused.status_code == 400
        assert alert_of(refused)
        assert "weakbutsecret" not in refused.text
    with site.open("ann") as ann:
        assert "Change the secret" not in text_of(ann.get(one))
        assert ann.post(f"{one}/secret", data={"secret": ""}).status_code == 403


def test_a_delivery_has_a_page_with_request_and_answer(site: Browsers, rita: httpx.Client) -> None:
    rita.post(PATH, data={"url": URL})
    one = one_of(rita.get(PATH))
    site.people.memory.webhooks.script.append(WebhookResponse(503, excerpt="<b>busy</b>"))
    push(site)
    found = re.search(rf'href="({one}/[^"]+)"', rita.get(one).text)
    assert found is not None
    shown = rita.get(found[1])
    assert "Attempt 1" in text_of(shown)
    assert "<b>busy</b>" in text_of(shown)
    assert "<b>busy" not in shown.text
    assert "dev.odfabric.dataset.head-moved" in text_of(shown)
    assert "webhook-signature: v1,..." in text_of(shown)
    again = rita.post(f"{found[1]}/replay", data={})
    assert again.status_code == 303
    assert "To be delivered again." in text_of(rita.get(again.headers["location"]))
    deliver(site)
    assert "delivered" in text_of(rita.get(found[1]))
    assert rita.get(f"{one}/none").status_code == 404


def test_deliveries_are_replayed_from_a_number_on(site: Browsers, rita: httpx.Client) -> None:
    rita.post(PATH, data={"url": URL})
    one = one_of(rita.get(PATH))
    push(site)
    refused = rita.post(f"{one}/replay", data={"from_sequence": "first"})
    assert refused.status_code == 400
    assert field(refused, "from_sequence") == "first"
    assert rita.post(f"{one}/replay", data={"from_sequence": "1"}).headers["location"] == f"{one}?done=replayed"
    deliver(site)
    assert len(site.people.memory.webhooks.received) == 2
    assert rita.post(f"{one}/replay", data={"which": "failed"}).status_code == 303
