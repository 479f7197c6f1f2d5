"""The console in a real browser: every screen in both themes and on a phone.

By keyboard, without scripts, and with hostile texts.

Screenshots are kept in the folder that ODF_TEST_SCREENSHOTS names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Page, expect

from odfabric.model.people.account import DatasetRole
from tests.browser.pages import Pages
from tests.browser.signed_in import World, keep
from tests.services.api.people import People
from tests.services.api.serving import Served, serving, working
from tests.usecases.manifests import DERIVED, ROOT

PAYLOADS = (
    "<script>document.title='hacked'</script>",
    "<img src=x onerror=\"document.title='hacked'\">",
    "\"><svg onload=document.title='hacked'>",
    "javascript:document.title='hacked'",
    "{{ 7 * 7 }}{% raw %}",
    "</textarea></title><h1>hacked</h1>",
    "' onmouseover='document.title=1",
    "\u202eabc\u2066 \x1b[31mred",
)
"""Texts that try to be more than texts."""

SCREENS = {
    "home": "/",
    "account": "/ann",
    "overview": "/ann/cities",
    "rows": "/ann/cities/-/rows",
    "state": "/ann/cities/-/rows?view=state",
    "history": "/ann/cities/-/history",
    "lineage": "/ann/cities/-/lineage",
    "sql": "/-/sql?query=SELECT%20*%20FROM%20%60ann/cities%60",
    "new": "/-/new",
    "new-manifest": "/-/new/manifest",
    "new-sql": "/-/new/sql",
    "new-file": "/-/new/file",
    "push": "/ann/cities/-/push",
    "subscriptions": "/ann/cities/-/subscriptions",
    "dataset-jobs": "/ann/cities/-/jobs",
    "dataset-settings": "/ann/cities.hourly/-/settings",
    "dataset-variables": "/ann/cities/-/variables",
    "jobs": "/-/jobs",
    "empty-home": "/?q=nothing-has-this-name",
    "empty-rows": "/ann/cities.hourly/-/rows",
    "empty-profile": "/ann/cities.hourly/-/profile",
    "missing": "/ann/nothing-here",
}


def described(payload: str) -> str:
    text = json.dumps(payload)
    return f"""
  - kind: SetInfo
    description: {text}
    keywords: [{text}]
  - kind: SetAttachments
    attachments: {{kind: Embedded, items: [{{path: README.md, content: {text}}}]}}
"""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[People, Served]]:
    people = People(tmp_path_factory.mktemp("node"))
    with serving(people.node) as served, working(people.node):
        cities = people.add("ann", "cities", manifest=ROOT + described("Temperatures of **cities**"))
        people.grant(cities, "*", DatasetRole.READER)
        derived = DERIVED.replace("datasetRef: readings", "datasetRef: ann/cities, alias: readings")
        people.add("ann", "cities.hourly", manifest=derived)
        with served.client(people.bearer("ann")["authorization"].removeprefix("Bearer ")) as client:
            for day in (1, 2):
                lines = [
                    json.dumps({"event_time": f"2026-01-0{day}T00:00:00Z", "city": city, "value": value})
                    for value, city in enumerate(("Ulm", "Bonn", *PAYLOADS))
                ]
                assert client.post("/ann/cities/ingest", content="\n".join(lines)).status_code == 200
        people.node.searching.catch_up()
        yield people, served


@pytest.fixture
def world(node: tuple[People, Served], pages: Pages) -> World:
    return World(*node, pages)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_screen_keeps_the_rules_of_accessibility(world: World, scheme: Any) -> None:
    world.pages.expect("404")
    found = {}
    page = world.page("ann", color_scheme=scheme, viewport={"width": 1200, "height": 800})
    for name, path in SCREENS.items():
        page.goto(path)
        expect(page.locator("h1")).to_have_count(1)
        keep(page, f"{name}-{scheme}")
        found[name] = world.pages.axe(page)
    assert {name: broken for name, broken in found.items() if broken} == {}


def test_every_screen_fits_a_phone(world: World) -> None:
    world.pages.expect("404")
    too_wide = {}
    page = world.page("ann", viewport={"width": 320, "height": 640})
    for name, path in SCREENS.items():
        page.goto(path)
        width = page.evaluate("document.documentElement.scrollWidth")
        keep(page, f"{name}-phone")
        if width > 320:
            too_wide[name] = width
    assert too_wide == {}


def test_the_way_from_search_to_rows_by_keyboard(world: World) -> None:
    page = world.page("ann")
    page.goto("/")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.get_by_role("searchbox", name="Search datasets").focus()
    page.keyboard.type("hourly")
    page.keyboard.press("Enter")
    page.wait_for_url("**/?q=hourly")
    page.get_by_role("link", name="ann/cities.hourly").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/ann/cities.hourly")
    page.get_by_role("link", name="Lineage").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("listitem").filter(has_text="ann/cities → ann/cities.hourly")).to_be_visible()


def test_the_same_without_scripts(world: World) -> None:
    page = world.page("ann", java_script_enabled=False)
    page.goto("/-/sql")
    page.get_by_label("A question in Spark SQL").fill("SELECT * FROM `ann/cities`")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.get_by_role("table", name="Answer")).to_be_visible()
    expect(page.get_by_role("cell", name="Bonn").first).to_be_visible()


def test_a_question_is_edited_run_and_refused_at_its_place(world: World) -> None:
    page = world.page("ann")
    world.pages.expect("400")
    page.goto("/-/sql?query=SELECT")
    editor = page.get_by_role("textbox", name="A question in Spark SQL")
    editor.click()
    page.keyboard.type(" nothing")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("alert")).to_contain_text("Line 1, column 1:")
    assert "SELECT nothing" in page.locator("textarea[name=query]").input_value()
    keep(page, "sql-refused")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_an_answer_is_a_table_and_a_chart(world: World, scheme: Any) -> None:
    page = world.page("ann", color_scheme=scheme)
    page.goto("/-/sql?" + urlencode({"query": "SELECT * FROM `ann/cities`"}))
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_text("Chart", exact=True).click()
    page.get_by_label("Kind").select_option("line")
    page.get_by_label("Across").select_option("city")
    page.get_by_role("button", name="Draw").click()
    expect(page.get_by_role("img", name="value over city")).to_be_visible()
    expect(page.get_by_role("table", name="Answer")).to_be_visible()
    keep(page, f"chart-{scheme}")
    assert world.pages.axe(page) == []


def test_what_is_shown_to_a_stranger_is_public(world: World) -> None:
    page = world.page(None)
    page.goto("/")
    expect(page.get_by_role("link", name="ann/cities", exact=True)).to_be_visible()
    expect(page.get_by_role("link", name="ann/cities.hourly")).to_have_count(0)
    page.get_by_role("link", name="Sign in").click()
    page.wait_for_url("**/login?then=*")


def test_a_link_opens_the_page_of_a_block(world: World) -> None:
    page = world.page("ann")
    page.goto("/ann/cities/-/history?events=data")
    page.get_by_role("row").nth(1).get_by_role("link").click()
    expect(page.get_by_role("heading", level=2)).to_contain_text("AddData")
    expect(page.get_by_text(f"append {2 + len(PAYLOADS)}")).to_be_visible()
    assert world.pages.axe(page) == []
    page.get_by_role("link", name="State after this block").click()
    page.wait_for_url(re.compile("view=state&block="))
    keep(page, "state-of-a-block")


def test_hostile_texts_are_shown_as_they_are(world: World) -> None:
    page = world.page("pia")
    for number, payload in enumerate(PAYLOADS):
        shown = payload.replace("\x1b", "")  # no YAML holds it
        world.people.add("pia", f"hostile-{number}", manifest=ROOT + described(shown))
        page.goto(f"/pia/hostile-{number}")
        assert_harmless(page)
        assert shown in (page.locator("p.lead").text_content() or "")
        page.goto("/-/sql?" + urlencode({"query": f"`{payload}`"}))
        assert_harmless(page)
    for path in ("/", "/pia", "/pia/hostile-0/-/history"):
        page.goto(path)
        assert_harmless(page)


def test_hostile_cells_are_shown_as_they_are(world: World) -> None:
    page = world.page("ann")
    page.goto("/ann/cities/-/rows")
    assert_harmless(page)
    cells = page.locator("tbody").text_content() or ""
    for payload in PAYLOADS:
        assert re.sub("[\x1b\u202e\u2066]", lambda sign: f"U+{ord(sign[0]):04X}", payload) in cells


def assert_harmless(page: Page) -> None:
    """No text has become an element, an attribute or a script that ran."""
    assert "hacked" not in page.title()
    assert page.locator("h1").count() == 1
    assert page.locator("[onerror], [onload], [onmouseover], img").count() == 0


def test_the_state_travels_in_time(world: World) -> None:
    page = world.page("ann", viewport={"width": 1200, "height": 800})
    page.goto("/ann/cities/-/rows?view=state")
    slider = page.get_by_role("slider", name="Known after block")
    newest = int(slider.get_attribute("max") or "0")
    expect(page.get_by_role("status").filter(has_text=f"Known after block {newest},")).to_be_visible()
    rows = page.locator("#rows tbody tr")
    count = rows.count()
    slider.focus()
    page.keyboard.press("ArrowLeft")
    expect(page.get_by_role("status").filter(has_text=f"Known after block {newest - 1},")).to_be_visible()
    expect(slider).to_be_focused()
    expect(rows).to_have_count(count // 2)
    assert f"number={newest - 1}" in page.url
    page.keyboard.press("ArrowRight")
    expect(rows).to_have_count(count)
    page.get_by_label("Held at an event time").fill("2026-01-01T12:00:00Z")
    page.keyboard.press("Enter")
    expect(page.get_by_text("held at 2026-01-01T12:00:00Z")).to_be_visible()
    expect(rows).to_have_count(count // 2)
    keep(page, "state-in-time")
    assert world.pages.axe(page) == []
    page.reload()
    expect(rows).to_have_count(count // 2)
    expect(page.get_by_label("Held at an event time")).to_have_value("2026-01-01T12:00:00Z")


def test_the_state_travels_without_scripts(world: World) -> None:
    page = world.page("ann", java_script_enabled=False)
    page.goto("/ann/cities/-/rows?view=state")
    page.get_by_label("or known at a time").fill("1970-01-01T00:00:00Z")
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_role("alert")).to_contain_text("state not found: at 1970-01-01T00:00:00Z")
    page.get_by_label("or known at a time").fill("9999-01-01T00:00:00Z")
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_role("status").filter(has_text="Known after block")).to_be_visible()
