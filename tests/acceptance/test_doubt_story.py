"""An analyst doubts a number of a daily report; an auditor checks the answer.

Two sources of CSV files, three derivatives one after the other, a correction of yesterday. Real processes and a real browser.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.acceptance.conftest import LocalWorkspace
from tests.browser.chromium import chromium
from tests.browser.pages import Pages, running
from tests.browser.signed_in import keep
from tests.support.node_process import NodeProcess, Odf
from tests.support.stories import derivative_of

SOURCE = """\
kind: DatasetSnapshot
version: 1
content:
  name: {name}
  kind: Root
  metadata:
  - kind: SetPollingSource
    fetch: {{kind: FilesGlob, path: '{folder}/{name}-*.csv'}}
    read: {{kind: Csv, header: true, schema: {{fields: [{fields}]}}}}
    merge: {{kind: {merge}, primaryKey: [{key}]}}
"""
FIELD = "{{name: {0}, type: {1}}}"
ORDERS = {"event_time": "Timestamp", "order_id": "String", "store": "String", "amount": "Int64"}
STORES = {"event_time": "Timestamp", "store": "String", "region": "String"}
CHAIN = {
    "doubt.placed": (
        "{datasetRef: doubt.orders, alias: o}, {datasetRef: doubt.stores, alias: s}",
        "SELECT o.event_time, o.order_id, s.region, o.amount FROM o JOIN s ON o.store = s.store",
    ),
    "doubt.daily": (
        "{datasetRef: doubt.placed, alias: p}",
        "SELECT date_trunc('DAY', event_time) AS event_time, region, sum(amount) AS total FROM p "
        "GROUP BY date_trunc('DAY', event_time), region",
    ),
    "doubt.report": (
        "{datasetRef: doubt.daily, alias: d}",
        "SELECT event_time, region, total, total - lag(total) OVER (PARTITION BY region ORDER BY event_time) AS difference FROM d",
    ),
}
FIRST_FILE, CORRECTION = "doubt.orders-2026-03-02.csv", "doubt.orders-2026-03-03.csv"
ANSWER_MS_MAX = 60_000
"""Longest wait for an answer on a machine that does other things too."""
DATASETS = ("doubt.orders", "doubt.stores", *CHAIN)


def source(name: str, fields: dict[str, str], folder: Path, merge: str, key: str) -> str:
    declared = ", ".join(FIELD.format(*each) for each in fields.items())
    return SOURCE.format(name=name, fields=declared, folder=folder, merge=merge, key=key)


@pytest.fixture(scope="module")
def report(node: NodeProcess, poll_folder: Path) -> str:
    """The report of two days; then yesterday's file corrects an order of the first."""
    stores = (
        "2026-03-01T00:00:00Z,harbour,north",
        "2026-03-01T00:00:00Z,hill,north",
        "2026-03-01T00:00:00Z,market,south",
    )
    write(poll_folder / "doubt.stores-1.csv", STORES, stores)
    orders = ("1,a1,harbour,41", "1,a2,hill,60", "1,a3,market,70", "2,b1,harbour,90", "2,b2,market,95")
    write(poll_folder / FIRST_FILE, ORDERS, [f"2026-03-0{each[0]}T10:00:00Z{each[1:]}" for each in orders])
    node.create(source("doubt.orders", ORDERS, poll_folder, "UpsertStream", "order_id"))
    node.create(source("doubt.stores", STORES, poll_folder, "Snapshot", "store"))
    for name, (inputs, query) in CHAIN.items():
        node.create(derivative_of(name, inputs=inputs, query=query))
    node.pull("doubt.report", recursive=True)
    write(poll_folder / CORRECTION, ORDERS, ["2026-03-01T10:00:00Z,a2,hill,6"])
    node.pull("doubt.report", recursive=True)
    return "doubt.report"


def write(path: Path, fields: dict[str, str], lines: Iterable[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in (",".join(fields), *lines)))


@pytest.fixture(scope="module")
def pages() -> Iterator[Pages]:
    files = chromium()
    with running(files) as browser:
        found = Pages(browser, files.axe_source)
        yield found
        found.close()
        assert found.faults() == []


def test_the_analyst_comes_from_a_cell_to_the_files_in_four_clicks(
    node: NodeProcess, pages: Pages, report: str
) -> None:
    page = pages(base_url=node.url, viewport={"width": 1200, "height": 900})
    page.goto(node.console)
    page.goto(f"/local/{report}/-/rows")
    keep(page, "doubt-1-rows")
    page.get_by_role("link", name="43", exact=True).click()
    made_of = page.get_by_role("table", name="Rows of local/doubt.daily", exact=True)
    assert sorted(cells(made_of, "total")) == ["47 computed", "90 computed"]
    assert causes(page, "local/doubt.daily", "total") == ["101", "47 computed"]
    keep(page, "doubt-2-report")
    assert pages.axe(page) == []

    made_of.get_by_role("link", name="47", exact=True).click()
    made_of = page.get_by_role("table", name="Rows of local/doubt.placed", exact=True)
    assert sorted(cells(made_of, "amount")) == ["41 computed", "6 computed"]
    assert causes(page, "local/doubt.placed", "amount") == ["60", "6 computed"]
    keep(page, "doubt-3-daily")

    made_of.get_by_role("link", name="6", exact=True).last.click()
    made_of = page.get_by_role("table", name="Rows of local/doubt.orders", exact=True)
    assert (cells(made_of, "amount"), cells(made_of, "order_id")) == (["6 copied"], ["a2"])
    assert causes(page, "local/doubt.orders", "amount") == ["60", "6 copied"]
    keep(page, "doubt-4-placed")

    made_of.get_by_role("link", name="6", exact=True).last.click()
    expect(page.get_by_text(CORRECTION, exact=True)).to_be_visible(timeout=ANSWER_MS_MAX)
    expect(page.get_by_role("link", name="corrects record")).to_be_visible()
    expect(page.get_by_text("(before: 60)", exact=True).first).to_be_visible()
    keep(page, "doubt-5-orders")


def cells(table: Locator, column: str) -> list[str]:
    """Texts of a column of a table, once it is there."""
    expect(table).to_be_visible(timeout=ANSWER_MS_MAX)
    at = table.get_by_role("columnheader").all_inner_texts().index(column)
    return [
        " ".join(row.get_by_role("cell").nth(at).inner_text().split()) for row in table.get_by_role("row").all()[1:]
    ]


def causes(page: Page, dataset: str, column: str) -> list[str]:
    """A column of the new rows that made the node write what is explained."""
    return cells(page.get_by_role("table", name=f"New rows of {dataset}", exact=True), column)


def test_the_auditor_checks_the_answer_on_another_node(
    node: NodeProcess, remote_odf: Odf, local: LocalWorkspace, report: str, tmp_path: Path
) -> None:
    (offset,) = [row["offset"] for row in node.tail(report) if row["difference"] == 43]
    answer = remote_odf.run("why", report, str(offset), "--format", "json").json
    assert {one["end"]["file"]["name"] for one in answer["records"] if one["depth"] == 3} == {
        FIRST_FILE,
        CORRECTION,
        "doubt.stores-1.csv",
    }
    whole = tmp_path / "answer.json"
    whole.write_text(json.dumps(answer))
    early = local.odf.run("-o", "json", "why", "--check", str(whole))
    assert (early.code, "pull the dataset" in early.json["errors"][0]["message"]) == (1, True)
    local.odf.json("pull", *(f"{node.url}/local/{name}" for name in DATASETS))
    agreed = local.odf.json("why", "--check", str(whole))
    assert agreed == {"ok": True, "checked": len(answer["records"]), "errors": []}

    def refused(change: Callable[[dict[str, Any]], None]) -> list[str]:
        changed = json.loads(json.dumps(answer))
        change(changed)
        path = tmp_path / "changed.json"
        path.write_text(json.dumps(changed))
        ran = local.odf.run("-o", "json", "why", "--check", str(path))
        assert (ran.code, ran.json["ok"]) == (1, False)
        return [f"{each['record']}: {each['message']}" for each in ran.json["errors"]]

    last = next(at for at, one in enumerate(answer["records"]) if one["offset"] == 6 and one["depth"] == 3)
    (witness,) = refused(lambda one: one["records"][0]["why"]["witnesses"][0]["ranges"].pop())
    assert witness.startswith(f"local/doubt.report {offset}: its rows are d: 2 rows")
    (value,) = refused(lambda one: one["records"][last]["values"].update(amount=60))
    assert value == "local/doubt.orders 6: its row is amount=60 there, amount=6 here"
    other = answer["records"][0]["block"]["hash"]
    (block,) = refused(lambda one: one["records"][last]["block"].update(hash=other))
    assert block.startswith(f"local/doubt.orders 6: its block is {other} there")
