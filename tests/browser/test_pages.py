"""The browser of the tests notices what is wrong with a page."""

from __future__ import annotations

import pytest
from playwright.sync_api import Route

from tests.browser.pages import Pages

ADDRESS = "http://pages.test/"
POLICY = "default-src 'none'; script-src 'unsafe-inline'"


def show(pages: Pages, body: str) -> None:
    """A page under a policy that lets nothing but inline scripts in."""
    page = pages()
    answer = f'<!doctype html><html lang="en"><title>t</title><main>{body}</main></html>'
    page.route(ADDRESS, lambda route: _answer(route, answer))
    page.goto(ADDRESS)
    page.get_by_text("ready").wait_for()


def _answer(route: Route, body: str) -> None:
    route.fulfill(body=body, content_type="text/html", headers={"content-security-policy": POLICY})


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ("<script>console.error('went wrong')</script>", "went wrong"),
        ("<script>setTimeout(() => { throw new Error('thrown') })</script>", "not caught: .*thrown"),
        ('<p style="color: red">red</p>', "content security policy: style-src-attr refused inline"),
        ("<script>try { eval('1') } catch {}</script>", "content security policy: script-src refused eval"),
    ],
)
def test_a_fault_of_a_page_is_noticed_and_can_be_expected(pages: Pages, body: str, fault: str) -> None:
    show(pages, f"{body}<p>ready</p>")
    assert pages.faults() != []
    pages.expect(fault)
    pages.expect("Content Security Policy|violates the following")  # what Chromium itself says of it
    assert pages.faults() == []


def test_a_page_that_breaks_a_rule_is_found(pages: Pages) -> None:
    page = pages()
    page.set_content('<html lang="en"><title>t</title><main>ready <input></main></html>')
    (found,) = pages.axe(page)
    assert found.startswith("label: ")
    assert found.endswith(": input")
