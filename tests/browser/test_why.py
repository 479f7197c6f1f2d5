"""From a cell of a derivative to the block of its source rows, in a real browser."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import expect

from odfabric.model.people.account import DatasetRole
from tests.browser.pages import Pages
from tests.browser.signed_in import World, keep
from tests.services.api.datasets.test_jobs import finished
from tests.services.api.people import People
from tests.services.api.serving import Served, serving, working
from tests.usecases.manifests import DERIVED

CELL = "/ann/cities.copied/-/why?offset=1&column=city"
STATES = {
    "hidden": ("pia", CELL, "you may not read this dataset; the answer has only the number of its records"),
    "root": ("ann", "/ann/cities/-/why?offset=1&column=city", "It was ingested by block"),
    "none": ("ann", "/ann/cities.copied/-/why?offset=9&column=city", "its offsets are 0 to 2"),
    "column": ("ann", "/ann/cities.copied/-/why?offset=1&column=citi", "did you mean `city`?"),
}
"""Pages that end early: who looks, at what, and what they say."""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[People, Served]]:
    people = People(tmp_path_factory.mktemp("node"))
    with serving(people.node) as served, working(people.node):
        people.add("ann", "cities")
        derived = DERIVED.replace("datasetRef: readings", "datasetRef: ann/cities, alias: readings")
        people.grant(people.add("ann", "cities.copied", manifest=derived), "*", DatasetRole.READER)
        with served.client(people.bearer("ann")["authorization"].removeprefix("Bearer ")) as client:
            lines = [
                json.dumps({"event_time": "2026-01-01T00:00:00Z", "city": city, "value": value})
                for value, city in enumerate(("Ulm", "Bonn", "<b>Kiel</b>"))
            ]
            assert client.post("/ann/cities/ingest", content="\n".join(lines)).status_code == 200
            answer = client.post("/ann/cities.copied/pull", json={})
            if answer.status_code == 202:
                finished(client, answer)
        yield people, served


@pytest.fixture
def world(node: tuple[People, Served], pages: Pages) -> World:
    return World(*node, pages)


def test_from_a_cell_to_the_block_of_its_source_in_four_clicks(world: World) -> None:
    page = world.page("ann")
    page.goto("/ann/cities.copied/-/rows")
    page.get_by_role("link", name="Bonn").click()
    expect(page.get_by_role("heading", name="Why this cell?")).to_be_visible()
    source = page.get_by_role("table", name="Rows of ann/cities", exact=True)
    expect(source.get_by_role("link", name="Bonn")).to_be_visible()
    expect(page.get_by_text("The query over these rows alone gives this row again.")).to_be_visible()
    source.get_by_role("link", name="Bonn").click()
    expect(page.get_by_text("It was ingested by block")).to_be_visible()
    page.get_by_role("link", name="Show the block").click()
    expect(page.get_by_text("AddData").first).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_keeps_the_rules_of_accessibility(world: World, scheme: Any) -> None:
    page = world.page("ann", color_scheme=scheme, viewport={"width": 1200, "height": 800})
    page.goto(CELL)
    expect(page.get_by_role("heading", name="Made of")).to_be_visible()
    keep(page, f"why-{scheme}")
    assert world.pages.axe(page) == []
    page.goto("/ann/cities.copied/-/rows")
    keep(page, f"why-rows-{scheme}")
    assert world.pages.axe(page) == []


@pytest.mark.parametrize("state", STATES)
def test_pages_that_end_early_say_why(world: World, state: str) -> None:
    name, address, words = STATES[state]
    page = world.page(name, color_scheme="dark", viewport={"width": 320, "height": 640})
    page.goto(address)
    expect(page.get_by_text(words)).to_be_visible()
    keep(page, f"why-{state}")
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    assert world.pages.axe(page) == []


def test_the_page_fits_a_phone(world: World) -> None:
    page = world.page("ann", viewport={"width": 320, "height": 640})
    page.goto(CELL)
    expect(page.get_by_role("heading", name="Made of")).to_be_visible()
    keep(page, "why-phone")
    assert page.evaluate("document.documentElement.scrollWidth") <= 320


def test_the_same_without_scripts(world: World) -> None:
    page = world.page("ann", java_script_enabled=False)
    page.goto(CELL)
    expect(page.get_by_role("heading", name="Made of")).to_be_visible()
