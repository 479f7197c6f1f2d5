"""Search as people use it: words, facets, orders, pages, feeds; no hidden data."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from xml.etree import ElementTree as ET

import httpx
import pytest

from odfabric.model.identity import DatasetAlias, Name
from odfabric.model.jobs.job import Job
from odfabric.model.people.account import DatasetRole
from odfabric.usecases.ingestion.push_data import PushData
from tests.services.api.browsing import Browsers
from tests.services.api.people import People
from tests.services.api.serving import serving
from tests.usecases.manifests import DERIVED, ROOT

HOSTILE = "<script>alert('1')</script> & \"quoted\""
ATOM = "{http://www.w3.org/2005/Atom}"
PUBLIC = f"""
  - kind: SetInfo
    description: "Water levels {HOSTILE.replace('"', chr(92) + '"')} \\u0007"
    keywords: [Sea, "a<b & c"]
  - kind: SetLicense
    shortName: CC-BY
    name: Attribution
    spdxId: CC-BY-4.0
    websiteUrl: https://example.org
"""
PRIVATE = """
  - kind: SetInfo
    description: Secret water levels
    keywords: [sea, hush]
  - kind: SetLicense
    shortName: Hidden-1.0
    name: Hidden
    websiteUrl: https://example.org
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browsers]:
    people = People(tmp_path_factory.mktemp("node"))
    tides = people.add("ann", "tides", manifest=ROOT + PUBLIC)
    people.grant(tides, "*", DatasetRole.READER)
    people.add("ann", "secret-tides", manifest=ROOT + PRIVATE)
    daily = DERIVED.replace("datasetRef: readings", "datasetRef: ann/tides, alias: readings")
    people.add("ann", "copied.daily", manifest=daily)
    for number in range(27):
        people.add("pia", f"many-{number:02}")
    people.node.searching.catch_up()
    with serving(people.node) as served:
        yield Browsers(people, served)


@pytest.fixture
def ann(world: Browsers) -> Iterator[httpx.Client]:
    with world.open("ann") as found:
        yield found


@pytest.fixture
def stranger(world: Browsers) -> Iterator[httpx.Client]:
    with world.open(None) as found:
        yield found


def names(page: httpx.Response) -> list[str]:
    """Datasets in the list, in its order."""
    assert page.status_code == 200
    cards = re.findall(r"<h2><a href=\"/([^\"]+)\"", page.text)
    return [card for card in cards if "/" in card]


def facets(page: httpx.Response) -> dict[str, dict[str, tuple[str, str]]]:
    """By facet, its texts with count and link."""
    found = {}
    for name, body in re.findall(r'<h2 id="facet-(\w+)">.*?<ul>(.*?)</ul>', page.text, re.DOTALL):
        links = re.findall(r'<a href="([^"]+)" rel="nofollow">(.*?)</a> <span class="count">(\d+)</span>', body)
        found[name] = {unescape(text): (count, unescape(href)) for href, text, count in links}
    return found


def counts(page: httpx.Response, name: str) -> dict[str, str]:
    return {text: count for text, (count, _) in facets(page).get(name, {}).items()}


def feed(client: httpx.Client, **params: str) -> ET.Element:
    answer = client.get("/-/datasets.atom", params=params)
    assert answer.headers["content-type"] == "application/atom+xml"
    return ET.fromstring(answer.content)


def titles(found: ET.Element) -> list[str | None]:
    return [entry.findtext(f"{ATOM}title") for entry in found.iter(f"{ATOM}entry")]


def test_words_find_more_than_names(ann: httpx.Client) -> None:
    assert names(ann.get("/", params={"q": "water LEV"})) == ["ann/secret-tides", "ann/tides"]
    assert names(ann.get("/", params={"q": "attribution"})) == ["ann/tides"]
    assert names(ann.get("/", params={"q": "daily", "kind": "derivative", "sort": "name"})) == ["ann/copied.daily"]
    nothing = ann.get("/", params={"q": "nosuch"})
    assert "No dataset that you may read fits." in nothing.text
    assert "0 datasets" in nothing.text


@pytest.mark.parametrize(
    "signs", ['"', "'", "*", "%", ":", "&", "-", "NOT", "a OR b", "name_words:x", "((", "\\", "\x00"]
)
def test_signs_of_query_languages_are_no_error(ann: httpx.Client, signs: str) -> None:
    assert ann.get("/", params={"q": signs}).status_code == 200
    assert ann.get("/", params={"keyword": signs, "license": signs}).status_code == 200
    assert ann.get("/-/datasets.atom", params={"q": f"tides {signs}"}).status_code == 200


def test_a_facet_leads_to_a_narrower_page_and_back(ann: httpx.Client) -> None:
    page = ann.get("/", params={"q": "water"})
    assert counts(page, "keyword") == {"sea": "2", "a<b & c": "1", "hush": "1"}
    assert counts(page, "license") == {"cc-by-4.0": "1", "hidden-1.0": "1"}
    assert counts(page, "kind") == {"root": "2"}
    assert counts(page, "changed")["last day"] == "2"
    narrower = ann.get(facets(page)["keyword"]["a<b & c"][1])
    assert names(narrower) == ["ann/tides"]
    assert "1 dataset<" in narrower.text
    both = ann.get(facets(narrower)["license"]["cc-by-4.0"][1])
    assert names(both) == ["ann/tides"]
    removed = re.findall(r'<a href="([^"]+)">remove<span class="hidden"> (\w+)', both.text)
    assert [name for _, name in removed] == ["Keyword", "Licence"]
    assert names(ann.get(unescape(removed[0][0]))) == ["ann/tides"]
    assert "keyword" not in removed[0][0]
    assert 'name="keyword" value="a&lt;b &amp; c"' in both.text


def test_every_order_and_a_wrong_one(ann: httpx.Client) -> None:
    for sort in ("", "best", "updated", "name", "rows", "size"):
        assert set(names(ann.get("/", params={"sort": sort, "account": "ann"}))) == {
            "ann/tides",
            "ann/secret-tides",
            "ann/copied.daily",
        }
    assert ann.get("/", params={"sort": "shuffled"}).status_code == 400
    assert ann.get("/", params={"page": "0"}).status_code == 400
    assert ann.get("/", params={"account": "no name"}).status_code == 400


def test_pages_go_on_in_any_order(world: Browsers) -> None:
    for sort in ("name", "updated", "size"):
        with world.open("pia") as pia:
            first = pia.get("/", params={"q": "many", "sort": sort})
            following = re.search(r'rel="next" href="([^"]+)"', first.text)
            assert following is not None
            second = pia.get(unescape(following[1]))
            assert 'rel="next"' not in second.text
            previous = re.search(r'rel="prev" href="([^"]+)"', second.text)
            assert previous is not None
            assert names(pia.get(unescape(previous[1]))) == names(first)
        together = names(first) + names(second)
        assert len(together) == 27
        assert set(together) == {f"pia/many-{number:02}" for number in range(27)}


def test_what_is_hidden_is_found_counted_and_fed_to_nobody(stranger: httpx.Client) -> None:
    page = stranger.get("/", params={"q": "water"})
    assert names(page) == ["ann/tides"]
    assert (counts(page, "keyword"), counts(page, "license")) == ({"a<b & c": "1", "sea": "1"}, {"cc-by-4.0": "1"})
    everything = stranger.get("/")
    assert (counts(everything, "account"), counts(everything, "kind")) == ({"ann": "1"}, {"root": "1"})
    assert counts(everything, "changed")["last year"] == "1"
    for params in (
        {"q": "secret"},
        {"keyword": "hush"},
        {"license": "hidden-1.0"},
        {"account": "pia"},
        {"kind": "derivative"},
    ):
        hidden = stranger.get("/", params=params)
        assert names(hidden) == []
        assert facets(hidden).keys() <= {"kind", "account", "keyword", "license"}
        assert not any(facets(hidden).values())
        assert titles(feed(stranger, **params)) == []
        assert stranger.get("/datasets", params=params).json() == {"datasets": []}
    assert titles(feed(stranger)) == ["ann/tides"]


def test_an_account_page_searches_that_account(ann: httpx.Client, stranger: httpx.Client) -> None:
    page = ann.get("/ann", params={"q": "tides"})
    assert set(names(page)) == {"ann/tides", "ann/secret-tides"}
    assert "account" not in facets(page)
    assert all(href.startswith("/ann?") for _, href in facets(page)["keyword"].values())
    link = re.search(r'<link rel="alternate" type="application/atom\+xml"[^>]* href="([^"]+)"', page.text)
    assert link is not None
    assert unescape(link[1]) == "/-/datasets.atom?q=tides&account=ann"
    assert names(stranger.get("/ann")) == ["ann/tides"]


def test_a_feed_tells_changes_newest_first_and_keeps_texts_texts(world: Browsers, ann: httpx.Client) -> None:
    answer = ann.get("/-/datasets.atom", params={"q": "water", "keyword": "sea"})
    assert b"<script>" not in answer.content
    found = ET.fromstring(answer.content)
    assert titles(found) == ["ann/secret-tides", "ann/tides"]
    tides = list(found.iter(f"{ATOM}entry"))[1]
    assert tides.findtext(f"{ATOM}summary") == f"Water levels {HOSTILE} "
    assert [each.get("term") for each in tides.iter(f"{ATOM}category")] == ["Sea", "a<b & c"]
    link = tides.find(f"{ATOM}link")
    assert link is not None
    assert link.get("href") == f"{world.served.url}/ann/tides"
    times = [entry.findtext(f"{ATOM}updated") for entry in found.iter(f"{ATOM}entry")]
    assert found.findtext(f"{ATOM}updated") == times[0]
    assert found.findtext(f"{ATOM}id") == f"{world.served.url}/-/datasets.atom?q=water&keyword=sea"
    assert titles(feed(ann, q="nosuch")) == []


def test_a_feed_shows_a_dataset_again_when_it_changes(world: Browsers) -> None:
    with world.open("pia") as pia:
        before = feed(pia, q="many").findall(f"{ATOM}entry/{ATOM}id")
        entry = world.people.node.datasets.resolve(DatasetAlias(Name("pia"), Name("many-05")))
        line = b'{"event_time":"2026-01-01T00:00:00Z","city":"Ulm"}\n'
        job = world.people.node.requests.push(PushData(dataset=entry.id, body=iter([line])))
        assert isinstance(job, Job)
        world.people.memory.finish(job)
        after = feed(pia, q="many")
    assert titles(after)[0] == "pia/many-05"
    first = after.findtext(f"{ATOM}entry/{ATOM}id")
    assert first is not None
    assert first.startswith(f"{entry.id}#f1620")
    assert first not in [each.text for each in before]


def test_rest_takes_the_same_words_and_facets(world: Browsers) -> None:
    with httpx.Client(base_url=world.served.url, headers=world.people.bearer("ann"), trust_env=False) as client:

        def listed(**params: str) -> list[str]:
            return [each["alias"] for each in client.get("/datasets", params=params).json()["datasets"]]

        assert listed(q="water") == ["ann/secret-tides", "ann/tides"]
        assert listed(q="water", license="cc-by-4.0", keyword="SEA", kind="root", account="ANN", changed="day") == [
            "ann/tides"
        ]
        assert listed(kind="derivative") == ["ann/copied.daily"]
        first = client.get("/datasets", params={"q": "water", "limit": 1})
        following = re.search(r'<([^>]+)>; rel="next"', first.headers["link"])
        assert following is not None
        assert [each["alias"] for each in client.get(following[1]).json()["datasets"]] == ["ann/tides"]
        for wrong in ({"kind": "Root"}, {"changed": "hour"}, {"account": "no name"}, {"q": "x" * 201}):
            assert client.get("/datasets", params=wrong).status_code == 400
