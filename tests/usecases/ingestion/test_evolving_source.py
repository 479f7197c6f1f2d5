"""A source whose contract is to evolve gets a column for each new field."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from odfabric.errors import InvalidManifest
from odfabric.formats.identifiers.references import parse_dataset_alias
from odfabric.model.commit import CatalogEntry
from odfabric.model.jobs.job import Job, JobStatus
from odfabric.testing.memory_node import MemoryNode
from odfabric.usecases.ingestion.push_data import PushData
from odfabric.usecases.reading.read_tail import ReadTail
from odfabric.usecases.verification.verification_run import VerifyOptions
from odfabric.wiring.composed.uploads import UploadVerbs
from tests.usecases.manifests import ROOT

EVOLVES = ROOT.replace("        fields:\n", "        extra: {odfabric.dev/contract: evolve}\n        fields:\n")


@pytest.fixture
def memory(tmp_path: Path) -> MemoryNode:
    return MemoryNode(tmp_path)


def row(day: int, **fields: object) -> bytes:
    return json.dumps({"event_time": f"2026-01-0{day}T00:00:00Z", "city": "A", **fields}).encode() + b"\n"


def pushed(memory: MemoryNode, entry: CatalogEntry, body: bytes) -> Job:
    job = memory.node.requests.push(PushData(dataset=entry.id, body=iter([body])))
    assert isinstance(job, Job)
    return memory.finish(job)


def result_of(job: Job) -> dict[str, object]:
    assert job.status is JobStatus.SUCCEEDED, job.error
    found: dict[str, object] = json.loads(job.result or "")
    return found


def rows(memory: MemoryNode, entry: CatalogEntry) -> list[dict[str, object]]:
    asked = ReadTail(skip=0, limit=100, data_format="JsonAoS", schema_format=None)
    found = memory.node.rows.tail(entry, asked)["data"]
    assert isinstance(found, list)
    return found


def test_new_fields_become_columns_with_the_rows_that_have_them(memory: MemoryNode) -> None:
    entry = memory.add(EVOLVES)
    first = result_of(pushed(memory, entry, row(1, rain=5)))
    assert first["addedColumns"] == ["rain"]
    second = result_of(pushed(memory, entry, row(2, rain=6, note="x") + row(3)))
    assert (second["addedColumns"], second["rows"]) == (["note"], 2)
    third = result_of(pushed(memory, entry, row(4, note="y")))
    assert ("addedColumns" in third, third["rows"]) == (False, 1)
    assert [(each["rain"], each["note"]) for each in rows(memory, entry)] == [
        (5, None),
        (6, "x"),
        (None, None),
        (None, "y"),
    ]
    job = memory.node.requests.verify(entry, VerifyOptions())
    assert result_of(memory.finish(job)) == {"ok": True, "errors": []}


def tried(memory: MemoryNode, entry: CatalogEntry, body: bytes) -> dict[str, object]:
    verbs = UploadVerbs(memory.node)
    by = memory.node.operator
    return result_of(
        memory.finish(verbs.try_push(entry, iter([body]), file_name="a", source_name=None, media_type=None, by=by))
    )


def test_a_trial_shows_the_columns_that_a_push_would_add(memory: MemoryNode) -> None:
    entry = memory.add(EVOLVES)
    head = memory.node.datasets.head(entry)
    found = tried(memory, entry, row(1, rain=5))
    assert found["addedColumns"] == ["rain"]
    assert [each["rain"] for each in found["sample"]] == [5]  # type: ignore[attr-defined]
    assert memory.node.datasets.head(entry) == head


def test_a_trial_refuses_the_names_that_a_push_would_refuse(memory: MemoryNode) -> None:
    entry = memory.add(EVOLVES)
    for name in ("offset", "x" * 2000):
        job = pushed(memory, entry, row(1, **{name: 5}))
        assert job.status is JobStatus.FAILED
        problem = tried(memory, entry, row(1, **{name: 5}))["problem"]
        assert problem["message"] == json.loads(job.error or "")["message"]  # type: ignore[index]


def test_one_of_several_sources_cannot_grow_alone(memory: MemoryNode) -> None:
    source = EVOLVES[EVOLVES.index("  - kind: AddPushSource") :]
    entry = memory.add(EVOLVES + source.replace("sourceName: default", "sourceName: other"))
    job = memory.node.requests.push(PushData(dataset=entry.id, body=iter([row(1, rain=5)]), source_name="other"))
    assert isinstance(job, Job)
    refused = json.loads(memory.finish(job).error or "")
    assert (refused["field"], "set-source" in refused["hint"]) == ("rain", True)


def test_a_preprocess_query_says_itself_which_columns_there_are(memory: MemoryNode) -> None:
    query = "    preprocess: {kind: Sql, engine: spark, query: SELECT * FROM input}\n"
    with pytest.raises(InvalidManifest, match="preprocess"):
        memory.add(EVOLVES + query)
    assert memory.node.repository.find(parse_dataset_alias("readings")) is None
