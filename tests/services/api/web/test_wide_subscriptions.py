"""Webhooks of an account and of the node on pages, like a dataset's.

With the names of datasets that the visitor may read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from odfabric.formats.webhooks.event_catalogue import CATALOGUE
from odfabric.model.commit import CatalogEntry
from odfabric.model.identity import DatasetAlias, Name
from odfabric.model.jobs.job import Job
from odfabric.model.people.credential import Scope
from odfabric.model.subscriptions.event import EventType
from odfabric.model.subscriptions.subscription import SubscriptionState, WebhookResponse
from odfabric.usecases.ingestion.push_data import PushData
from tests.services.api.browsing import Browsers, alert_of, field, text_of
from tests.services.api.people import People
from tests.services.api.serving import serving

ROW = b'{"event_time":"2026-01-01T00:00:00Z","city":"A","value":1}\n'
URL = "https://receiver.example/hook?a=1&b=<i>"
ALL = {each.value: "on" for each in EventType}


class Spot(NamedTuple):
    """Whose webhooks, who manages them, and a dataset that they follow."""

    path: str
    who: str
    dataset: str


OWN = Spot("/-/accounts/ann/webhooks", "ann", "ann/readings")
ORGANISATION = Spot("/-/accounts/acme/webhooks", "ada", "acme/levels")
NODE = Spot("/-/admin/webhooks", "root", "ann/readings")
EVERYWHERE = pytest.mark.parametrize("spot", [OWN, ORGANISATION, NODE], ids=["account", "organisation", "node"])


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Browsers]:
    people = People(tmp_path)
    people.add("ann", "readings")
    people.add("acme", "levels")
    with serving(people.node) as served:
        yield Browsers(people, served)


def entry_of(site: Browsers, dataset: str) -> CatalogEntry:
    account, _, name = dataset.partition("/")
    return site.people.node.datasets.resolve(DatasetAlias(Name(account), Name(name)))


def push(site: Browsers, spot: Spot) -> None:
    """A commit, and an attempt to deliver it."""
    node, owner = site.people.node, spot.dataset.partition("/")[0]
    by = site.people.subject("ada" if owner == "acme" else owner)
    job = node.requests.push(PushData(dataset=entry_of(site, spot.dataset).id, body=iter([ROW])), by=by)
    assert isinstance(job, Job)
    site.people.memory.finish(job)
    deliver(site)


def deliver(site: Browsers) -> None:
    node = site.people.node
    node.background.relay_outbox()
    for _ in range(9):
        for delivery in node.background.due_deliveries("test", limit=10):
            node.background.deliver(delivery)


def linked(page: httpx.Response, below: str) -> str:
    """The first link to a page below a path."""
    found = re.search(rf'href="({re.escape(below)}/[\w.-]+)"', page.text)
    assert found is not None, text_of(page)
    return found[1]


def ticked(page: httpx.Response) -> set[str]:
    return set(re.findall(r'<input type="checkbox" name="([\w.-]+)" checked>', page.text)) & set(ALL)


@EVERYWHERE
def test_a_first_webhook_is_made_and_its_secret_shown_once(site: Browsers, spot: Spot) -> None:
    with site.open(spot.who) as browser:
        empty = browser.get(spot.path)
        assert "yet. Make one to have events of all" in text_of(empty)
        assert ticked(empty) == set(ALL)
        for type, description in CATALOGUE.items():
            assert f"{type.value} {description.summary}" in text_of(empty)
        made = browser.post(spot.path, data={"url": URL, "secret": "", **ALL})
        assert (made.status_code, made.headers["cache-control"]) == (200, "no-store")
        secret = re.search(r'<code class="secret">(whsec_[^<]+)</code>', made.text)
        assert secret is not None
        listed = browser.get(spot.path)
        one = browser.get(linked(listed, spot.path))
    assert secret[1] not in listed.text + one.text
    assert f"{URL} nothing to deliver yet" in text_of(listed)
    assert "<i>" not in listed.text
    assert "Types of events all" in text_of(one)
    assert "no such event has happened since" in text_of(one)


@EVERYWHERE
def test_what_is_wrong_is_said_and_what_was_typed_stays(site: Browsers, spot: Spot) -> None:
    with site.open(spot.who) as browser:
        none = browser.post(spot.path, data={"url": URL})
        assert none.status_code == 400
        assert "one type of events at least" in alert_of(none)
        assert (field(none, "url"), ticked(none)) == (URL, set())
        weak = browser.post(spot.path, data={"url": URL, "secret": "whsec_weakbutsecret", "flow.failed": "on"})
        assert weak.status_code == 400
        assert "weakbutsecret" not in weak.text
        assert ticked(weak) == {"flow.failed"}
        assert browser.post(spot.path, data={"url": URL, "columns": "city", **ALL}).status_code == 400
        assert "receiver.example" not in browser.get(spot.path).text


@EVERYWHERE
def test_the_log_names_the_dataset_and_why_it_fails(site: Browsers, spot: Spot) -> None:
    site.people.memory.webhooks.script.append(WebhookResponse(500, excerpt="<b>busy</b>"))
    with site.open(spot.who) as browser:
        browser.post(spot.path, data={"url": URL, "dataset.head-moved": "on", "rows": "yes"})
        push(site, spot)
        listed = browser.get(spot.path)
        assert "retrying next attempt in" in text_of(listed)
        log = browser.get(linked(listed, spot.path))
        assert "Types of events dataset.head-moved" in text_of(log)
        assert f"HTTP 500 the receiver answered 500 {spot.dataset} dataset.head-moved" in text_of(log)
        assert browser.get(linked(log, f"/{spot.dataset}/-/blocks")).status_code == 200
        shown = browser.get(linked(log, log.url.path))
        assert f"Dataset {spot.dataset}" in text_of(shown)
        assert "<b>busy</b>" in text_of(shown)
        assert "<b>busy" not in shown.text
        again = browser.post(f"{shown.url.path}/replay", data={})
        assert "To be delivered again." in text_of(browser.get(again.headers["location"]))
        deliver(site)
        assert "works" in text_of(browser.get(spot.path))


@EVERYWHERE
def test_it_is_paused_resumed_tried_given_another_secret_replayed_and_ended(site: Browsers, spot: Spot) -> None:
    with site.open(spot.who) as browser:
        browser.post(spot.path, data={"url": URL, **ALL})
        one = linked(browser.get(spot.path), spot.path)
        for state, notice in (("paused", "Paused: what is to be delivered waits."), ("active", "Resumed:")):
            done = browser.post(f"{one}/state", data={"state": state})
            assert done.headers["location"].startswith(f"{one}?done=")
            assert notice in text_of(browser.get(done.headers["location"]))
        assert "accepted HTTP 204" in text_of(browser.post(f"{one}/test", data={}))
        changed = browser.post(f"{one}/secret", data={"secret": "", "overlap_hours": "1"})
        assert '<code class="secret">whsec_' in changed.text
        assert browser.post(f"{one}/replay", data={"from_sequence": "first"}).status_code == 400
        assert browser.post(f"{one}/replay", data={"which": "failed"}).headers["location"] == f"{one}?done=replayed"
        ended = browser.post(f"{one}/remove", data={})
        assert ended.headers["location"] == f"{spot.path}?done=unsubscribed"
        assert "receiver.example" not in browser.get(ended.headers["location"]).text
        assert browser.get(one).status_code == 404


@EVERYWHERE
def test_the_page_says_why_the_node_has_disabled_it(site: Browsers, spot: Spot) -> None:
    ports = site.people.node.ports
    with site.open(spot.who) as browser:
        browser.post(spot.path, data={"url": URL, **ALL})
        one = linked(browser.get(spot.path), spot.path)
        ports.subscriptions.set_state(
            one.rpartition("/")[2], SubscriptionState.DISABLED, now=ports.clock.now(), reason="<i>away</i> for days"
        )
        for page in (browser.get(spot.path), browser.get(one)):
            assert "disabled <i>away</i> for days" in text_of(page)
            assert "<i>away" not in page.text


@EVERYWHERE
def test_a_form_of_another_site_does_nothing(site: Browsers, spot: Spot) -> None:
    with site.open(spot.who) as browser:
        foreign = {"origin": "https://evil.example", "sec-fetch-site": "cross-site"}
        assert browser.post(spot.path, data={"url": URL, **ALL}, headers=foreign).status_code == 403
        assert "receiver.example" not in browser.get(spot.path).text


def test_a_page_names_no_dataset_that_the_visitor_may_not_read(site: Browsers) -> None:
    """A token that administers but does not read sees that something was sent only."""
    with site.open("root") as browser:
        browser.post(NODE.path, data={"url": URL, **ALL})
        push(site, NODE)
        log = linked(browser.get(NODE.path), NODE.path)
        delivery = linked(browser.get(log), log)
        assert "ann/readings" in browser.get(log).text
        assert "ann/readings" in unescape(browser.get(delivery).text)
    head = str(site.people.node.datasets.head(entry_of(site, "ann/readings")).hash)
    token = site.people.bearer("root", scopes=frozenset({Scope.ADMIN}))
    with site.open(None) as other:
        for path in (log, delivery):
            shown = other.get(path, headers=token)
            assert shown.status_code == 200
            assert "one that is gone, or that you may not read" in text_of(shown)
            assert "readings" not in shown.text
            assert head not in shown.text
        assert "shown only to those who may see the event" in text_of(shown)


def test_the_owner_sees_what_was_sent_of_a_deleted_dataset(site: Browsers) -> None:
    with site.open("ann") as ann:
        ann.post(OWN.path, data={"url": URL, "dataset.deleted": "on"})
        ann.post("/ann/readings/-/delete", data={"confirm": "ann/readings"})
        deliver(site)
        log = ann.get(linked(ann.get(OWN.path), OWN.path))
        assert "one that is gone, or that you may not read dataset.deleted" in text_of(log)
        assert '"alias":"ann/readings"' in text_of(ann.get(linked(log, log.url.path)))


def test_only_who_manages_the_account_or_the_node_reaches_its_webhooks(site: Browsers) -> None:
    refused = {("max", ORGANISATION): 403, ("rita", OWN): 403, ("ada", NODE): 404, (None, OWN): 303, (None, NODE): 303}
    for (who, spot), status in refused.items():
        with site.open(who) as browser:
            assert (spot, browser.get(spot.path).status_code) == (spot, status)
            assert browser.post(spot.path, data={"url": URL, **ALL}).status_code in (status, 401)
    with site.open("root") as root:
        root.post(OWN.path, data={"url": URL, **ALL})
        one = linked(root.get(OWN.path), OWN.path)
        assert root.get(one.replace(OWN.path, NODE.path)).status_code == 404
        assert root.get(one.replace(OWN.path, ORGANISATION.path)).status_code == 404
        assert root.get("/-/accounts/nobody/webhooks").status_code == 404
    with site.open("ann") as ann:
        shown = ann.get(one)
        assert "receiver.example" in shown.text
        assert "Change the secret" not in text_of(shown)
        assert ann.post(f"{one}/secret", data={"secret": ""}).status_code == 403


def test_pages_lead_to_the_webhooks_of_accounts_and_of_the_node(site: Browsers) -> None:
    def links(who: str, page: str, spot: Spot) -> bool:
        with site.open(who) as browser:
            return f'href="{spot.path}"' in browser.get(page).text

    assert links("ann", "/-/account", OWN)
    assert links("ann", "/ann/readings/-/subscriptions", OWN)
    assert links("ada", "/acme/levels/-/subscriptions", ORGANISATION)
    assert not links("max", "/acme/levels/-/subscriptions", ORGANISATION)
    assert links("ada", "/-/orgs/acme", ORGANISATION)
    assert not links("max", "/-/orgs/acme", ORGANISATION)
    assert links("root", "/-/admin", NODE)
    assert links("ada", ORGANISATION.path, Spot("/-/accounts/ada/webhooks", "ada", ""))
