"""Descriptions, listings, blocks and lineage match the chains, within rights."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from odfabric.domain.people.dataset_search import Narrowing, Order
from odfabric.errors import NotFound
from odfabric.model.commit import CatalogEntry
from odfabric.model.identity import Name
from odfabric.model.jobs.job import Job
from odfabric.model.jobs.requests import PullRequest
from odfabric.model.metadata import DatasetKind
from odfabric.model.people.account import DatasetRole
from odfabric.usecases.ingestion.push_data import PushData
from tests.services.api.people import People
from tests.usecases.manifests import DERIVED, ROOT

DESCRIBED = """
  - kind: SetInfo
    description: Temperatures of cities
    keywords: [weather, city]
  - kind: SetLicense
    shortName: CC0
    name: Creative Commons Zero
    websiteUrl: https://example.org/cc0
  - kind: SetAttachments
    attachments:
      kind: Embedded
      items:
      - {path: docs/README.md, content: '# Cities'}
"""


@pytest.fixture
def people(tmp_path: Path) -> People:
    return People(tmp_path)


def push(people: People, entry: CatalogEntry, day: int, rows: int = 1) -> None:
    lines = "".join(f'{{"event_time":"2026-01-{day:02}T00:00:00Z","city":"C{row}"}}\n' for row in range(rows))
    job = people.node.requests.push(PushData(dataset=entry.id, body=iter([lines.encode()])))
    assert isinstance(job, Job)
    people.memory.finish(job)


def derived(people: People, owner: str, name: str, source: str) -> CatalogEntry:
    return people.add(
        owner, name, manifest=DERIVED.replace("datasetRef: readings", f"datasetRef: {source}, alias: readings")
    )


def test_a_description_has_the_words_of_the_publisher_and_the_columns(people: People) -> None:
    entry = people.add("ann", "cities", manifest=ROOT + DESCRIBED)
    push(people, entry, 1, rows=3)
    found = people.node.browsing.describe(entry, by=people.subject("ann"))
    assert (found.description, found.keywords) == ("Temperatures of cities", ("weather", "city"))
    assert found.license is not None
    assert found.license.website_url == "https://example.org/cc0"
    assert (found.readme, found.rows, found.is_public) == ("# Cities", 3, False)
    assert [(each.name, each.type, each.is_optional, each.is_system) for each in found.columns] == [
        ("offset", "BIGINT", False, True),
        ("op", "INT", False, True),
        ("system_time", "TIMESTAMP", False, True),
        ("event_time", "TIMESTAMP", False, False),
        ("city", "STRING", False, False),
        ("value", "BIGINT", True, False),
    ]
    people.grant(entry, "*", DatasetRole.READER)
    assert people.node.browsing.describe(entry, by=people.subject("ann")).is_public


def test_a_search_finds_words_kinds_and_accounts_and_orders(people: People) -> None:
    first = people.add("ann", "bus.stops", manifest=ROOT + DESCRIBED)
    people.add("ann", "bus.lines")
    people.add("pia", "trams")
    ann = people.subject("ann")

    people.node.searching.catch_up()

    def names(order: Order = Order.NAME, limit: int = 10, **asked: Any) -> list[str]:
        found = people.node.browsing.search(Narrowing(**asked), order=order, limit=limit, by=ann)
        return [str(each.entry.alias) for each in found]

    assert names() == ["ann/bus.lines", "ann/bus.stops"]
    assert names(words=("stop",)) == names(words=("cities", "zero")) == ["ann/bus.stops"]
    assert names(words=("trams",)) == []
    assert names(account=Name("ann"), limit=1) == ["ann/bus.lines"]
    assert names(kind=DatasetKind.DERIVATIVE) == []
    people.memory.clock.advance(1000)
    push(people, first, 1, rows=2)
    assert names(Order.NEWEST) == ["ann/bus.stops", "ann/bus.lines"]
    (summary,) = people.node.browsing.search(Narrowing(words=("stop",)), limit=10, by=ann)
    assert (summary.rows, summary.description, summary.keywords) == (2, "Temperatures of cities", ("weather", "city"))


@pytest.mark.parametrize("is_caught_up", [False, True])
def test_lineage_goes_up_and_down_as_far_as_is_asked(people: People, is_caught_up: bool) -> None:
    root = people.add("ann", "base")
    middle = derived(people, "ann", "middle", "ann/base")
    derived(people, "ann", "end", "ann/middle")
    ann = people.subject("ann")
    if is_caught_up:
        assert people.node.searching.catch_up() == 3
    near = people.node.browsing.lineage(middle, depth=1, by=ann)
    assert {str(near.entries[each].alias): level for each, level in near.levels.items()} == {
        "ann/base": -1,
        "ann/middle": 0,
        "ann/end": 1,
    }
    assert len(near.edges) == 2
    assert {edge.query for edge in near.edges} == {"SELECT * FROM readings"}
    assert [*people.node.browsing.lineage(root, depth=1, by=ann).levels.values()] == [0, 1]
    assert [*people.node.browsing.lineage(root, depth=2, by=ann).levels.values()] == [0, 1, 2]


def test_lineage_tells_how_far_a_derivative_is_behind(people: People) -> None:
    root = people.add("ann", "base")
    reader = derived(people, "ann", "reader", "ann/base")
    ann = people.subject("ann")

    def behind() -> int:
        (edge,) = people.node.browsing.lineage(root, depth=1, by=ann).edges
        return edge.behind

    assert behind() == 0
    push(people, root, 1, rows=3)
    assert behind() == 3
    people.memory.finish(people.node.requests.pull(PullRequest(dataset=reader.id, alias=reader.alias), by=ann))
    assert behind() == 0
    push(people, root, 2, rows=2)
    assert behind() == 2


def test_lineage_says_nothing_of_what_the_reader_may_not_read(people: People) -> None:
    people.add("ann", "secret")
    shown = derived(people, "ann", "shown", "ann/secret")
    derived(people, "ann", "private-reader", "ann/shown")
    people.grant(shown, "pia", DatasetRole.READER)
    found = people.node.browsing.lineage(shown, depth=3, by=people.subject("pia"))
    assert [str(each.alias) for each in found.entries.values()] == ["ann/shown"]
    assert (found.edges, found.hidden_inputs) == ((), 1)
    described = people.node.browsing.describe(shown, by=people.subject("pia"))
    assert [each.entry for each in described.inputs] == [None]


def test_blocks_are_paged_filtered_and_counted(people: People) -> None:
    entry = people.add("ann", "cities")
    for day in (1, 2):
        push(people, entry, day, rows=day)
    browsing, ann = people.node.browsing, people.subject("ann")

    def numbers(**asked: object) -> list[int]:
        given = {"below": None, "event_types": None, "limit": 99, **asked}
        return [each.block.sequence_number for each in browsing.blocks(entry, by=ann, **given)]  # type: ignore[arg-type]

    everything = numbers()
    assert everything == sorted(everything, reverse=True)
    assert numbers(below=2) == [1, 0]
    assert numbers(below=0) == []
    data = numbers(event_types=frozenset({"AddData"}))
    assert len(data) == 2
    newest = browsing.blocks(entry, below=None, event_types=frozenset({"AddData"}), limit=1, by=ann)[0]
    assert newest.data is not None
    assert dict(browsing.operations(entry, newest.data, by=ann)) == {0: 2}
    looked_at = browsing.block(entry, newest.hash, by=ann)
    assert looked_at.following is None
    before = looked_at.block.prev_block_hash
    assert before is not None
    following = browsing.block(entry, before, by=ann).following
    assert following is not None
    assert following.hash == newest.hash


def test_a_block_of_another_chain_is_not_there(people: People) -> None:
    entry, other = people.add("ann", "one"), people.add("ann", "two")
    with pytest.raises(NotFound, match="block"):
        people.node.browsing.block(entry, people.node.datasets.head(other).hash, by=people.subject("ann"))


def test_jobs_are_those_that_the_subject_may_see(people: People) -> None:
    entry = people.add("ann", "cities")
    push(people, entry, 1)
    browsing = people.node.browsing
    assert len(browsing.jobs_seen(entry, limit=9, by=people.subject("ann"))) == 1
    assert browsing.jobs_seen(None, limit=9, by=people.subject("pia")) == []
    assert len(browsing.jobs_seen(None, limit=9, by=people.subject("root"))) == 1
    narrow = replace(people.subject("ann"), datasets=frozenset())
    assert browsing.jobs_seen(entry, limit=9, by=narrow) == []
