"""Profiles from statistics of read slices: unknown as soon as one gives none."""

from __future__ import annotations

from pathlib import Path

import pytest

from odfabric.formats.identifiers.dataset_layout import data_key
from odfabric.model.commit import CatalogEntry
from odfabric.model.jobs.job import Job
from odfabric.model.metadata import AddData
from odfabric.testing.memory_node import MemoryNode
from odfabric.usecases.ingestion.push_data import PushData
from odfabric.usecases.reading import profile_statistics as module
from odfabric.usecases.reading.profile_statistics import ColumnStatistics, ProfileStatistics
from tests.usecases.manifests import ROOT


@pytest.fixture
def memory(tmp_path: Path) -> MemoryNode:
    return MemoryNode(tmp_path)


@pytest.fixture
def entry(memory: MemoryNode) -> CatalogEntry:
    return memory.add(ROOT)


def push(memory: MemoryNode, entry: CatalogEntry, *cities: str) -> None:
    lines = "".join(f'{{"event_time":"2026-01-01T00:00:00Z","city":"{city}"}}\n' for city in cities)
    job = memory.node.requests.push(PushData(dataset=entry.id, body=iter([lines.encode()])))
    assert isinstance(job, Job)
    memory.finish(job)


def profile(memory: MemoryNode, entry: CatalogEntry) -> ProfileStatistics:
    return memory.node.browsing.profile(entry, ["city", "value"], by=memory.node.operator)


def test_a_dataset_without_data_has_no_statistics(memory: MemoryNode, entry: CatalogEntry) -> None:
    assert profile(memory, entry) == ProfileStatistics(records=0, records_total=0, slices=0, columns={})


def test_bounds_and_nulls_are_over_all_slices(memory: MemoryNode, entry: CatalogEntry) -> None:
    for cities in (("Bonn", "Ulm"), ("Aachen",)):
        push(memory, entry, *cities)
    found = profile(memory, entry)
    assert (found.records, found.records_total, found.slices) == (3, 3, 2)
    assert found.columns["city"] == ColumnStatistics(nulls=0, least="Aachen", greatest="Ulm")
    assert found.columns["value"] == ColumnStatistics(nulls=3, least=None, greatest=None)


def test_only_the_newest_slices_are_read(
    memory: MemoryNode, entry: CatalogEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SLICES_MAX", 2)
    for city in ("Aachen", "Bonn", "Ulm"):
        push(memory, entry, city)
    found = profile(memory, entry)
    assert (found.records, found.records_total, found.slices) == (2, 3, 2)
    assert found.columns["city"] == ColumnStatistics(nulls=0, least="Bonn", greatest="Ulm")


def test_a_slice_that_is_lost_makes_the_profile_unknown_and_no_error(memory: MemoryNode, entry: CatalogEntry) -> None:
    push(memory, entry, "Bonn")
    push(memory, entry, "Ulm")
    event = next(memory.node.datasets.log(entry, limit=1)).block.event
    assert isinstance(event, AddData)
    assert event.new_data is not None
    memory.objects.delete(data_key(entry.id, event.new_data.physical_hash))
    assert profile(memory, entry).columns["city"] == ColumnStatistics(nulls=None, least=None, greatest=None)


def test_slices_are_read_once(memory: MemoryNode, entry: CatalogEntry) -> None:
    push(memory, entry, "Bonn")
    first = profile(memory, entry)
    for key in list(memory.objects.keys("")):
        if "/data/" in key:
            memory.objects.delete(key)
    assert profile(memory, entry) == first
