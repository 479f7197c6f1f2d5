"""Webhooks on pages: the secret once, the log of deliveries, and who sees whose."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from odfabric.model.account import DatasetRole
from odfabric.model.identity import DatasetAlias, Name
from odfabric.model.job import Job
from odfabric.model.subscription import WebhookResponse
from odfabric.usecases.push_data import PushData
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
    node, memory = site.people.node, site.people.memory
    entry = node.resolve(DatasetAlias(Name("ann"), Name("readings")))
    memory.webhooks.script.append(WebhookResponse(500))
    job = node.accept_push(PushData(dataset=entry.id, body=iter([ROW])), by=site.people.subject("ann"))
    assert isinstance(job, Job)
    memory.finish(job)
    node.relay_outbox()
    for delivery in node.due_deliveries("test", limit=10):
        node.deliver(delivery)
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
