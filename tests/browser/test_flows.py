"""Flows in a real browser: both themes, accessibility, a phone, a polled source."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import expect

from odfabric.model.identity import DatasetAlias, Name
from odfabric.model.jobs.flow import FlowKind, FlowRule, Reactive
from odfabric.usecases.ingestion.push_data import PushData
from tests.browser.pages import Pages
from tests.browser.signed_in import World, keep
from tests.services.api.people import People
from tests.services.api.serving import Served, serving
from tests.usecases.manifests import DERIVED, POLLED

ROW = b'{"event_time":"2026-01-01T00:00:00Z","city":"A","value":1}\n'
SCREENS = {"flows": "/-/flows", "flow-follows": "/ann/copied/-/flows", "flow-polls": "/ann/polled/-/flows"}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[People, Served]]:
    people = People(tmp_path_factory.mktemp("node"))
    people.add("ann", "readings")
    copied = DERIVED.replace("name: copied", "name: ann/copied")
    people.memory.add(copied.replace("{datasetRef: readings}", "{datasetRef: ann/readings, alias: readings}"))
    people.memory.add(POLLED.replace("name: polled", "name: ann/polled"))
    push(people)
    entry = people.node.datasets.resolve(DatasetAlias(Name("ann"), Name("copied")))
    rule = FlowRule(trigger=Reactive(records_min=50, wait_s=3600))
    people.node.flows.set(entry, FlowKind.TRANSFORM, rule, by=people.subject("ann"))
    push(people)
    with serving(people.node) as served:
        yield people, served


def push(people: People) -> None:
    entry = people.node.datasets.resolve(DatasetAlias(Name("ann"), Name("readings")))
    people.node.requests.push(PushData(dataset=entry.id, body=iter([ROW])), by=people.subject("ann"))
    people.memory.work()


@pytest.fixture
def world(node: tuple[People, Served], pages: Pages) -> World:
    return World(*node, pages)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_screen_keeps_the_rules_of_accessibility(world: World, scheme: Any) -> None:
    page = world.page("ann", color_scheme=scheme, viewport={"width": 1200, "height": 800})
    found = {}
    for name, path in SCREENS.items():
        page.goto(path)
        expect(page.locator("h1")).to_have_count(1)
        for details in page.locator("details > summary").all():
            details.click()
        keep(page, f"{name}-{scheme}")
        found[name] = world.pages.axe(page)
    assert {name: broken for name, broken in found.items() if broken} == {}


def test_every_screen_fits_a_phone(world: World) -> None:
    page = world.page("ann", viewport={"width": 320, "height": 640})
    for name, path in SCREENS.items():
        page.goto(path)
        keep(page, f"{name}-phone")
        assert page.evaluate("document.documentElement.scrollWidth") <= 320, name


def test_a_city_has_its_source_polled_each_hour(world: World) -> None:
    people = world.people
    world.pages.expect("400")
    page = world.page("ann")
    page.goto("/ann/polled")
    page.get_by_role("link", name="Flows").last.click()
    section = page.get_by_role("region", name="Poll the source", exact=True)
    section.get_by_text("Set when it runs", exact=True).click()
    section.get_by_label("every", exact=False).first.fill("often")
    section.get_by_role("button", name="Set the flow").click()
    expect(page.get_by_role("alert")).to_contain_text("is no duration")
    section.get_by_label("every", exact=False).first.fill("1h")
    section.get_by_role("button", name="Set the flow").click()
    expect(page.get_by_role("status").filter(has_text="The flow is set.")).to_be_visible()
    people.memory.files.add("arrivals/1.ndjson", b"oops\n", modified_at=people.memory.clock.now())
    section.get_by_role("button", name="Run now").click()
    people.memory.work()
    page.goto("/ann/polled/-/flows")
    expect(section).to_contain_text("1.ndjson")
    keep(page, "flow-failed")
    people.memory.files.add("arrivals/1.ndjson", ROW, modified_at=people.memory.clock.now())
    section.get_by_role("button", name="Run now").click()
    people.memory.work()
    page.goto("/ann/polled/-/flows")
    expect(section).to_contain_text("1 row")
