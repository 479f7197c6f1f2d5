"""The sign-in page in a real browser."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from odfabric.testing.memory_node import MemoryNode
from tests.browser.pages import Pages
from tests.services.api.serving import Served, serving


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(MemoryNode(tmp_path_factory.mktemp("node")).node) as found:
        yield found


def test_the_form_is_found_by_its_labels_and_keeps_the_rules(pages: Pages, served: Served) -> None:
    page = pages(base_url=served.url, viewport={"width": 320, "height": 640})
    page.goto("/login")
    page.get_by_label("Account").fill("nobody")
    page.get_by_label("Password").fill("a wrong password")
    assert page.get_by_role("button", name="Sign in").is_visible()
    assert page.get_by_role("heading", name="Sign in").inner_text() == "Sign in"
    # In the dark theme axe takes a page without a background of its own for white: that theme is checked where a stylesheet sets one.
    assert pages.axe(page) == []
