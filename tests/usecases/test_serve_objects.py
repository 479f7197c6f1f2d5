"""Serving objects: a hash is no permission, and a miss costs no chain walk."""

from __future__ import annotations

from pathlib import Path

import pytest

from odfabric.errors import NotFound
from odfabric.formats.identifiers.dataset_layout import DATA, data_key
from odfabric.model.commit import CatalogEntry
from odfabric.model.jobs.job import Job
from odfabric.model.metadata import AddData
from odfabric.model.multihash import Multihash
from odfabric.testing.conformance.examples import hash_of
from odfabric.testing.memory_node import MemoryNode
from odfabric.usecases.ingestion.push_data import PushData
from odfabric.usecases.transfer.serve_objects import ReferredObjects
from tests.support.at_call import Counting
from tests.usecases.manifests import ROOT

PUSHES = 5


@pytest.fixture
def counting() -> Counting:
    return Counting()


@pytest.fixture
def memory(tmp_path: Path, counting: Counting) -> MemoryNode:
    return MemoryNode(tmp_path, interceptor=counting)


@pytest.fixture
def entry(memory: MemoryNode) -> CatalogEntry:
    entry = memory.add(ROOT)
    for number in range(PUSHES):
        push(memory, entry, number)
    return entry


def push(memory: MemoryNode, entry: CatalogEntry, number: int) -> None:
    row = b'{"event_time":"2026-01-01T00:00:00Z","city":"C%d"}\n' % number
    job = memory.node.requests.push(PushData(dataset=entry.id, body=iter([row])))
    assert isinstance(job, Job)
    memory.finish(job)


def slices(memory: MemoryNode, entry: CatalogEntry) -> list[Multihash]:
    events = [link.block.event for link in memory.node.datasets.log(entry, limit=100)]
    return [event.new_data.physical_hash for event in events if isinstance(event, AddData) and event.new_data]


def served(memory: MemoryNode, entry: CatalogEntry, name: Multihash) -> bytes:
    with memory.node.serving.object(entry, DATA, name).open() as stream:
        return stream.read()


def test_each_block_is_read_once_however_many_objects_are_asked_for(
    memory: MemoryNode, entry: CatalogEntry, counting: Counting
) -> None:
    names = slices(memory, entry)
    counting.calls.clear()
    for name in names:
        assert served(memory, entry, name)
    assert counting.calls["object.block.read"] == PUSHES
    push(memory, entry, PUSHES)
    (newest,) = set(slices(memory, entry)) - set(names)
    counting.calls.clear()
    assert served(memory, entry, newest)
    assert counting.calls["object.block.read"] == 1


def test_what_is_not_stored_is_refused_without_a_look_at_the_chain(
    memory: MemoryNode, entry: CatalogEntry, counting: Counting
) -> None:
    counting.calls.clear()
    with pytest.raises(NotFound):
        memory.node.serving.object(entry, DATA, hash_of("no slice"))
    assert not any(call.startswith(("chain.", "object.block")) for call in counting.calls), counting.calls


def test_what_lies_there_and_is_not_in_the_chain_is_refused(
    memory: MemoryNode, entry: CatalogEntry, counting: Counting
) -> None:
    stray = hash_of("stray")
    memory.objects.put_bytes(data_key(entry.id, stray), b"stray")
    for reads in (PUSHES, 0):
        counting.calls.clear()
        with pytest.raises(NotFound):
            memory.node.serving.object(entry, DATA, stray)
        assert counting.calls["object.block.read"] == reads


def test_a_dataset_that_is_removed_is_not_served_from_memory(memory: MemoryNode, entry: CatalogEntry) -> None:
    name = slices(memory, entry)[0]
    assert served(memory, entry, name)
    memory.node.datasets.delete(entry)
    with pytest.raises(NotFound):
        memory.node.serving.object(entry, DATA, name)


def test_names_that_are_too_many_are_not_kept(memory: MemoryNode, entry: CatalogEntry, counting: Counting) -> None:
    names = slices(memory, entry)
    referred = ReferredObjects(memory.node.repository, names_max=PUSHES - 1)
    for _ in range(2):
        counting.calls.clear()
        assert referred.has(entry, DATA, names[0])
        assert counting.calls["object.block.read"] == PUSHES
