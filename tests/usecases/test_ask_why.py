"""Why records are there: through datasets to their roots, and where branches end."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from odfabric.adapters.local_fs.object_store import FolderObjectStore
from odfabric.domain.people.access import Subject
from odfabric.domain.provenance.trace import RecordRef
from odfabric.errors import Corrupt, InvalidRequest, LimitExceeded, NotFound
from odfabric.formats.identifiers.multihash import parse_multihash
from odfabric.formats.manifests.manifest_yaml import parse_snapshots
from odfabric.model.commit import CatalogEntry
from odfabric.model.identity import DatasetAlias, DatasetId
from odfabric.model.jobs.job import Job, JobStatus
from odfabric.model.jobs.requests import CompactRequest, PullRequest
from odfabric.model.multihash import Multihash
from odfabric.model.why_request import WhyRequest
from odfabric.ports.datasets.catalog import Catalog
from odfabric.testing.memory_node import MemoryNode
from odfabric.usecases.chain.repository import Repository, StoredBlocks
from odfabric.usecases.ingestion.push_data import PushData
from odfabric.usecases.provenance.ask_why import ask_why
from odfabric.usecases.provenance.find_block import block_with
from tests.usecases.manifests import ROOT

OTHER = ROOT.replace("name: readings", "name: others")


def copy_of(source: str, name: str, *, second: str = "others") -> str:
    return f"""
kind: DatasetSnapshot
version: 1
content:
  name: {name}
  kind: Derivative
  metadata:
  - kind: SetTransform
    inputs: [{{datasetRef: {source}, alias: a}}, {{datasetRef: {second}, alias: b}}]
    transform: {{kind: Sql, engine: spark, query: SELECT * FROM a}}
"""


class Story:
    """Two roots, a copy of the first, and a copy of that."""

    def __init__(self, folder: Path) -> None:
        self.memory = MemoryNode(folder)
        self.readings = self.memory.add(ROOT)
        self.others = self.memory.add(OTHER)
        self.copied = self.memory.add(copy_of("readings", "copied"))
        self.again = self.memory.add(copy_of("copied", "again"))

    def push(self, entry: CatalogEntry, *cities: str) -> None:
        lines = [json.dumps({"event_time": "2026-01-01T00:00:00Z", "city": city}) for city in cities]
        job = self.memory.node.requests.push(PushData(dataset=entry.id, body=iter(["\n".join(lines).encode()])))
        assert isinstance(job, Job)
        assert self.memory.finish(job).status is JobStatus.SUCCEEDED

    def pull(self, entry: CatalogEntry) -> None:
        job = self.memory.finish(self.memory.node.requests.pull(PullRequest(dataset=entry.id, alias=entry.alias)))
        assert job.status is JobStatus.SUCCEEDED, job.error

    def change(self, name: str, query: str) -> None:
        manifest = copy_of("readings", name).replace("SELECT * FROM a", query)
        (snapshot,) = parse_snapshots(manifest, file="test.yaml")
        self.memory.node.editing.set_transform(snapshot, self.memory.node.operator, anew=False)

    def why(self, entry: CatalogEntry, *offsets: int, by: Subject | None = None, **asked: Any) -> dict[str, Any]:
        request = WhyRequest(offsets=offsets, values=True, **asked)
        value: dict[str, Any] = self.memory.node.provenance.why(entry, request, by=by)
        json.dumps(value)
        return value


@pytest.fixture
def story(tmp_path: Path) -> Story:
    found = Story(tmp_path)
    found.push(found.readings, "Kyiv", "Lviv")
    found.push(found.others, "Oslo")
    found.pull(found.copied)
    found.push(found.readings, "Odesa")
    found.pull(found.copied)
    found.pull(found.again)
    return found


def test_a_record_is_followed_to_its_root(story: Story) -> None:
    answer = story.why(story.again, 2)
    assert [(one["dataset"], one["offset"], one["depth"]) for one in answer["records"]] == [
        (str(story.again.id), 2, 0),
        (str(story.copied.id), 2, 1),
        (str(story.readings.id), 2, 2),
    ]
    assert [one["values"]["city"] for one in answer["records"]] == ["Odesa"] * 3
    first, second, root = answer["records"]
    assert first["why"]["witnesses"][0]["ranges"] == [[2, 3]]
    assert first["why"]["verified"]
    assert second["why"]["trigger"][0]["count"] == 1, "the cause of the cause"
    assert root["end"]["reason"] == "root"
    assert root["block"]["hash"] == str(story.memory.node.repository.head(story.readings.id).hash)
    assert answer["datasets"][str(story.readings.id)]["alias"] == "local/readings"
    assert answer["cost"]["derivations"] == 2


def test_causes_are_followed_from_what_was_asked_for(story: Story) -> None:
    """Of a withdrawal the row that comes from nothing new has no cause in the answer."""
    story.change("copied", "SELECT * FROM b")
    story.pull(story.copied)
    story.pull(story.again)
    asked = story.why(story.again, 3)["records"]
    assert [one["why"]["trigger"] != [] for one in asked[:2]] == [True, False]


def test_depth_ends_a_trace(story: Story) -> None:
    answer = story.why(story.again, 0, depth="1")
    assert [one["depth"] for one in answer["records"]] == [0, 1]
    assert answer["records"][1]["end"]["reason"] == "depth"
    assert [one["depth"] for one in story.why(story.again, 0, depth="0")["records"]] == [0]


def test_cells_follow_the_columns_asked_for(story: Story) -> None:
    answer = story.why(story.again, 0, columns=("city",))
    for one in answer["records"][:2]:
        assert [(cell["column"], cell["of"], cell["role"]) for cell in one["why"]["cells"]] == [
            ("city", "city", "copied")
        ]


def test_a_column_that_the_query_drops_is_named_with_its_input(story: Story) -> None:
    wider = story.memory.add(OTHER.replace("name: others", "name: wider").replace("value", "size"))
    story.push(wider, "Oslo")
    few = story.memory.add(copy_of("readings", "few", second="wider"))
    story.pull(few)
    with pytest.raises(InvalidRequest) as refused:
        story.why(few, 0, columns=("size",))
    assert "its input local/wider has it" in str(refused.value)


def test_blocks_are_read_once_for_all_questions(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    """A block that an earlier question has read costs no time again."""
    read: list[str] = []
    plain = StoredBlocks.get_bytes

    def counted(self: StoredBlocks, block: Multihash) -> bytes:
        read.append(str(block))
        return plain(self, block)

    monkeypatch.setattr(StoredBlocks, "get_bytes", counted)
    first = story.why(story.again, 2)
    assert read
    read.clear()
    assert story.why(story.again, 2) == first
    assert read == []


def test_what_was_read_before_does_not_hide_damage_from_others(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    story.why(story.again, 2)
    repository = story.memory.node.repository
    head = repository.head(story.copied.id).hash
    monkeypatch.setattr(StoredBlocks, "get_bytes", lambda *_: b"")
    assert repository.recalling().blocks(story.copied.id).get(head).event
    with pytest.raises(Corrupt):
        repository.blocks(story.copied.id).get(head)


def test_records_of_one_block_are_one_derivation(story: Story) -> None:
    assert story.why(story.copied, 0, 1)["cost"]["derivations"] == 1
    assert story.why(story.copied, 0, 2)["cost"]["derivations"] == 2


def test_a_migration_is_explained_on_both_sides(story: Story) -> None:
    story.change("copied", "SELECT * FROM b")
    story.pull(story.copied)
    withdrawn = story.why(story.copied, 3)["records"]
    assert (withdrawn[0]["op"], withdrawn[0]["corrects"]) == ("retract", 0)
    new = story.why(story.copied, 6)["records"]
    assert [one["values"]["city"] for one in new] == ["Oslo", "Oslo"]
    assert new[1]["dataset"] == str(story.others.id)


def test_slices_that_stay_the_same_are_hashed_once(story: Story, tmp_path: Path) -> None:
    """A question reads little of a long history, and so must the node."""
    plain, private = story.memory.node.repository, tmp_path / "private"
    private.mkdir()
    folder = FolderObjectStore(tmp_path / "folder", private_folders=(private,))
    (data,) = plain.objects.keys(f"{story.others.id.multibase}/data/")
    folder.put_bytes(data, plain.objects.read_bytes(data, size_max=1 << 20))
    repository = Repository(
        catalog=plain.catalog,
        chains=plain.chains,
        objects=folder,
        account=plain.account,
        block_bytes_max=1 << 20,
        states_cached_max=1,
    )
    name, stored = parse_multihash(data.rpartition("/")[2]), tmp_path / "folder" / data
    repository.materialize_slice(story.others.id, name, private / "first")
    stat = stored.stat()
    stored.chmod(0o600)
    stored.write_bytes(b"!" * stat.st_size)
    os.utime(stored, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    repository.materialize_slice(story.others.id, name, private / "second")
    os.utime(stored)
    with pytest.raises(Corrupt, match="does not hash to its name"):
        repository.materialize_slice(story.others.id, name, private / "third")


def test_what_cannot_be_answered_is_refused(story: Story) -> None:
    with pytest.raises(NotFound, match=r"again 9.*"):
        story.why(story.again, 9)
    with pytest.raises(InvalidRequest, match="no column `citi`") as caught:
        story.why(story.again, 0, columns=("citi",))
    assert caught.value.hint == "did you mean `city`?"
    for wrong in ({"depth": "deep"}, {"effort": "much"}, {"kinds": ("who",)}, {"after": "x"}, {"limit": 0}):
        with pytest.raises(InvalidRequest):
            story.why(story.again, 0, **wrong)
    with pytest.raises(LimitExceeded):
        story.why(story.again, 0, limit=100_000)


def test_the_budget_of_a_trace_is_said(story: Story) -> None:
    limit(story, provenance_records_max=2)
    answer = why_at(story, 0)
    assert [one["depth"] for one in answer["records"]] == [0, 1]
    assert answer["leftOut"] == 1
    assert answer["records"][1]["why"]["witnesses"][0]["leftOut"] == 1


def test_a_trace_ends_in_time_and_says_where(story: Story) -> None:
    limit(story, provenance_wall_s_max=0.001)
    answer = why_at(story, 0)
    assert [one["end"]["reason"] for one in answer["records"]] == ["time"]


def limit(story: Story, **settings: float) -> None:
    """Other limits from now on."""
    core = story.memory.node.provenance.core
    changed = replace(core, settings=core.settings.model_copy(update=settings))
    story.memory.node.provenance = replace(story.memory.node.provenance, core=changed)


def why_at(story: Story, offset: int) -> dict[str, Any]:
    """Asks a node with the settings as they are now."""
    value: dict[str, Any] = story.memory.node.provenance.why(story.again, WhyRequest(offsets=(offset,), limit=2))
    return value


def test_too_many_rows_to_read_are_refused_unless_all_are_asked_for(story: Story) -> None:
    limit(story, provenance_rows_max=1)
    node = story.memory.node
    with pytest.raises(LimitExceeded) as caught:
        node.provenance.why(story.again, WhyRequest(offsets=(0,)))
    assert caught.value.limit == "provenance_rows_max"
    whole: Any = node.provenance.why(story.again, WhyRequest(offsets=(0,), whole=True))["records"]
    assert [one["depth"] for one in whole] == [0, 1, 2]


@dataclass(frozen=True)
class WithoutOne:
    """A catalog without one dataset, as where only its derivative was pulled."""

    all: Catalog
    absent: DatasetId

    def by_id(self, dataset: DatasetId) -> CatalogEntry | None:
        return None if dataset == self.absent else self.all.by_id(dataset)

    def by_alias(self, alias: DatasetAlias) -> CatalogEntry | None:
        return self.all.by_alias(alias)


def test_an_input_that_is_not_here_ends_the_branch(story: Story) -> None:
    node = story.memory.node
    absent: Any = WithoutOne(node.repository.catalog, story.readings.id)
    repository = node.repository.seen_through(absent, node.account)
    ports = replace(node.provenance.ports(node.operator), repository=repository, seen=repository)
    answer: Any = ask_why(story.again, WhyRequest(offsets=(0,)), ports=ports, progress=lambda _: None)
    first, second = answer["records"]
    assert first["why"]["verified"]
    assert second["end"]["reason"] == "not-here"
    (missing,) = second["end"]["inputs"]
    assert (missing["dataset"], missing["offsets"]) == (str(story.readings.id), [0, 2])
    assert missing["block"]


@given(st.lists(st.integers(0, 3), min_size=1, max_size=40))
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_each_record_is_found_in_its_block(tmp_path_factory: pytest.TempPathFactory, sizes: list[int]) -> None:
    memory = MemoryNode(tmp_path_factory.mktemp("node"))
    entry = memory.add(ROOT)
    expected: list[int] = []
    for number, rows in enumerate(sizes[:12]):
        lines = [json.dumps({"event_time": "2026-01-01T00:00:00Z", "city": f"{number}"})] * rows
        job = memory.node.requests.push(PushData(dataset=entry.id, body=iter(["\n".join(lines).encode()])))
        assert isinstance(job, Job)
        memory.finish(job)
        if rows:
            expected += [memory.node.repository.head(entry.id).sequence_number] * rows
    found = [
        block_with(RecordRef(entry.id, offset), memory.node.repository).block.sequence_number
        for offset in range(len(expected))
    ]
    assert found == expected
    with pytest.raises(NotFound):
        block_with(RecordRef(entry.id, len(expected)), memory.node.repository)


class TestRewrittenInputs:
    """What a derivation had read may be another history now."""

    def compact(self, story: Story) -> None:
        node = story.memory.node
        job = story.memory.finish(node.history.compact(story.readings, CompactRequest(dataset=story.readings.id)))
        assert job.status is JobStatus.SUCCEEDED

    def test_after_a_compaction_the_same_rows_are_found(self, story: Story) -> None:
        before = story.why(story.again, 0, 2)
        self.compact(story)
        after = story.why(story.again, 0, 2)
        assert [(one["offset"], one["values"]) for one in after["records"]] == [
            (one["offset"], one["values"]) for one in before["records"]
        ]
        assert after["records"][-1]["end"]["reason"] == "root"

    def test_when_the_blocks_from_before_it_are_gone_the_branch_ends(self, story: Story) -> None:
        self.compact(story)
        story.memory.node.background.relay_outbox()
        story.memory.clock.advance(48 * 3_600_000)
        gone = [one.key for portion in story.memory.node.objects.collect(dry_run=False) for one in portion.litter]
        assert any("/blocks/" in key for key in gone)
        first, second = story.why(story.again, 2)["records"]
        assert first["why"]["verified"], "it had read another dataset"
        assert second["end"]["reason"] == "rewritten"
        assert "local/readings was compacted at" in second["end"]["message"]
        assert "`odf pull local/copied --recompute`" in second["end"]["message"]

    def test_rows_of_another_history_are_not_taken_for_those_that_were_read(self, story: Story) -> None:
        node = story.memory.node
        first = [row.hash for row in node.repository.rows_down(story.readings.id)][1]
        node.history.reset(story.readings, first, expected=node.datasets.head(story.readings).hash)
        story.push(story.readings, "Another")
        ended = story.why(story.again, 2)["records"][-1]
        assert ended["dataset"] == str(story.copied.id)
        assert ended["end"]["reason"] == "rewritten"
        assert "local/readings was reset at" in ended["end"]["message"]
        (asked,) = story.why(story.copied, 2)["records"]
        assert asked["end"]["reason"] == "rewritten", "also where it is the first one"
