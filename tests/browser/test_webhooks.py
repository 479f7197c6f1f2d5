"""Webhooks in a real browser: stopped ones, missed events, all scopes.

Why one has stopped and what was missed, and those of a whole account and of the node.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from odfabric.errors import Determinate
from odfabric.model.identity import DatasetAlias, Name
from odfabric.model.subscriptions.subscription import WebhookResponse
from odfabric.usecases.ingestion.push_data import PushData
from tests.browser.pages import Pages
from tests.browser.signed_in import World, keep
from tests.services.api.people import People
from tests.services.api.serving import serving

ROW = b'{"event_time":"2026-01-01T00:00:00Z","city":"A","value":1}\n'
PATH = "/ann/readings/-/subscriptions"
URL = "https://receiver.example/hook/" + "long-path-" * 12


@pytest.fixture
def world(tmp_path: Path, pages: Pages) -> Iterator[World]:
    people = People(tmp_path)
    people.add("ann", "readings")
    with serving(people.node) as served:
        yield World(people, served, pages)


def push(people: People, account: str = "ann", dataset: str = "readings", *, by: str = "ann") -> None:
    """A change, and one attempt to tell of it."""
    entry = people.node.datasets.resolve(DatasetAlias(Name(account), Name(dataset)))
    people.node.requests.push(PushData(dataset=entry.id, body=iter([ROW])), by=people.subject(by))
    people.memory.work()
    deliver(people)


def deliver(people: People) -> None:
    while found := people.node.background.due_deliveries("worker", limit=9):
        for delivery in found:
            people.node.background.deliver(delivery)


LOOKS = pytest.mark.parametrize(
    "look", [{"color_scheme": "light"}, {"color_scheme": "dark"}, {"viewport": {"width": 320, "height": 640}}]
)


@LOOKS
def test_a_consumer_finds_out_why_nothing_comes(world: World, look: dict[str, Any]) -> None:
    people, script = world.people, world.people.memory.webhooks.script
    page = world.page("ann", **look)
    page.goto(PATH)
    page.get_by_label("URL of the receiver").fill(URL)
    page.get_by_role("button", name="Subscribe").click()
    expect(page.locator("code.secret")).to_contain_text("whsec_")
    script.extend([WebhookResponse(500), Determinate("the name receiver.example does not resolve")])
    push(people)
    page.goto(PATH)
    expect(page.get_by_role("table", name="Subscriptions")).to_contain_text("retrying")
    page.get_by_role("link", name=URL).click()
    expect(page.get_by_role("table", name="Deliveries, newest first")).to_contain_text("HTTP 500")
    page.get_by_role("button", name="Send a test event").click()
    expect(page.get_by_role("status")).to_contain_text("does not resolve")
    check(world, page, "webhook-broken", look)
    page.get_by_role("button", name="Send a test event").click()
    expect(page.get_by_role("status")).to_contain_text("204")
    page.get_by_role("link", name="1", exact=True).click()
    check(world, page, "webhook-delivery", look)
    people.memory.clock.advance(600_000)
    deliver(people)
    page.goto(PATH)
    expect(page.get_by_role("table", name="Subscriptions")).to_contain_text("works")
    check(world, page, "webhooks", look)


@LOOKS
def test_an_admin_of_an_organisation_follows_all_its_datasets(world: World, look: dict[str, Any]) -> None:
    people, script = world.people, world.people.memory.webhooks.script
    people.add("acme", "levels")
    page = world.page("ada", **look)
    page.goto("/acme/levels/-/subscriptions")
    page.get_by_role("link", name="Follow all datasets of acme").click()
    expect(page.get_by_text("No webhook follows the whole account yet.")).to_be_visible()
    check(world, page, "account-webhooks-empty", look)
    page.get_by_label("URL of the receiver").fill(URL)
    page.get_by_label("dataset.watermark-advanced").uncheck()
    page.get_by_role("button", name="Subscribe").click()
    expect(page.locator("code.secret")).to_contain_text("whsec_")
    check(world, page, "account-webhook-made", look)
    people.add("acme", "made-later")
    script.append(WebhookResponse(500))
    push(people, "acme", "levels", by="ada")
    page.get_by_role("navigation", name="Account").get_by_role("link", name="Organisations").click()
    page.get_by_role("table", name="Organisations").get_by_role("link", name="acme").click()
    page.get_by_role("link", name="Webhooks").click()
    expect(page.get_by_role("table", name="Subscriptions")).to_contain_text("retrying")
    check(world, page, "account-webhooks", look)
    page.get_by_role("link", name=URL).click()
    log = page.get_by_role("table", name="Deliveries, newest first")
    expect(log).to_contain_text("acme/made-later")
    expect(log).not_to_contain_text("watermark-advanced")
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("status")).to_contain_text("Paused")
    page.get_by_role("button", name="Resume").click()
    check(world, page, "account-webhook", look)
    people.memory.clock.advance(600_000)
    deliver(people)
    page.reload()
    expect(log).not_to_contain_text("retrying")
    log.get_by_role("row").filter(has_text="dataset.head-moved").first.get_by_role("rowheader").get_by_role(
        "link"
    ).click()
    expect(page.get_by_role("link", name="acme/levels")).to_be_visible()
    check(world, page, "account-webhook-delivery", look)
    page.go_back()
    page.get_by_role("button", name="End this subscription").click()
    expect(page.get_by_role("status")).to_contain_text("has ended")


@LOOKS
def test_an_admin_follows_the_whole_node(world: World, look: dict[str, Any]) -> None:
    page = world.page("root", **look)
    page.goto("/-/admin")
    page.get_by_role("navigation", name="Admin").get_by_role("link", name="Webhooks").click()
    page.get_by_label("URL of the receiver").fill(URL)
    page.get_by_role("button", name="Subscribe").click()
    push(world.people)
    page.goto("/-/admin/webhooks")
    expect(page.get_by_role("table", name="Subscriptions")).to_contain_text("works")
    check(world, page, "node-webhooks", look)
    page.get_by_role("link", name=URL).click()
    expect(page.get_by_role("table", name="Deliveries, newest first")).to_contain_text("ann/readings")
    check(world, page, "node-webhook", look)


def check(world: World, page: Any, name: str, look: dict[str, Any]) -> None:
    keep(page, f"{name}-{look.get('color_scheme', 'phone')}")
    assert world.pages.axe(page) == []
    if "viewport" in look:
        assert page.evaluate("document.documentElement.scrollWidth") <= 320
