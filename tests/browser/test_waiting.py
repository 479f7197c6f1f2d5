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
from tests.services.api.serving import serving, working
from tests.support.engines.pulsing_engine import PulsingEngine
from tests.support.waiting import wait_until


@pytest.fixture
def slow(tmp_path: Path, pages: Pages) -> Iterator[tuple[World, PulsingEngine]]:
    people = People(tmp_path / "node")
    people.add("ann", "cities")
    token = people.bearer("ann")["authorization"].removeprefix("Bearer ")
    with serving(people.node) as served, working(people.node), served.client(token) as client:
        row = '{"event_time": "2026-01-01T00:00:00Z", "city": "Ulm", "value": 1}'
        assert client.post("/ann/cities/ingest", content=row).status_code == 200
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
    expect(page.get_by_role("status").filter(has_text="1 row")).to_be_visible()


def test_the_exact_profile_follows_the_page_and_leaving_ends_it(
    slow: tuple[World, PulsingEngine], pages: Pages
) -> None:
    world, engine = slow
    queries = world.served.app.state.capacity.queries
    page = world.page("ann")
    page.goto("/ann/cities/-/profile")
    expect(page.get_by_role("status").filter(has_text="Computing the exact profile")).to_be_visible()
    expect(page.get_by_role("rowheader", name="city", exact=True)).to_be_visible()
    expect(page.get_by_role("link", name="Compute the exact profile")).to_be_hidden()
    keep(page, "profile-computing")
    assert pages.axe(page) == []
    wait_until(lambda: queries.taken == 1, what="the query")
    page.get_by_role("link", name="Overview").click()
    wait_until(lambda: queries.taken == 0, what="the end of a query that nobody waits for")
    engine.release.set()
    page.goto("/ann/cities/-/profile")
    # This engine runs one kind of query only; what it says comes into the page.
    expect(page.get_by_role("alert").filter(has_text="this engine runs")).to_be_visible()
    expect(page.get_by_role("heading", level=1)).to_be_visible()


def test_a_part_that_does_not_come_leaves_the_page(slow: tuple[World, PulsingEngine], pages: Pages) -> None:
    world, _ = slow
    pages.expect("429")
    capacity = world.served.app.state.capacity
    page = world.page("ann")
    capacity.queries.maximum = 0
    page.goto("/ann/cities/-/rows?sort=city")
    expect(page.get_by_role("status").filter(has_text="The records could not be read now.")).to_be_visible()
    keep(page, "rows-away")
    assert pages.axe(page) == []
    expect(page.get_by_role("link", name="Show the records")).to_be_visible()


def test_without_scripts_sorted_records_come_by_themselves(slow: tuple[World, PulsingEngine]) -> None:
    world, engine = slow
    engine.release.set()
    page = world.page("ann", java_script_enabled=False)
    page.goto("/ann/cities/-/rows?sort=city")
    expect(page.get_by_role("alert").filter(has_text="this engine runs")).to_be_visible()
