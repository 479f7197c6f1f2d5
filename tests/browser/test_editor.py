"""The editor in a real browser, under its pages' policy.

A form field with completion, reachable by keyboard.
"""

from __future__ import annotations

import json
from urllib.parse import parse_qs

import pytest
from playwright.sync_api import Locator, Page, expect
from starlette.responses import HTMLResponse

from tests.browser.pages import Pages
from tests.browser.workshop import Workshop

SCHEMA = {"com.example.flights": ["carrier", "dep delay"], "planes": ["tailnum"]}
FORM = (
    f'<script type="application/json" id="editor-schema">{json.dumps(SCHEMA)}</script>'
    '<form method="post" action="/run"><label for="sql">Query</label>'
    '<textarea id="sql" name="sql" data-editor="sql" required>{text}</textarea>'
    "<button>Run</button><button type=button data-run-selection>Run selection</button></form>"
)


@pytest.fixture
def page(pages: Pages, site: Workshop) -> Page:
    return pages(base_url=site.url)


def opened(page: Page, site: Workshop, text: str, form: str = FORM) -> Locator:
    """The editor on a page with this text, focused, its cursor at the end."""
    page.goto(site.page("editor", form.replace("{text}", text)))
    editor = page.get_by_role("textbox", name="Query")
    expect(editor).to_have_attribute("contenteditable", "true")
    editor.press("Control+End")
    return editor


def sent(page: Page, site: Workshop) -> str:
    page.get_by_role("heading", name="arrived at run").wait_for()
    ((_, _, body),) = site.got
    return parse_qs(body.decode())["sql"][0]


@pytest.fixture(autouse=True)
def answer(site: Workshop) -> None:
    site.got.clear()  # the site is that of all tests of a process
    site.answers["run"] = HTMLResponse("<h1>arrived at run</h1>")


def test_the_editor_is_the_field_of_its_form(page: Page, site: Workshop) -> None:
    editor = opened(page, site, "select 1")
    page.keyboard.type(" as b")
    expect(page.locator("textarea")).to_have_value("select 1 as b")
    editor.press("Control+Enter")
    assert sent(page, site) == "select 1 as b"


@pytest.mark.parametrize("color_scheme", ["light", "dark"])
def test_the_editor_keeps_the_rules(pages: Pages, site: Workshop, color_scheme: str) -> None:
    page = pages(base_url=site.url, color_scheme=color_scheme)
    opened(page, site, "-- all\nselect `a`, 'text', 17, cast(b as int) from planes where c is null")
    page.keyboard.type(" and tai")
    page.get_by_role("listbox").wait_for()
    assert pages.axe(page) == []


def test_the_selection_alone_is_run(page: Page, site: Workshop) -> None:
    editor = opened(page, site, "select 1;\nselect 2")
    editor.press("Shift+Home")
    page.get_by_role("button", name="Run selection").click()
    assert sent(page, site) == "select 2"


def test_htmx_runs_the_selection_and_the_field_keeps_all(page: Page, site: Workshop) -> None:
    form = FORM.replace('method="post" action="/run"', 'hx-post="/run" hx-target="#result"') + '<div id="result"></div>'
    editor = opened(page, site, "select 1;\nselect 2", form)
    editor.press("Shift+Home")
    page.get_by_role("button", name="Run selection").click()
    assert sent(page, site) == "select 2"
    expect(page.locator("textarea")).to_have_value("select 1;\nselect 2")
    site.got.clear()
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.locator("#result")).to_have_text("arrived at run")
    assert sent(page, site) == "select 1;\nselect 2"


def test_escape_and_tab_leave_the_editor(page: Page, site: Workshop) -> None:
    editor = opened(page, site, "select 1")
    editor.press("Tab")
    expect(editor).to_be_focused()
    editor.press("Escape")
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Run", exact=True)).to_be_focused()


@pytest.mark.parametrize(
    ("text", "typed", "offered"),
    [
        ("select * from ", "com", "com.example.flights"),
        ("select tai from planes p where ", "p.", "tailnum"),
        ("select * from `com.example.flights` where ", "car", "carrier"),
        ("select * from `com.example.flights` where ", "dep", "dep delay"),
        ("", "sel", "select"),
    ],
)
def test_names_of_the_schema_are_offered(page: Page, site: Workshop, text: str, typed: str, offered: str) -> None:
    opened(page, site, text)
    page.keyboard.type(typed)
    expect(page.get_by_role("option", name=offered).first).to_be_visible()


def test_a_name_with_a_space_is_put_in_with_its_quotes(page: Page, site: Workshop) -> None:
    opened(page, site, "select * from `com.example.flights` where ")
    page.keyboard.type("dep")
    page.get_by_role("option", name="dep delay").click()
    expect(page.locator("textarea")).to_have_value("select * from `com.example.flights` where `dep delay`")


def test_a_manifest_is_edited_as_yaml(page: Page, site: Workshop) -> None:
    form = FORM.replace('data-editor="sql"', 'data-editor="yaml"')
    editor = opened(page, site, "kind: DatasetSnapshot\n", form)
    page.keyboard.type("version: 1")
    expect(page.locator("textarea")).to_have_value("kind: DatasetSnapshot\nversion: 1")
    expect(editor.get_by_text("kind", exact=True)).to_be_visible()


def test_without_scripts_the_textarea_is_there(pages: Pages, site: Workshop) -> None:
    page = pages(base_url=site.url, java_script_enabled=False)
    page.goto(site.page("editor", FORM.replace("{text}", "select 1")))
    page.get_by_label("Query").fill("select 3")
    page.get_by_role("button", name="Run", exact=True).click()
    assert sent(page, site) == "select 3"
