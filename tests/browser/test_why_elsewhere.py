"""A cell whose inputs are on another node, and one that a job explains."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import expect

from odfabric.model.identity import DatasetAlias, Name
from odfabric.model.jobs.requests import PullRequest
from odfabric.model.people.account import DatasetRole
from odfabric.testing.memory_node import MemoryNode
from tests.browser.pages import Pages
from tests.browser.signed_in import World, keep
from tests.services.api.people import People
from tests.services.api.serving import TOKEN, Served, serving, working
from tests.services.api.smart_peer import connected
from tests.usecases.test_ask_why import Story
from tests.usecases.transfer.sharing import ended

CELL = "/ann/again/-/why?offset=1&column=city"
SIZES: dict[str, dict[str, Any]] = {
    "light": {"viewport": {"width": 1200, "height": 800}},
    "dark": {"viewport": {"width": 1200, "height": 800}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 320, "height": 640}},
}


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    story = Story(tmp_path_factory.mktemp("origin"))
    story.push(story.readings, "Ulm", "<b>Bonn</b>")
    story.push(story.others, "Oslo")
    story.pull(story.copied)
    story.pull(story.again)
    with serving(story.memory.node) as served:
        yield served


@pytest.fixture(scope="module")
def node(origin: Served, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[People, Served]]:
    people = People(tmp_path_factory.mktemp("node"), provenance_long_s=0.0)
    memory: MemoryNode = people.memory
    with connected(memory, origin.url, token=TOKEN), serving(people.node) as served:
        alias = DatasetAlias(Name("ann"), Name("again"))
        url = f"{origin.url}/local/again"
        request = PullRequest(dataset=None, alias=alias, url=url)
        ended(memory, memory.node.requests.pull(request, by=people.subject("ann")))
        people.grant(memory.node.repository.resolve(alias), "*", DatasetRole.READER)
        yield people, served


@pytest.fixture
def world(node: tuple[People, Served], pages: Pages) -> World:
    return World(*node, pages)


@pytest.mark.parametrize("size", SIZES)
def test_the_other_node_is_asked_and_its_answer_marked(world: World, origin: Served, size: str) -> None:
    page = world.page("ann", **SIZES[size])
    page.goto(CELL)
    ask = page.get_by_role("link", name="Ask the node that it came from")
    expect(ask).to_be_visible()
    keep(page, f"elsewhere-not-here-{size}")
    assert world.pages.axe(page) == []
    ask.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_text("claimed", exact=True)).to_be_visible()
    made_of = page.get_by_role("table", name="Rows of local/copied", exact=True)
    there = made_of.get_by_role("link", name="<b>Bonn</b>")
    expect(there).to_have_attribute("href", f"{origin.url}/local/copied/-/why?offset=1&column=city")
    keep(page, f"elsewhere-claimed-{size}")
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]  # type: ignore[index]
    assert world.pages.axe(page) == []


def test_who_has_no_account_is_not_offered_to_ask(world: World) -> None:
    page = world.page(None)
    page.goto(CELL)
    expect(page.get_by_text("It is made of records that are not on this node.")).to_be_visible()
    expect(page.get_by_role("link", name="Ask the node that it came from")).to_have_count(0)


@pytest.mark.parametrize("size", SIZES)
def test_a_node_that_is_away_is_said(world: World, size: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(world.people.node.settings.__dict__, "provenance_peers_max", 0)
    page = world.page("ann", **SIZES[size])
    page.goto(f"{CELL}&peers=true")
    expect(page.get_by_text("no further node is asked")).to_be_visible()
    expect(page.get_by_role("link", name="Ask that node again")).to_be_visible()
    keep(page, f"elsewhere-limit-{size}")
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]  # type: ignore[index]
    assert world.pages.axe(page) == []


@pytest.mark.parametrize("size", SIZES)
def test_the_page_waits_for_a_job_and_then_shows_the_answer(
    world: World, size: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(world.people.node.settings.__dict__, "provenance_wait_s_max", 0.0)
    page = world.page("ann", **SIZES[size])
    page.goto(f"{CELL}&peers=true")
    expect(page.get_by_text("a job works on it")).to_be_visible()
    keep(page, f"elsewhere-job-{size}")
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]  # type: ignore[index]
    assert world.pages.axe(page) == []
    with working(world.people.node):
        expect(page.get_by_text("claimed", exact=True)).to_be_visible()


def test_answers_are_no_markup(world: World) -> None:
    page = world.page("ann")
    page.goto(f"{CELL}&peers=true")
    expect(page.get_by_text("claimed", exact=True)).to_be_visible()
    assert json.loads(page.evaluate("JSON.stringify(document.querySelectorAll('main b').length)")) == 0
