"""A consumer whose webhook has stopped finds out why, proves the repair and gets what was missed; in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from odfabric.errors import Determinate
from odfabric.model.identity import DatasetAlias, Name
from odfabric.model.subscription import WebhookResponse
from odfabric.usecases.push_data import PushData
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


def push(people: People) -> None:
    """A change, and one attempt to tell of it."""
    entry = people.node.resolve(DatasetAlias(Name("ann"), Name("readings")))
    people.node.accept_push(PushData(dataset=entry.id, body=iter([ROW])), by=people.subject("ann"))
    people.memory.work()
    deliver(people)


def deliver(people: People) -> None:
    for delivery in people.node.due_deliveries("worker", limit=9):
        people.node.deliver(delivery)


@pytest.mark.parametrize(
    "look", [{"color_scheme": "light"}, {"color_scheme": "dark"}, {"viewport": {"width": 320, "height": 640}}]
)
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


def check(world: World, page: Any, name: str, look: dict[str, Any]) -> None:
    keep(page, f"{name}-{look.get('color_scheme', 'phone')}")
    assert world.pages.axe(page) == []
    if "viewport" in look:
        assert page.evaluate("document.documentElement.scrollWidth") <= 320
