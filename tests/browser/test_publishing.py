"""A publisher with a file in a real browser, without a terminal.

From the first lines of the file to its rows, and to a webhook.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.pages import Pages
from tests.browser.signed_in import World, keep
from tests.services.api.people import People
from tests.services.api.serving import Served, serving, working

GOOD = "".join(f"2026-01-{day:02}T00:00:00Z,Ulm,{day}\n" for day in range(1, 29))
FILE = f"when,city,value\n{GOOD}2026-02-01T00:00:00Z,Bonn,many\n"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[People, Served]]:
    people = People(tmp_path_factory.mktemp("node"))
    with serving(people.node) as served, working(people.node):
        yield people, served


@pytest.fixture
def ann(node: tuple[People, Served], pages: Pages) -> Page:
    return World(*node, pages).page("ann")


def test_from_a_file_with_a_wrong_row_to_a_dataset(ann: Page, pages: Pages, tmp_path: Path) -> None:
    file = tmp_path / "weather.csv"
    file.write_text(FILE)
    ann.goto("/-/new")
    ann.get_by_role("link", name="From a file").click()
    assert pages.axe(ann) == []
    ann.get_by_label("File", exact=False).set_input_files(file)
    ann.get_by_role("button", name="Upload and read").click()
    expect(ann.get_by_role("heading", level=1)).to_have_text("New dataset from weather.csv")
    expect(ann.get_by_text("1 of 29 values are no integers, the first in line 30:")).to_be_visible()
    expect(ann.get_by_label("Type of value")).to_have_value("String")
    assert pages.axe(ann) == []
    # Numbers were meant: the trial says which row is in the way.
    ann.get_by_label("Type of value").select_option("Int64")
    ann.get_by_role("button", name="Try it").click()
    expect(ann.get_by_text("The push would be refused")).to_be_visible()
    expect(ann.get_by_role("row", name="30 value many")).to_contain_text("write a whole number such as 12")
    expect(ann.get_by_label("Type of value")).to_have_value("Int64")
    assert pages.axe(ann) == []
    keep(ann, "file-refused")
    # Left as they are, they all go in.
    ann.get_by_label("Type of value").select_option("String")
    ann.get_by_role("button", name="Try it").click()
    expect(ann.get_by_text("+29")).to_be_visible()
    assert pages.axe(ann) == []
    keep(ann, "file-tried")
    ann.get_by_role("button", name="Make the dataset and push the file").click()
    ann.get_by_role("link", name="Look at the rows").click()
    expect(ann.get_by_text("1 to 29 of 29")).to_be_visible()


def test_without_scripts_a_file_is_uploaded_by_the_form(
    node: tuple[People, Served], pages: Pages, tmp_path: Path
) -> None:
    file = tmp_path / "more.csv"
    file.write_text(FILE)
    page = World(*node, pages).page("ann", java_script_enabled=False)
    page.goto("/-/new/file")
    page.get_by_label("File", exact=False).set_input_files(file)
    page.get_by_role("button", name="Upload and read").click()
    expect(page.get_by_text("1 of 29 values are no integers, the first in line 30:")).to_be_visible()


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
