"""`refs/head` says what the database says, with late writers and lost locks."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from odfabric.errors import Determinate, Indeterminate
from odfabric.formats.identifiers.dataset_layout import head_key
from odfabric.model.commit import CatalogEntry
from odfabric.model.jobs.job import Job
from odfabric.testing.memory_node import MemoryNode
from odfabric.usecases.chain.commit import Commits
from odfabric.usecases.ingestion.push_data import PushData
from tests.usecases.manifests import ROOT

ROW = b'{"event_time":"2026-01-01T00:00:00Z","city":"A"}\n'


@pytest.fixture
def memory(tmp_path: Path) -> MemoryNode:
    return MemoryNode(tmp_path)


@pytest.fixture
def readings(memory: MemoryNode) -> CatalogEntry:
    return memory.add(ROOT)


class WithoutLock:
    """The objects as a process sees them that has lost its lock and does not know.

    `meanwhile` happens before it writes.
    """

    def __init__(self, objects: Any, meanwhile: Callable[[], None]) -> None:
        self._objects, self._meanwhile = objects, meanwhile

    def __getattr__(self, name: str) -> Any:
        return getattr(self._objects, name)

    def exclusive(self, key: str) -> AbstractContextManager[None]:
        return nullcontext()

    def replace_ref(self, key: str, text: str, *, expected: str | None) -> bool:
        meanwhile, self._meanwhile = self._meanwhile, lambda: None
        meanwhile()
        replaced: bool = self._objects.replace_ref(key, text, expected=expected)
        return replaced


def commits_of(memory: MemoryNode, objects: Any) -> Commits:
    """Another process on the same database."""
    ports, settings = memory.node.ports, memory.settings
    return Commits(
        chains=ports.chains,
        catalog=ports.catalog,
        objects=objects,
        clock=ports.clock,
        attempts_max=settings.commit_attempts_max,
        block_bytes_max=settings.block_bytes_max,
        signing=memory.node.core.heads,
    )


def push(memory: MemoryNode, entry: CatalogEntry) -> None:
    job = memory.node.requests.push(PushData(dataset=entry.id, body=iter([ROW])))
    assert isinstance(job, Job)
    memory.finish(job)


def published(memory: MemoryNode, entry: CatalogEntry) -> str | None:
    return memory.objects.read_ref(head_key(entry.id))


def test_who_is_late_does_not_publish_an_older_head(memory: MemoryNode, readings: CatalogEntry) -> None:
    late = commits_of(memory, WithoutLock(memory.objects, lambda: push(memory, readings)))
    memory.objects.delete(head_key(readings.id))
    late.publish(readings.id)
    assert published(memory, readings) == str(memory.node.datasets.head(readings).hash)


def test_a_ref_that_others_wrote_is_written_again(memory: MemoryNode, readings: CatalogEntry) -> None:
    memory.objects.write_ref(head_key(readings.id), "something else")
    commits_of(memory, memory.objects).publish(readings.id)
    assert published(memory, readings) == str(memory.node.datasets.head(readings).hash)
    push(memory, readings)
    assert published(memory, readings) == str(memory.node.datasets.head(readings).hash)


def test_what_is_committed_but_not_published_is_not_said_to_have_failed_for_sure(memory: MemoryNode) -> None:
    def away() -> None:
        raise Determinate("the bucket is away")

    memory.use_ports(objects=WithoutLock(memory.objects, away))
    with pytest.raises(Indeterminate, match="committed, but not published yet"):
        memory.add(ROOT)
    (entry,) = memory.node.datasets.page(after=None, limit=10)
    assert published(memory, entry) is None
    memory.node.background.relay_outbox()
    assert published(memory, entry) == str(memory.node.datasets.head(entry).hash)
