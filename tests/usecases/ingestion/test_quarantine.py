"""Rows that a source rejects go to a dataset of their own, each once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from odfabric.adapters.unreliable.faults import FaultPlan
from odfabric.formats.identifiers.references import parse_dataset_alias
from odfabric.model.commit import CatalogEntry
from odfabric.model.jobs.job import Job, JobStatus
from odfabric.testing.memory_node import MemoryNode
from odfabric.usecases.ingestion.push_data import PushData
from odfabric.usecases.reading.read_tail import ReadTail
from tests.usecases.manifests import ROOT

QUARANTINE = ROOT.replace(
    "        fields:\n", "        extra: {odfabric.dev/wrong-rows: quarantine}\n        fields:\n"
)
MIXED = b'{"event_time":"2026-01-01T00:00:00Z","city":"A"}\nno json\n{"event_time":"never","city":"B"}\n'


@pytest.fixture
def memory(tmp_path: Path) -> MemoryNode:
    return MemoryNode(tmp_path)


def pushed(memory: MemoryNode, entry: CatalogEntry, body: bytes) -> Job:
    job = memory.node.requests.push(PushData(dataset=entry.id, body=iter([body]), file_name="mixed.ndjson"))
    assert isinstance(job, Job)
    return memory.finish(job)


def rows(memory: MemoryNode, name: str) -> list[dict[str, object]]:
    entry = memory.node.datasets.resolve(parse_dataset_alias(name))
    asked = ReadTail(skip=0, limit=100, data_format="JsonAoS", schema_format=None)
    found = memory.node.rows.tail(entry, asked)["data"]
    assert isinstance(found, list)
    return found


def test_wrong_rows_are_kept_with_place_reason_and_text(memory: MemoryNode) -> None:
    entry = memory.add(QUARANTINE)
    result = json.loads(pushed(memory, entry, MIXED).result or "")
    assert (result["rows"], result["rejectedRows"]) == (1, {"rows": 2, "dataset": "local/readings.rejected"})
    kept = rows(memory, "readings.rejected")
    assert [(row["source"], row["file"], row["line"], row["raw"]) for row in kept] == [
        ("default", "mixed.ndjson", 2, "no json"),
        ("default", "mixed.ndjson", 3, '{"event_time":"never","city":"B"}'),
    ]
    assert len(rows(memory, "readings")) == 1
    again = json.loads(pushed(memory, entry, MIXED).result or "")
    assert again["rejectedRows"]["rows"] == 2
    assert len(rows(memory, "readings.rejected")) == 4, "two pushes, two times"


def test_a_push_of_wrong_rows_alone_says_where_they_are(memory: MemoryNode) -> None:
    result = json.loads(pushed(memory, memory.add(QUARANTINE), b"no json\n").result or "")
    assert (result["rows"], result["rejectedRows"]["rows"]) == (0, 1)


def test_without_a_quarantine_all_is_refused(memory: MemoryNode) -> None:
    assert pushed(memory, memory.add(ROOT), MIXED).status is JobStatus.FAILED
    assert memory.node.repository.find(parse_dataset_alias("readings.rejected")) is None


def test_another_dataset_of_that_name_is_left_alone(memory: MemoryNode) -> None:
    memory.add(ROOT.replace("name: readings", "name: readings.rejected"))
    job = pushed(memory, memory.add(QUARANTINE), MIXED)
    assert job.status is JobStatus.FAILED
    assert "rename" in json.loads(job.error or "")["hint"]
    assert rows(memory, "readings.rejected") == []


def test_each_row_is_kept_once_whatever_call_fails(tmp_path: Path) -> None:
    watching = FaultPlan()
    (tmp_path / "watched").mkdir()
    scenario(MemoryNode(tmp_path / "watched", interceptor=watching))
    first = next(at for at, call in enumerate(watching.calls) if call.name == "engine.ingest")
    drills = [
        (at, fault)
        for at, call in enumerate(watching.calls)
        if at >= first and call.name.startswith(("chain.append", "object.", "engine."))
        for fault in call.faults
    ]
    for number, (at, fault) in enumerate(drills):
        (tmp_path / str(number)).mkdir()
        memory = MemoryNode(tmp_path / str(number), interceptor=FaultPlan.single(at, fault))
        scenario(memory)
        counts = [len(rows(memory, name)) for name in ("readings", "readings.rejected")]
        assert counts == [1, 2], (watching.calls[at], fault)


def scenario(memory: MemoryNode) -> None:
    job = pushed(memory, memory.add(QUARANTINE), MIXED)
    assert job.status is JobStatus.SUCCEEDED, job.error
