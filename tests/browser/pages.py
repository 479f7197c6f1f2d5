"""Pages in a real browser with a record of faults, and accessibility rules."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from tests.browser.chromium import ARGS, Chromium

WAIT_MS_MAX = 15_000.0
"""Longest wait for an element or a page: the machine is shared."""

WCAG_TAGS = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa")

# Chromium reports most violations on the console as well, but not those of the pages that it only reports.
_REPORT_VIOLATIONS = """document.addEventListener('securitypolicyviolation', event => console.error(
    `content security policy: ${event.effectiveDirective} refused ${event.blockedURI} at ${event.sourceFile}:${event.lineNumber}`))"""

_RUN_AXE = """async tags => {
    const found = await axe.run(document, {runOnly: {type: 'tag', values: tags}, resultTypes: ['violations']});
    return found.violations.map(({id, help, nodes}) => `${id}: ${help}: ${nodes.map(node => node.target.join(' ')).join(', ')}`);
}"""


@contextmanager
def running(chromium: Chromium) -> Iterator[Browser]:
    """A started browser."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium.executable, args=ARGS, env={**os.environ, **chromium.env}
        )
        try:
            yield browser
        finally:
            browser.close()


class Pages:
    """Opens pages with separate cookies and storage, and collects their faults.

    A fault is an error on the console, an exception that nobody caught, or a violation of the content security policy. An answer with a
    status of 400 and more is an error on the console too: a test that wants one says so by `expect`.
    """

    def __init__(self, browser: Browser, axe_source: str) -> None:
        self._browser = browser
        self._axe_source = axe_source
        self._faults: list[str] = []
        self._expected: list[str] = []

    def __call__(self, **options: Any) -> Page:
        """A new page in a new context with Playwright's `options`.

        `color_scheme`, `viewport`, `base_url`, `java_script_enabled`.
        """
        context = self._browser.new_context(**options)
        context.set_default_timeout(WAIT_MS_MAX)
        context.add_init_script(_REPORT_VIOLATIONS)
        page = context.new_page()
        page.on("console", lambda message: self._faults.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: self._faults.append(f"not caught: {error}"))
        return page

    def expect(self, pattern: str) -> None:
        """Faults that match belong to this test."""
        self._expected.append(pattern)

    def axe(self, page: Page) -> list[str]:
        """What on the page breaks WCAG 2.2 AA, as rule, meaning and places.

        The policy of the page does not hold for it.
        """
        page.evaluate(self._axe_source)
        found: list[str] = page.evaluate(_RUN_AXE, list(WCAG_TAGS))
        return found

    def faults(self) -> list[str]:
        """What went wrong and was not expected."""
        return [fault for fault in self._faults if not any(re.search(pattern, fault) for pattern in self._expected)]

    def close(self) -> None:
        """Close all pages."""
        for context in self._browser.contexts:
            context.close()
