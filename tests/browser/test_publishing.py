"""A publisher with a file and no terminal, in a real browser: from the first lines of the file to its rows, and to a webhook."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.pages import Pages
from tests.browser.signed_in import World
from tests.services.api.people import People
from tests.services.api.serving import Served, serving, working

ROWS = "".join(f'{{"event_time":"2026-01-0{day}T00:00:00Z","city":"Ulm","value":{day}}}\n' for day in range(1, 6))


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[People, Served]]:
    people = People(tmp_path_factory.mktemp("node"))
    with serving(people.node) as served, working(people.node):
        yield people, served


@pytest.fixture
def ann(node: tuple[People, Served], pages: Pages) -> Page:
    return World(*node, pages).page("ann")


def test_from_a_file_to_its_rows(ann: Page, pages: Pages, tmp_path: Path) -> None:
    file = tmp_path / "weather.ndjson"
    file.write_text(ROWS)
    ann.goto("/-/new")
    ann.get_by_role("link", name="From a file").click()
    ann.get_by_label("Name", exact=True).fill("weather")
    ann.get_by_label("Format").select_option("ndjson")
    ann.get_by_label("Sample").fill(ROWS)
    ann.get_by_role("button", name="Read the columns from the sample").click()
    expect(ann.get_by_label("Type of value")).to_have_value("Int64")
    assert pages.axe(ann) == []
    ann.get_by_label("city is part of the key").check()
    ann.get_by_role("button", name="Show the manifest").click()
    expect(ann.get_by_role("heading", level=1)).to_have_text("New dataset by a manifest")
    ann.get_by_role("button", name="Create").click()
    ann.wait_for_url("**/ann/weather/-/push")
    ann.get_by_label("File").set_input_files(file)
    ann.get_by_role("button", name="Push the file").click()
    expect(ann.get_by_text("The file is committed.")).to_be_visible()
    ann.get_by_role("link", name="Look at the rows").click()
    expect(ann.get_by_text("1 to 5 of 5")).to_be_visible()


def test_a_job_page_follows_the_job_to_its_end(ann: Page, node: tuple[People, Served], pages: Pages) -> None:
    node[0].add("ann", "watched")
    ann.goto("/ann/watched")
    ann.get_by_role("button", name="Verify").click()
    expect(ann.get_by_text("All is well")).to_be_visible()
    assert pages.axe(ann) == []


def test_a_webhook_shows_its_secret_once(ann: Page, node: tuple[People, Served], pages: Pages) -> None:
    node[0].add("ann", "followed")
    ann.goto("/ann/followed/-/subscriptions")
    ann.get_by_label("URL of the receiver").fill("https://receiver.example/hook")
    ann.get_by_role("button", name="Subscribe").click()
    expect(ann.locator("code.secret")).to_contain_text("whsec_")
    assert pages.axe(ann) == []
    ann.goto("/ann/followed/-/subscriptions")
    expect(ann.get_by_role("link", name="https://receiver.example/hook")).to_be_visible()
    expect(ann.locator("main code.secret")).to_have_count(0)
