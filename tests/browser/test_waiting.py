"""Questions that take long: they can be cancelled, and the page stays as it was."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from playwright.sync_api import expect

from tests.browser.pages import Pages
from tests.browser.signed_in import World, keep
from tests.services.api.people import People
from tests.services.api.serving import serving
from tests.support.pulsing_engine import PulsingEngine
from tests.support.waiting import wait_until


@pytest.fixture
def slow(tmp_path: Path, pages: Pages) -> Iterator[tuple[World, PulsingEngine]]:
    people = People(tmp_path / "node")
    people.add("ann", "cities")
    engine = PulsingEngine(people.node.ports.exchange.root)
    people.memory.use_engine(engine)
    with serving(people.memory.node) as served:
        yield World(people, served, pages), engine
        engine.release.set()


def test_a_question_is_cancelled_and_asked_again(slow: tuple[World, PulsingEngine]) -> None:
    world, engine = slow
    queries = world.served.app.state.capacity.queries
    page = world.page("ann")
    page.goto("/-/sql?" + urlencode({"query": "SELECT * FROM `ann/cities`"}))
    run, cancel = (page.get_by_role("button", name=name, exact=True) for name in ("Run", "Cancel"))
    expect(cancel).to_be_hidden()
    run.click()
    expect(cancel).to_be_visible()
    wait_until(lambda: queries.taken == 1, what="the query")
    keep(page, "sql-running")
    cancel.click()
    expect(page.get_by_role("status").filter(has_text="Cancelled.")).to_be_attached()
    expect(cancel).to_be_hidden()
    wait_until(lambda: queries.taken == 0, what="the end of a query that nobody waits for")
    engine.release.set()
    run.click()
    expect(page.get_by_role("status").filter(has_text="0 rows")).to_be_visible()
