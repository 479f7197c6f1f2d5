"""Repositories in a real browser: both themes, accessibility, a phone, a push."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import expect

from odfabric.adapters.memory.datasets.object_store import MemoryObjectStore
from tests.browser.pages import Pages
from tests.browser.signed_in import World, keep
from tests.services.api.people import People
from tests.services.api.serving import Served, serving

SHELF = "file:///shelf/"
ADMIN_PAGE, PAGE = "/-/admin/repositories", "/ann/readings/-/copies"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[People, Served]]:
    people = People(tmp_path_factory.mktemp("node"))
    people.add("ann", "readings")
    memory = people.memory
    memory.remote_stores.share(f"{SHELF}ann/readings/", MemoryObjectStore(memory.clock))
    with serving(people.node) as served:
        yield people, served


@pytest.fixture
def world(node: tuple[People, Served], pages: Pages) -> World:
    return World(*node, pages)


def look(world: World, name: str, path: str, shown: str) -> None:
    """A screen in both themes and on a phone is accessible, and fits."""
    schemes: tuple[Any, ...] = ("light", "dark")
    for scheme in schemes:
        page = world.page(name, color_scheme=scheme, viewport={"width": 1200, "height": 800})
        page.goto(path)
        expect(page.locator("h1")).to_have_count(1)
        keep(page, f"{shown}-{scheme}")
        assert world.pages.axe(page) == []
    page = world.page(name, viewport={"width": 320, "height": 640})
    page.goto(path)
    keep(page, f"{shown}-phone")
    assert page.evaluate("document.documentElement.scrollWidth") <= 320


def test_a_dataset_goes_to_a_shelf_that_an_admin_has_named(world: World) -> None:
    look(world, "root", ADMIN_PAGE, "repositories-empty")
    look(world, "ann", PAGE, "copies-empty")
    admin = world.page("root")
    admin.goto(ADMIN_PAGE)
    admin.get_by_role("textbox", name="Name").fill("shelf")
    admin.get_by_role("textbox", name="Place").fill(SHELF)
    admin.get_by_role("button", name="Add", exact=True).click()
    expect(admin.get_by_role("status").filter(has_text="known to all accounts")).to_be_visible()
    ann = world.page("ann")
    ann.goto("/ann/readings/-/settings")
    ann.get_by_role("link", name="Copies elsewhere").click()
    ann.get_by_label("Push to").fill("shelf")
    ann.get_by_role("button", name="Push now", exact=True).click()
    ann.wait_for_url("**/-/jobs/*")
    world.people.memory.work()
    ann.goto(PAGE)
    expect(ann.get_by_role("rowheader", name="shelf/ann/readings")).to_be_visible()
    expect(ann.get_by_role("cell", name="pushed to shelf/ann/readings")).to_be_visible()
    look(world, "root", ADMIN_PAGE, "repositories")
    look(world, "ann", PAGE, "copies")
    ann.get_by_role("button", name="Forget shelf/ann/readings").click()
    expect(ann.get_by_role("status").filter(has_text="What is there stays")).to_be_visible()
    admin.get_by_role("button", name="Remove shelf").click()
    expect(admin.get_by_role("status").filter(has_text="is forgotten")).to_be_visible()
