"""Saved queries, page and REST: kept, opened, changed, deleted, private."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx
import pytest

from tests.services.api.browsing import HOSTILE, Browsers, alert_of, browsing, field, text_of
from tests.services.api.people import People

SQL = "SELECT city\nFROM `ann/cities` -- <b>"


@pytest.fixture(scope="module")
def browsers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browsers]:
    people = People(tmp_path_factory.mktemp("node"), saved_queries_per_account_max=3)
    people.add("ann", "cities")
    with browsing(people) as found:
        yield found


@pytest.fixture
def ann(browsers: Browsers) -> Iterator[httpx.Client]:
    with browsers.open("ann") as found:
        yield found
    with browsers.served.client(token_of(browsers, "ann")) as client:
        for query in client.get("/accounts/me/queries").json()["queries"]:
            assert client.delete(f"/accounts/me/queries/{query['id']}").status_code == 204


def token_of(browsers: Browsers, name: str) -> str:
    return browsers.people.bearer(name)["authorization"].removeprefix("Bearer ")


def save(browser: httpx.Client, name: str, query: str = SQL, **others: str) -> httpx.Response:
    return browser.post("/-/sql/saved", data={"name": name, "query": query, "pins": "", **others})


def saved(browser: httpx.Client, name: str, query: str = SQL) -> str:
    """The address of a newly saved query."""
    answer = save(browser, name, query)
    assert answer.status_code == 303, answer.text
    return str(answer.headers["location"]).removesuffix("&done=saved")


def test_a_question_is_saved_and_opened_again(ann: httpx.Client) -> None:
    assert "Saved queries" not in text_of(ann.get("/-/sql"))
    path = saved(ann, f"  late {HOSTILE} ")
    opened = ann.get(path)
    assert field(opened, "query") == SQL
    assert field(opened, "name") == f"late {HOSTILE}"
    assert "<script>alert" not in opened.text
    assert f'href="{path}"' in ann.get("/-/sql").text


def test_under_its_name_it_is_replaced_and_under_another_it_is_new(ann: httpx.Client) -> None:
    path = saved(ann, "one")
    query_id = path.partition("saved=")[2]
    assert save(ann, "one", "SELECT 2", saved=query_id).headers["location"].startswith(path)
    assert field(ann.get(path), "query") == "SELECT 2"
    other = save(ann, "two", "SELECT 3", saved=query_id).headers["location"]
    assert not other.startswith(path)
    assert field(ann.get(path), "query") == "SELECT 2"
    refused = save(ann, "two", "SELECT 4", saved=query_id)
    assert (refused.status_code, field(refused, "query"), field(refused, "name")) == (409, "SELECT 4", "two")
    assert "you have a saved query named two already" in alert_of(refused)


def test_it_is_renamed_and_deleted(ann: httpx.Client) -> None:
    path = saved(ann, "one")
    change = f"/-/sql/saved/{path.partition('saved=')[2]}"
    assert ann.post(change, data={"action": "rename", "name": "first"}).status_code == 303
    assert field(ann.get(path), "name") == "first"
    empty = ann.post(change, data={"action": "rename", "name": " "})
    assert (empty.status_code, "not a name" in alert_of(empty)) == (400, True)
    gone = ann.post(change, data={"action": "delete"})
    assert "The query is deleted." in text_of(ann.get(gone.headers["location"]))
    assert ann.get(path).status_code == 404
    assert ann.post(change, data={"action": "delete"}).status_code == 404


def test_nobody_else_sees_it(ann: httpx.Client, browsers: Browsers) -> None:
    path = saved(ann, "private words")
    for name in ("root", "max", None):
        with browsers.open(name) as other:
            assert "private words" not in other.get("/-/sql").text
            assert other.get(path).status_code in {404, 303, 401}
            assert 'name="name"' in other.get("/-/sql").text or name is None


def test_an_account_keeps_so_many(ann: httpx.Client) -> None:
    for number in range(3):
        saved(ann, f"{number}")
    refused = save(ann, "one more")
    assert (refused.status_code, "too many saved queries" in alert_of(refused)) == (413, True)
    assert field(refused, "query") == SQL


def test_programs_keep_queries_too(ann: httpx.Client, browsers: Browsers) -> None:
    with browsers.served.client(token_of(browsers, "ann")) as client:
        made = client.post("/accounts/me/queries", json={"name": "b", "sql": SQL})
        assert made.status_code == 201
        path = made.headers["location"]
        assert client.get(path).json() == made.json()
        assert client.post("/accounts/me/queries", json={"name": "b", "sql": SQL}).status_code == 409
        client.post("/accounts/me/queries", json={"name": "A", "sql": SQL})
        assert [each["name"] for each in client.get("/accounts/me/queries").json()["queries"]] == ["A", "b"]
        changed = client.patch(path, json={"sql": "SELECT 1"}).json()
        assert (changed["name"], changed["sql"]) == ("b", "SELECT 1")
        long = client.patch(path, json={"sql": "x" * (browsers.people.node.settings.query_text_bytes_max + 1)})
        assert long.status_code == 413
        assert re.fullmatch(r"[0-9a-f]{32}", changed["id"])
        assert client.delete(path).status_code == 204
        assert client.get(path).status_code == 404
