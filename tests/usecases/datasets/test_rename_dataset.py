"""Renamed datasets: objects say so, derivatives go on, no name is taken twice."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from odfabric.domain.people.dataset_search import Narrowing, Order
from odfabric.errors import AlreadyExists, InvalidName, NotFound
from odfabric.formats.identifiers.dataset_layout import alias_key
from odfabric.formats.identifiers.references import parse_dataset_ref
from odfabric.model.commit import CatalogEntry
from odfabric.model.jobs.job import Job
from odfabric.model.jobs.requests import PullRequest
from odfabric.model.people.audit import AuditKind
from odfabric.testing.memory_node import MemoryNode
from odfabric.usecases.ingestion.push_data import PushData
from odfabric.wiring.composed.renaming import rename
from tests.usecases.manifests import DERIVED, ROOT


@pytest.fixture
def memory(tmp_path: Path) -> MemoryNode:
    return MemoryNode(tmp_path)


@pytest.fixture
def entry(memory: MemoryNode) -> CatalogEntry:
    return memory.add(ROOT)


def test_the_new_name_is_published_and_audited(memory: MemoryNode, entry: CatalogEntry) -> None:
    renamed = rename(memory.node, entry, "measurements")
    assert (renamed.id, str(renamed.alias)) == (entry.id, "local/measurements")
    assert memory.objects.read_ref(alias_key(entry.id)) == "local/measurements"
    assert memory.node.datasets.resolve(parse_dataset_ref("measurements")) == renamed
    with pytest.raises(NotFound):
        memory.node.datasets.resolve(parse_dataset_ref("readings"))
    logged = memory.node.ports.audit.page(limit=100)
    (audited,) = [each.entry for each in logged if each.entry.kind is AuditKind.DATASET_RENAMED]
    assert audited.detail == {"oldName": "local/readings", "newName": "local/measurements"}


def test_derived_datasets_go_on(memory: MemoryNode, entry: CatalogEntry) -> None:
    derived = memory.add(DERIVED)
    rename(memory.node, entry, "measurements")
    line = b'{"event_time":"2026-01-01T00:00:00Z","city":"Ulm"}\n'
    job = memory.node.requests.push(PushData(dataset=entry.id, body=iter([line])))
    assert isinstance(job, Job)
    memory.finish(job)
    pulled = memory.finish(memory.node.requests.pull(PullRequest(dataset=derived.id, alias=derived.alias)))
    assert json.loads(pulled.result or "{}")["rows"] == 1


def test_names_that_are_taken_or_none_are_refused(memory: MemoryNode, entry: CatalogEntry) -> None:
    memory.add(ROOT.replace("name: readings", "name: taken"))
    with pytest.raises(AlreadyExists, match="local/Taken is taken"):
        rename(memory.node, entry, "Taken")
    for name in ("", "no such name!", "other/name"):
        with pytest.raises(InvalidName):
            rename(memory.node, entry, name)
    assert memory.node.datasets.resolve(entry.id) == entry


def test_a_rename_that_was_not_published_is_published_by_the_next(memory: MemoryNode, entry: CatalogEntry) -> None:
    renamed = rename(memory.node, entry, "Readings")
    assert str(renamed.alias) == "local/Readings"
    memory.objects.write_ref(alias_key(entry.id), "local/readings")
    memory.restart()
    assert rename(memory.node, renamed, "Readings") == renamed
    assert memory.objects.read_ref(alias_key(entry.id)) == "local/Readings"


def test_it_is_found_by_its_new_name(memory: MemoryNode, entry: CatalogEntry) -> None:
    memory.node.searching.catch_up()
    renamed = rename(memory.node, entry, "measurements")
    memory.node.searching.catch_up()
    catalog = memory.node.repository.catalog
    assert list(catalog.found(Narrowing(words=("measurements",)), order=Order.BEST, limit=5)) == [renamed]
    assert list(catalog.found(Narrowing(words=("readings",)), order=Order.BEST, limit=5)) == []
