"""The console's own scripts in a real browser, under its policy."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from starlette.responses import HTMLResponse, JSONResponse, Response

from tests.browser.pages import Pages
from tests.browser.workshop import TOKEN, Workshop


@pytest.fixture
def page(pages: Pages, site: Workshop) -> Page:
    site.got.clear()
    return pages(base_url=site.url, color_scheme="light")


def test_a_button_copies_its_text_or_that_of_an_element(page: Page, site: Workshop) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(
        site.page(
            "copy",
            '<button data-copy="f1620abc">Hash</button><pre id="s">odf tail x</pre><button data-copy data-copy-from="s">Command</button>',
        )
    )
    for button, text in (("Hash", "f1620abc"), ("Command", "odf tail x")):
        page.get_by_role("button", name=button).click()
        expect(page.get_by_role("status")).to_have_text("Copied")
        assert page.evaluate("navigator.clipboard.readText()") == text


def test_a_button_copies_where_the_browser_has_no_clipboard_interface(page: Page, site: Workshop) -> None:
    page.add_init_script("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
    page.goto(site.page("copy-plain", '<button data-copy="f1620abc">Hash</button><label>Paste <input></label>'))
    page.get_by_role("button", name="Hash").click()
    expect(page.get_by_role("status")).to_have_text("Copied")
    page.get_by_label("Paste").press("Control+v")
    expect(page.get_by_label("Paste")).to_have_value("f1620abc")


def test_a_chosen_theme_is_kept_for_the_next_page(page: Page, site: Workshop) -> None:
    page.goto(site.page("theme", "<button data-theme-toggle>Theme</button>"))
    root = page.locator("html")
    for theme in ("auto", "light", "dark"):
        expect(root).to_have_attribute("data-theme", theme)
        expect(page.get_by_role("button", name=f"Theme: {theme}")).to_be_visible()
        if theme != "dark":
            page.get_by_role("button", name="Theme").click()
    page.goto(
        site.page(
            "theme-next",
            "<label>Theme <select data-theme-toggle><option>auto<option>light<option>dark</select></label>",
        )
    )
    expect(root).to_have_attribute("data-theme", "dark")
    expect(page.get_by_label("Theme")).to_have_value("dark")
    page.get_by_label("Theme").select_option("light")
    expect(root).to_have_attribute("data-theme", "light")


def test_a_form_that_deletes_wants_the_name_typed(page: Page, site: Workshop) -> None:
    form = '<form method="post" action="/deleted" data-confirm-name="acme/x"><label>Name <input name="n"></label><button>Delete</button></form>'
    page.goto(site.page("confirm", form))
    page.get_by_label("Name").fill("acme/y")
    page.get_by_role("button", name="Delete").click()
    assert page.get_by_label("Name").evaluate("field => field.validationMessage") == "Type acme/x to confirm."
    assert site.got == []
    page.get_by_label("Name").fill("acme/x")
    with page.expect_navigation():
        page.get_by_role("button", name="Delete").click()
    assert [(path, body) for path, _, body in site.got] == [("deleted", b"n=acme%2Fx")]


UPLOAD = (
    '<form data-upload="/{to}" data-then="/job-{{id}}"><label>File <input type="file"></label>'
    '<progress hidden></progress><p role="alert"></p><button>Push</button></form>'
)


def push(page: Page, site: Workshop, to: str, file: Path) -> None:
    page.goto(site.page(f"page-{to}", UPLOAD.format(to=to)))
    page.get_by_label("File").set_input_files(file)
    page.get_by_role("button", name="Push").click()


def test_a_file_is_pushed_as_it_is_and_its_job_is_shown(page: Page, site: Workshop, tmp_path: Path) -> None:
    file = tmp_path / "flights.ndjson"
    file.write_bytes(b'{"a": 1}\n' * 1000)
    site.answers["ingest"] = JSONResponse({"job": {"id": "7"}}, status_code=202, headers={"location": "/jobs/7"})
    push(page, site, "ingest", file)
    expect(page.get_by_role("heading")).to_have_text("arrived at job-7")
    ((_, headers, body),) = site.got
    assert body == file.read_bytes()
    assert (headers["content-type"], headers["x-csrf-token"]) == ("application/x-ndjson", TOKEN)


def test_a_refused_file_shows_the_problem_with_its_hint(
    pages: Pages, page: Page, site: Workshop, tmp_path: Path
) -> None:
    file = tmp_path / "flights.csv"
    file.write_bytes(b"a\nx\n")
    problem = {"message": "line 2, column a: <b>x</b> is no integer", "hint": "Correct the value."}
    site.answers["refused"] = JSONResponse(problem, status_code=422, media_type="application/problem+json")
    pages.expect("status of 422")
    push(page, site, "refused", file)
    expect(page.get_by_role("alert")).to_have_text("line 2, column a: <b>x</b> is no integer\nCorrect the value.")
    expect(page.get_by_role("progressbar")).to_be_hidden()
    push(page, site, "refused", tmp_path / "flights.csv")
    expect(page.get_by_role("alert")).to_contain_text("Correct the value.")


def test_a_file_of_unknown_format_is_not_sent(page: Page, site: Workshop, tmp_path: Path) -> None:
    file = tmp_path / "flights.constructor"
    file.write_bytes(b"a")
    push(page, site, "unknown", file)
    expect(page.get_by_role("alert")).to_contain_text("The format of flights.constructor is not known")
    assert site.got == []


def test_htmx_swaps_and_sends_the_token_and_adds_no_style(page: Page, site: Workshop) -> None:
    site.answers["part"] = HTMLResponse("<p>swapped</p>")
    page.goto(site.page("swap", '<button hx-post="/part" hx-target="#to">Load</button><div id="to"></div>'))
    page.get_by_role("button", name="Load").click()
    expect(page.locator("#to")).to_have_text("swapped")
    ((_, headers, _),) = site.got
    assert headers["x-csrf-token"] == TOKEN
    assert page.evaluate("document.adoptedStyleSheets.length") == 0


def test_a_stream_of_the_server_is_shown_as_it_comes(page: Page, site: Workshop) -> None:
    site.answers["stream"] = Response("id: 1\ndata: <p>live</p>\n\n", media_type="text/event-stream")
    page.goto(site.page("live", '<div hx-sse:connect="/stream">waiting</div>'))
    expect(page.get_by_text("live", exact=True)).to_be_visible()


def test_code_in_attributes_is_refused(pages: Pages, page: Page, site: Workshop) -> None:
    pages.expect("hx-on and js: are not supported")
    page.goto(site.page("code", "<button hx-on:click=\"document.title = 'run'\">Run</button>"))
    page.get_by_role("button", name="Run").click()
    expect(page).to_have_title("code")
