"""What people see when the session, a right or the node ends under a page."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlencode

import pytest
from playwright.sync_api import expect

from odfabric.model.commit import CatalogEntry
from odfabric.model.people.account import DatasetRole
from odfabric_api.sessions import PLAIN_COOKIE
from tests.browser.pages import Pages
from tests.browser.signed_in import World, keep
from tests.services.api.people import People
from tests.services.api.serving import serving

QUESTION = "/-/sql?" + urlencode({"query": "SELECT * FROM `ann/cities`"})


@pytest.fixture
def end() -> Iterator[ExitStack]:
    """Closed early, it ends the node."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def people(tmp_path: Path) -> People:
    return People(tmp_path / "node")


@pytest.fixture
def cities(people: People) -> CatalogEntry:
    made = people.add("ann", "cities")
    people.grant(made, "rita", DatasetRole.READER)
    return made


@pytest.fixture
def world(people: People, cities: CatalogEntry, pages: Pages, end: ExitStack) -> World:
    return World(people, end.enter_context(serving(people.node)), pages)


def test_a_question_without_a_session_leads_to_the_sign_in(world: World) -> None:
    page = world.page("ann")
    page.goto(QUESTION)
    page.context.clear_cookies(name=PLAIN_COOKIE)
    world.pages.expect("400")  # a stranger may ask, of public datasets
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.get_by_role("alert")).to_be_visible()
    page.goto("/-/account")
    expect(page.get_by_label("Password")).to_be_visible()


def test_a_right_that_was_taken_back_leaves_nothing_to_see(world: World, cities: CatalogEntry) -> None:
    page = world.page("rita")
    world.pages.expect("404")
    page.goto("/ann/cities")
    world.people.grant(cities, "rita", None)
    page.get_by_role("link", name="History").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Not found")
    expect(page.get_by_role("link", name="History")).to_have_count(0)
    keep(page, "right-taken-back")


def test_a_node_that_is_away_is_told_beside_the_question(world: World, end: ExitStack) -> None:
    page = world.page("ann")
    page.goto(QUESTION)
    world.pages.expect("ERR_CONNECTION_REFUSED|Failed to fetch")
    end.close()
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("The node does not answer.")
    assert page.locator("textarea[name=query]").input_value() == "SELECT * FROM `ann/cities`"
    keep(page, "node-away")
