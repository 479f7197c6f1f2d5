"""Changing a dataset's info: only differences, and no lost updates."""

from __future__ import annotations

from pathlib import Path

import pytest

from odfabric.domain.people.access import STRANGER
from odfabric.errors import Changed, InvalidManifest, NotFound
from odfabric.model.commit import CatalogEntry
from odfabric.model.jobs.job import Job, JobStatus
from odfabric.model.metadata import (
    AttachmentEmbedded,
    AttachmentsEmbedded,
    SetAttachments,
    SetInfo,
    SetLicense,
    SetVocab,
)
from odfabric.testing.memory_node import MemoryNode
from odfabric.usecases.datasets.set_info import ChangedInfo, InfoEvent, info_events, info_version
from odfabric.usecases.ingestion.push_data import PushData
from tests.usecases.manifests import DERIVED, ROOT

INFO = SetInfo(description="Where buses are", keywords=("bus",))
LICENSE = SetLicense(short_name="CC0", name="Creative Commons Zero", website_url="https://example.org/cc0")
README = SetAttachments(
    attachments=AttachmentsEmbedded(items=(AttachmentEmbedded(path="README.md", content="# Buses\n"),))
)


@pytest.fixture
def memory(tmp_path: Path) -> MemoryNode:
    return MemoryNode(tmp_path)


@pytest.fixture(params=["root", "derivative"])
def entry(request: pytest.FixtureRequest, memory: MemoryNode) -> CatalogEntry:
    root = memory.add(ROOT)
    return root if request.param == "root" else memory.add(DERIVED)


def change(memory: MemoryNode, entry: CatalogEntry, *events: InfoEvent, seen: str | None = None) -> ChangedInfo:
    return memory.node.editing.set_info(entry, events, memory.node.operator, seen=seen)


def version(memory: MemoryNode, entry: CatalogEntry) -> str:
    return info_version(memory.node.repository.current(entry.id)[1])


def test_only_what_differs_is_committed(memory: MemoryNode, entry: CatalogEntry) -> None:
    first = change(memory, entry, INFO, LICENSE, README)
    assert first.result is not None
    assert len(first.result.blocks) == 3
    assert change(memory, entry, INFO, LICENSE, README).result is None
    other = SetInfo(description="Where buses were", keywords=("bus",))
    second = change(memory, entry, other, LICENSE)
    assert second.result is not None
    assert len(second.result.blocks) == 1
    state = memory.node.repository.current(entry.id)[1]
    told = [each.event for each in (state.info, state.license, state.attachments) if each]
    assert told == [other, LICENSE, README]


def test_the_second_of_two_is_told(memory: MemoryNode, entry: CatalogEntry) -> None:
    seen = version(memory, entry)
    change(memory, entry, INFO, seen=seen)
    head = memory.node.datasets.head(entry)
    with pytest.raises(Changed):
        change(memory, entry, SetInfo(description="Mine"), seen=seen)
    assert memory.node.datasets.head(entry) == head
    change(memory, entry, SetInfo(description="Mine"), seen=version(memory, entry))


def test_rows_that_come_meanwhile_are_no_change_of_texts(memory: MemoryNode) -> None:
    entry = memory.add(ROOT)
    seen = version(memory, entry)
    body = iter([b'{"event_time":"2026-01-01T00:00:00Z","city":"Ulm"}'])
    job = memory.node.requests.push(PushData(dataset=entry.id, body=body))
    assert isinstance(job, Job)
    assert memory.finish(job).status is JobStatus.SUCCEEDED
    assert version(memory, entry) == seen


def test_a_manifest_without_such_events_is_refused() -> None:
    with pytest.raises(InvalidManifest, match="says nothing of the dataset"):
        info_events([SetVocab()])
    assert info_events([INFO, SetInfo(description="last")]) == (SetInfo(description="last"),)


def test_whoever_may_not_write_changes_nothing(memory: MemoryNode, entry: CatalogEntry) -> None:
    head = memory.node.datasets.head(entry)
    with pytest.raises(NotFound):
        memory.node.editing.set_info(entry, [INFO], STRANGER)
    assert memory.node.datasets.head(entry) == head
