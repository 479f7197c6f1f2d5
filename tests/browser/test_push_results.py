"""What a push shows of rejected rows and of new columns, in a real browser.

New columns are fields that became columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.browser.pages import Pages
from tests.browser.signed_in import World, keep
from tests.services.api.people import People
from tests.services.api.serving import Served, serving, working
from tests.usecases.manifests import ROOT

SOURCE = "        extra:\n          odfabric.dev/wrong-rows: quarantine\n          odfabric.dev/contract: evolve\n"
MANIFEST = ROOT.replace("        fields:\n", f"{SOURCE}        fields:\n")
ROWS = """\
{"event_time": "2026-01-01T00:00:00Z", "city": "Ulm", "rain_of_the_last_hour_in_millimetres": 5}
{"event_time": "never", "city": "Bonn"}
no JSON
{"event_time": "2026-01-02T00:00:00Z", "city": "Bonn", "note": "fog"}
"""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[People, Served]]:
    people = People(tmp_path_factory.mktemp("node"))
    with serving(people.node) as served, working(people.node):
        yield people, served


LOOKS: dict[str, dict[str, object]] = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "narrow": {"viewport": {"width": 320, "height": 700}},
}


@pytest.mark.parametrize("look", LOOKS)
def test_rejected_rows_and_new_columns_are_shown(node: tuple[People, Served], pages: Pages, look: str) -> None:
    people, _ = node
    entry = people.add("ann", f"weather-{look}", manifest=MANIFEST)
    page = World(*node, pages).page("ann", **LOOKS[look])
    page.goto(f"/{entry.alias}/-/push")
    page.get_by_label("Rows", exact=False).first.fill(ROWS)
    page.get_by_role("button", name="Push the rows").click()
    expect(page.get_by_text("2 rows could not be read")).to_be_visible()
    expect(page.get_by_text("rain_of_the_last_hour_in_millimetres").first).to_be_visible()
    assert pages.axe(page) == []
    keep(page, f"push-result-{look}")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.goto(f"/{entry.alias}/-/jobs")
    page.get_by_role("link", name=re.compile("Push [0-9a-f]{8}")).click()
    expect(page.get_by_text("2 rows could not be read")).to_be_visible()
    assert pages.axe(page) == []
    keep(page, f"push-job-{look}")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.get_by_role("link", name=f"ann/weather-{look}.rejected").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(".rejected")
    keep(page, f"push-rejected-{look}")
