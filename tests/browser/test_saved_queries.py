"""Saved queries and verification in a browser: kept text, accessibility."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.pages import Pages
from tests.browser.signed_in import World, keep
from tests.services.api.people import People
from tests.services.api.serving import serving, working


@pytest.fixture
def world(tmp_path: Path, pages: Pages) -> Iterator[World]:
    people = People(tmp_path / "node")
    people.add("ann", "cities")
    token = people.bearer("ann")["authorization"].removeprefix("Bearer ")
    with serving(people.node) as served, working(people.node), served.client(token) as client:
        row = '{"event_time": "2026-01-01T00:00:00Z", "city": "Ulm", "value": 1}'
        assert client.post("/ann/cities/ingest", content=row).status_code == 200
        yield World(people, served, pages)


def test_a_question_is_saved_opened_and_deleted(world: World) -> None:
    page = world.page("ann")
    page.goto("/-/sql?query=SELECT%20*%20FROM%20%60ann/cities%60")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.get_by_role("status").filter(has_text="1 row")).to_be_visible()
    page.get_by_label("Name", exact=True).fill("all cities")
    page.get_by_role("button", name="Save query").click()
    expect(page.get_by_role("status").filter(has_text="The query is saved.")).to_be_visible()
    keep(page, "sql-saved")
    assert world.pages.axe(page) == []
    page.goto("/-/sql")
    page.get_by_role("link", name="all cities").click()
    expect(page.get_by_role("textbox", name="A question in Spark SQL")).to_contain_text("ann/cities")
    page.get_by_text("Rename or delete").click()
    keep(page, "sql-saved-open")
    assert world.pages.axe(page) == []
    page.get_by_role("button", name="Delete all cities").click()
    expect(page.get_by_role("status").filter(has_text="The query is deleted.")).to_be_visible()
    expect(page.get_by_role("heading", name="Saved queries")).to_have_count(0)


def test_a_block_and_a_dataset_are_verified(world: World) -> None:
    page = world.page("ann", viewport={"width": 320, "height": 640})
    page.goto("/ann/cities")
    keep(page, "overview-never-verified")
    page.goto("/ann/cities/-/history")
    page.get_by_role("row", name="AddData").get_by_role("link").click()
    page.get_by_role("button", name="Verify this block").click()
    expect(page.get_by_role("status").filter(has_text="All hashes were computed again and fit.")).to_be_visible()
    keep(page, "block-verified")
    assert world.pages.axe(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    page.get_by_role("link", name="Overview").click()
    page.get_by_role("button", name="Verify", exact=True).click()
    expect(page.get_by_text("All is well")).to_be_visible()
    page.goto("/ann/cities")
    expect(page.get_by_text("everything was computed again")).to_be_visible()
    keep(page, "overview-verified")
    assert world.pages.axe(page) == []


def test_the_name_is_changed_in_the_settings(world: World) -> None:
    page = world.page("ann")
    page.goto("/ann/cities/-/settings")
    page.get_by_label("New name").fill("towns")
    keep(page, "settings-name")
    page.get_by_role("button", name="Rename this dataset").click()
    expect(page.get_by_role("status").filter(has_text="The dataset has its new name.")).to_be_visible()
    expect(page.get_by_role("heading", level=1)).to_contain_text("ann/towns")
    assert world.pages.axe(page) == []
