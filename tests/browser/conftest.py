"""A browser for each test file, and pages that must end without a fault."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from odfabric.settings import Settings
from tests.browser.chromium import Chromium, chromium
from tests.browser.pages import Pages, running
from tests.browser.workshop import Workshop, workshop


@pytest.fixture(scope="session")
def chromium_files() -> Chromium:
    """The unpacked browser."""
    return chromium()


@pytest.fixture(scope="module")
def browser(chromium_files: Chromium) -> Iterator[Browser]:
    """The browser, which ends with its test file.

    While Playwright runs, its thread has a running event loop, and `asyncio.run` of other tests would fail.
    """
    with running(chromium_files) as found:
        yield found


@pytest.fixture
def pages(browser: Browser, chromium_files: Chromium) -> Iterator[Pages]:
    """Opens pages; a fault on any of them fails the test."""
    found = Pages(browser, chromium_files.axe_source)
    yield found
    found.close()
    assert found.faults() == []


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workshop]:
    """A site to try scripts on; each test makes its own pages."""
    with workshop(Settings(workspace=tmp_path_factory.mktemp("node"))) as found:
        yield found
