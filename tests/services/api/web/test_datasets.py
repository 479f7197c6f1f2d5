"""Dataset pages: their contents for each reader; strangers' texts stay texts."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odfabric.model.people.account import DatasetRole
from odfabric.model.people.audit import THE_NODE, AuditKind
from odfabric.model.people.credential import TokenKind
from odfabric.usecases.people.opening_link import issue_opening_link
from odfabric_api.sessions import PLAIN_COOKIE
from tests.services.api.people import People
from tests.services.api.serving import Served, serving, working
from tests.usecases.manifests import DERIVED, ROOT

BROWSER = {"accept": "text/html,application/xhtml+xml"}
HOSTILE = '<script>alert("1")</script>'
DESCRIBED = f"""
  - kind: SetInfo
    description: '{HOSTILE}'
    keywords: ['{HOSTILE}']
  - kind: SetLicense
    shortName: x
    name: 'Free {HOSTILE}'
    websiteUrl: 'javascript:alert(1)'
  - kind: SetAttachments
    attachments:
      kind: Embedded
      items:
      - path: README.md
        content: '# About {HOSTILE} [x](javascript:alert(1)) ![y](https://elsewhere.example/y.png) **bold**'
"""


@dataclass(frozen=True, slots=True)
class World:
    people: People
    served: Served

    def browser(self, name: str | None) -> httpx.Client:
        """A browser in which somebody is signed in, or nobody."""
        cookies = {PLAIN_COOKIE: self.people.session(name)} if name else {}
        headers = {**BROWSER, "origin": self.served.url, "sec-fetch-site": "same-origin"}
        return httpx.Client(
            base_url=self.served.url, cookies=cookies, headers=headers, trust_env=False, timeout=20, verify=False
        )


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    people = People(tmp_path_factory.mktemp("node"))
    cities = people.add("ann", "cities", manifest=ROOT + DESCRIBED)
    people.grant(cities, "*", DatasetRole.READER)
    people.add("ann", "private-one")
    people.add(
        "ann",
        "copied.daily",
        manifest=DERIVED.replace("datasetRef: readings", "datasetRef: ann/cities, alias: readings"),
    )
    with serving(people.node) as served, working(people.node):
        rows = "".join(
            f'{{"event_time":"2026-01-01T00:00:00Z","city":{name},"value":{value}}}\n'
            for name, value in (('"Ulm"', "1"), ('"<b>x</b>"', "null"))
        )
        with served.client(people.bearer("ann")["authorization"].removeprefix("Bearer ")) as client:
            assert client.post("/ann/cities/ingest", content=rows).status_code == 200
        yield World(people, served)


@pytest.fixture
def ann(world: World) -> Iterator[httpx.Client]:
    with world.browser("ann") as found:
        yield found


@pytest.fixture
def stranger(world: World) -> Iterator[httpx.Client]:
    with world.browser(None) as found:
        yield found


def text_of(answer: httpx.Response) -> str:
    """What a reader sees, one space between words."""
    without_tags = re.sub(r"<[^>]*>", " ", answer.text)
    return " ".join(without_tags.split())


def test_the_first_page_lists_what_the_visitor_may_read(ann: httpx.Client, stranger: httpx.Client) -> None:
    own, public = text_of(ann.get("/")), text_of(stranger.get("/"))
    for name in ("cities", "private-one", "copied.daily"):
        assert name in own
    assert "cities" in public
    assert "private-one" not in public
    assert "Sign in" in public
    assert "Sign out" in own


def test_an_account_page_shows_its_datasets_and_hides_accounts_that_show_none(
    ann: httpx.Client, stranger: httpx.Client
) -> None:
    assert "private-one" in text_of(ann.get("/ann"))
    assert "cities" in text_of(stranger.get("/ann"))
    hidden, absent = stranger.get("/mats"), stranger.get("/nobody-there")
    assert hidden.status_code == absent.status_code == 404
    assert hidden.text.replace("mats", "NAME") == absent.text.replace("nobody-there", "NAME")


def test_the_overview_tells_what_it_is(stranger: httpx.Client) -> None:
    found = stranger.get("/ann/cities")
    text = text_of(found)
    for word in ("ann / cities", "public", "2 records", "event_time", "TIMESTAMP", "may be null", "bold"):
        assert word in text
    assert "<h1" in found.text
    assert found.text.count("<h1") == 1


def test_texts_of_strangers_stay_texts(ann: httpx.Client) -> None:
    for path in ("/", "/ann/cities", "/ann/cities/-/rows", "/ann/cities/-/history"):
        page = ann.get(path).text
        assert "<script>alert" not in page
        assert "<b>x</b>" not in page
        assert 'href="javascript:' not in page
        assert "<img" not in page
    blocks = set(re.findall(r"/ann/cities/-/blocks/\w+", ann.get("/ann/cities/-/history").text))
    for path in blocks:
        assert "<script>alert" not in ann.get(path).text


def test_rows_show_operations_as_words_and_nulls_as_such(stranger: httpx.Client) -> None:
    found = stranger.get("/ann/cities/-/rows")
    assert "append" in text_of(found)
    assert '<span class="null">null</span>' in found.text
    assert "1 to 2 of 2" in text_of(found)


def test_the_state_is_that_of_a_block(stranger: httpx.Client) -> None:
    state = stranger.get("/ann/cities/-/rows?view=state")
    assert "Known after block" in text_of(state)
    assert re.search(r'type="range" name="number" min="0" max="(\d+)" value="\1"', state.text)
    before = stranger.get("/ann/cities/-/rows", params={"view": "state", "number": "1"})
    assert "Known after block 1," in text_of(before)
    assert "No rows here" in text_of(before)
    # A time that is written wins over the slider, which always has a value.
    late = stranger.get("/ann/cities/-/rows", params={"view": "state", "number": "1", "at": "9999-01-01T00:00:00Z"})
    assert "1 to 2 of 2" in text_of(late)
    assert "SELECT%20%2A%20FROM%20as_at%28%27ann/cities%27%2C%20%27f1620" in late.text
    held = stranger.get("/ann/cities/-/rows", params={"view": "state", "held": "2025-12-31T23:59:59Z"})
    assert "held at 2025-12-31T23:59:59Z" in text_of(held)
    assert "No rows here" in text_of(held)
    for wrong_moment in ({"at": "soon"}, {"held": "soon"}, {"at": "1970-01-01T00:00:00Z"}):
        refused = stranger.get("/ann/cities/-/rows", params={"view": "state", **wrong_moment})
        assert refused.status_code == 200
        assert 'role="alert"' in refused.text
    wrong = stranger.get("/ann/cities/-/rows?view=state&block=nonsense")
    assert 'role="alert"' in wrong.text


def test_a_column_that_is_not_there_is_refused_in_words(stranger: httpx.Client) -> None:
    found = stranger.get("/ann/cities/-/rows", params={"column": "nosuch", "value": "1"})
    assert "there is no column" in text_of(found)


def test_history_has_every_event_and_each_block_its_page(stranger: httpx.Client) -> None:
    history = stranger.get("/ann/cities/-/history")
    events = ("Seed", "AddPushSource", "SetInfo", "SetDataSchema", "AddData")
    assert all(event in text_of(history) for event in events)
    only_data = text_of(stranger.get("/ann/cities/-/history?events=data"))
    assert "AddData" in only_data
    assert "AddPushSource" not in only_data
    blocks = re.findall(r'/ann/cities/-/blocks/(\w+)">', history.text)
    page = text_of(stranger.get(f"/ann/cities/-/blocks/{blocks[1]}"))
    assert "AddData" in page
    assert "append 2" in page


def test_lineage_leads_both_ways(ann: httpx.Client, stranger: httpx.Client) -> None:
    assert "ann/cities → ann/copied.daily" in text_of(ann.get("/ann/cities/-/lineage"))
    assert "copied.daily" not in stranger.get("/ann/cities/-/lineage").text


def test_a_question_is_answered_or_refused_at_its_place(ann: httpx.Client) -> None:
    answer = ann.post("/-/sql", data={"query": "SELECT * FROM `ann/cities`"})
    assert answer.status_code == 200
    assert "2 rows" in text_of(answer)
    wrong = ann.post("/-/sql", data={"query": "SELECT nothing"})
    assert wrong.status_code == 400
    assert "Line 1, column 1:" in text_of(wrong)
    assert "SELECT nothing</textarea>" in wrong.text


READERS: dict[str, tuple[str, Callable[[bytes], list[dict[str, Any]]]]] = {
    "csv": ("text/csv", lambda data: list(csv.DictReader(io.StringIO(data.decode())))),
    "json": ("application/json", json.loads),
    "parquet": ("application/vnd.apache.parquet", lambda data: pq.read_table(io.BytesIO(data)).to_pylist()),
    "arrow": ("application/vnd.apache.arrow.file", lambda data: pa.ipc.open_file(data).read_all().to_pylist()),
}


@pytest.mark.parametrize("form", READERS)
def test_an_answer_can_be_had_as_a_file(ann: httpx.Client, form: str) -> None:
    media_type, read = READERS[form]
    answer = ann.post("/-/sql", data={"query": "SELECT * FROM `ann/cities`", "export": form})
    assert answer.headers["content-type"].startswith(media_type)
    assert answer.headers["content-disposition"] == f'attachment; filename="result.{form}"'
    rows = read(answer.content)
    assert len(rows) == 2
    assert "Ulm" in [row["city"] for row in rows]


def test_a_file_of_another_kind_is_refused(ann: httpx.Client) -> None:
    refused = ann.post("/-/sql", data={"query": "SELECT * FROM `ann/cities`", "export": "xls"})
    assert refused.status_code == 400
    assert "csv, json, parquet, arrow" in text_of(refused)


def test_an_answer_can_be_asked_again_as_of_its_blocks(world: World, ann: httpx.Client) -> None:
    entry = world.people.add("ann", "growing")
    with world.served.client(world.people.bearer("ann")["authorization"].removeprefix("Bearer ")) as client:

        def push(day: int) -> None:
            row = f'{{"event_time":"2026-01-0{day}T00:00:00Z","city":"X"}}\n'
            assert client.post("/ann/growing/ingest", content=row).status_code == 200

        push(1)
        query = {"query": "SELECT * FROM `ann/growing`"}
        answer = ann.post("/-/sql", data=query)
        assert "1 row " in text_of(answer)
        link = re.search(r"pins=([^\"]+)", answer.text)
        assert link is not None
        pins = unquote(link[1])
        assert pins == f"ann/growing@{world.people.node.datasets.head(entry).hash}"
        push(2)
    assert "2 rows" in text_of(ann.post("/-/sql", data=query))
    again = ann.get("/-/sql", params={**query, "pins": pins})
    assert "as they were at these blocks" in text_of(again)
    assert "1 row " in text_of(ann.post("/-/sql", data={**query, "pins": pins}))
    assert ann.post("/-/sql", data={**query, "pins": "ann/private-two@" + pins.rpartition("@")[2]}).status_code == 404


def test_two_blocks_are_compared_by_what_their_rows_do(stranger: httpx.Client) -> None:
    blocks = re.findall(r'/ann/cities/-/blocks/(\w+)">', stranger.get("/ann/cities/-/history").text)
    head, seed = blocks[1], blocks[-1]
    found = text_of(stranger.get("/ann/cities/-/compare", params={"older": head, "newer": seed}))
    assert "From block 0 to block" in found
    assert "append 2 records" in found
    same = text_of(stranger.get("/ann/cities/-/compare", params={"older": seed, "newer": seed}))
    assert "No records came between the two." in same


def test_a_form_from_elsewhere_is_refused(world: World, ann: httpx.Client) -> None:
    for headers in (
        {"origin": "https://elsewhere.example", "sec-fetch-site": "cross-site"},
        {"origin": world.served.url, "sec-fetch-site": "same-site"},
        {"origin": "null", "sec-fetch-site": "same-origin"},
    ):
        answer = ann.post("/-/sql", data={"query": "SELECT 1"}, headers=headers)
        assert answer.status_code == 403
        assert "You may not do this" in text_of(answer)


def test_whoever_must_sign_in_is_led_there_and_back(world: World, stranger: httpx.Client) -> None:
    hidden = stranger.get("/ann/private-one")
    assert hidden.status_code == 404
    assert "It may be private." in text_of(hidden)
    assert "/login?then=%2Fann%2Fprivate-one" in hidden.text


def test_whoever_sent_a_form_is_led_back_to_its_page(world: World, stranger: httpx.Client) -> None:
    for came_from, back in (
        (f"{world.served.url}/ann/cities/-/rows?skip=1", "/ann/cities/-/rows%3Fskip%3D1"),
        ("https://elsewhere.example/x", "/x"),
    ):
        answer = stranger.post("/ann/cities/-/verify", headers={"referer": came_from})
        assert (answer.status_code, answer.headers["location"]) == (303, f"/login?then={back}")


def test_a_session_that_ended_leaves_the_public_pages(world: World) -> None:
    token, text = world.people.issue("rita", kind=TokenKind.SESSION)
    with world.browser(None) as rita:
        rita.cookies.set(PLAIN_COOKIE, text)
        assert "Sign out" in rita.get("/ann/cities").text
        audit = world.people.ports.entry(AuditKind.TOKEN_REVOKED, THE_NODE)
        world.people.ports.tokens.revoke(token.id, now=world.people.memory.clock.now(), audit=audit)
        page = rita.get("/ann/cities")
    assert page.status_code == 200
    assert "Your session has ended." in text_of(page)


def test_every_page_has_a_strict_policy(stranger: httpx.Client) -> None:
    for path in ("/", "/ann/cities", "/-/sql", "/ann/nothing"):
        policy = stranger.get(path).headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self';" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy


def test_programs_get_problem_documents(world: World) -> None:
    with world.served.client(None) as client:
        answer = client.get("/ann/private-one")
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["code"] == "not-found"


def test_the_stylesheet_is_kept_by_browsers(stranger: httpx.Client) -> None:
    address = re.search(r'href="(/-/assets/console-\w+\.css)"', stranger.get("/").text)
    assert address is not None
    style = stranger.get(address[1])
    assert style.headers["content-type"].startswith("text/css")
    assert "immutable" in style.headers["cache-control"]
    assert stranger.get("/-/assets/none.js").status_code == 404


def test_the_opening_link_signs_the_browser_in_once(world: World, stranger: httpx.Client, tmp_path: Path) -> None:
    code = issue_opening_link(ports=world.people.ports)
    first = stranger.get("/-/open", params={"code": code})
    assert (first.status_code, first.headers["location"]) == (303, "/")
    assert "Sign out" in stranger.get("/").text
    with world.browser(None) as another:
        assert another.get("/-/open", params={"code": code}).status_code == 404


def test_lineage_leads_from_column_to_column(ann: httpx.Client) -> None:
    first = ann.get("/ann/cities/-/lineage").text
    assert 'hx-get="/ann/cities/-/lineage?depth=1&amp;columns=true"' in first
    found = text_of(ann.get("/ann/cities/-/lineage", params={"columns": "true"}))
    assert "comes from" in found
    assert "ann/cities city copied" in found
