"""Pages of people who are signed in at a served node, and screenshots of them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import Page

from odfabric_api.sessions import PLAIN_COOKIE
from tests.browser.pages import Pages
from tests.services.api.people import People
from tests.services.api.serving import Served


@dataclass(frozen=True, slots=True)
class World:
    """A served node, and the browsers of its people."""

    people: People
    served: Served
    pages: Pages

    def page(self, name: str | None, **options: Any) -> Page:
        """A page of a browser in which somebody is signed in, or nobody."""
        page = self.pages(base_url=self.served.url, **options)
        if name is not None:
            cookie = {"name": PLAIN_COOKIE, "value": self.people.session(name), "url": self.served.url}
            page.context.add_cookies([cookie])  # type: ignore[list-item]
        return page


def keep(page: Page, name: str) -> None:
    """Save a screenshot in the folder of ODF_TEST_SCREENSHOTS, for people."""
    folder = os.environ.get("ODF_TEST_SCREENSHOTS")
    if folder:
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)
