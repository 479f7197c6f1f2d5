"""Verify one block: each differing object is named; the last result is kept.

The last verification is reported as it was.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from odfabric.errors import NotFound
from odfabric.formats.identifiers.dataset_layout import block_key, data_key
from odfabric.model.commit import CatalogEntry
from odfabric.model.jobs.job import Job
from odfabric.model.metadata import AddData
from odfabric.model.multihash import Multihash
from odfabric.testing.chains import physical_hash
from odfabric.testing.memory_node import MemoryNode
from odfabric.usecases.ingestion.push_data import PushData
from odfabric.usecases.verification.verification_run import VerifyOptions
from odfabric.usecases.verification.verify_block import BlockCheck, Checked
from odfabric.wiring.composed.verifying import VerifyVerbs
from tests.usecases.manifests import ROOT


@pytest.fixture
def memory(tmp_path: Path) -> MemoryNode:
    return MemoryNode(tmp_path)


@pytest.fixture
def entry(memory: MemoryNode) -> CatalogEntry:
    made = memory.add(ROOT)
    for city in ("Bonn", "Ulm"):
        push(memory, made, city)
    return made


def push(memory: MemoryNode, entry: CatalogEntry, city: str) -> None:
    line = f'{{"event_time":"2026-01-01T00:00:00Z","city":"{city}"}}\n'
    job = memory.node.requests.push(PushData(dataset=entry.id, body=iter([line.encode()])))
    assert isinstance(job, Job)
    memory.finish(job)


def data_blocks(memory: MemoryNode, entry: CatalogEntry) -> list[tuple[Multihash, Multihash]]:
    """Hashes of blocks with data and of their slices, newest first."""
    return [
        (link.hash, link.block.event.new_data.physical_hash)
        for link in memory.node.datasets.log(entry, limit=100)
        if isinstance(link.block.event, AddData) and link.block.event.new_data is not None
    ]


def checks(memory: MemoryNode, entry: CatalogEntry, block: Multihash) -> dict[Checked, BlockCheck]:
    memory.restart()  # nothing is remembered
    found = VerifyVerbs(memory.node).block(entry, block, by=memory.node.operator)
    return {check.what: check for check in found}


def replace_object(memory: MemoryNode, key: str, data: bytes) -> None:
    memory.objects.delete(key)
    memory.objects.put_bytes(key, data)


def test_every_block_of_a_good_chain_fits(memory: MemoryNode, entry: CatalogEntry) -> None:
    links = list(memory.node.datasets.log(entry, limit=100))
    for link in links:
        found = checks(memory, entry, link.hash)
        assert {what: check.problems for what, check in found.items()} == dict.fromkeys(found, ())
        assert (Checked.PREVIOUS in found) == (link.block.prev_block_hash is not None)
        assert (Checked.FOLLOWING in found) == (link is not links[0])
        assert (Checked.DATA in found) == isinstance(link.block.event, AddData)


def test_a_slice_that_was_changed_or_lost_is_named(memory: MemoryNode, entry: CatalogEntry) -> None:
    (newest, newest_slice), (oldest, oldest_slice) = data_blocks(memory, entry)
    other = memory.objects.read_bytes(data_key(entry.id, oldest_slice), size_max=1 << 20)
    replace_object(memory, data_key(entry.id, newest_slice), other)
    found = checks(memory, entry, newest)[Checked.DATA]
    assert found.object == newest_slice
    assert found.problems
    assert checks(memory, entry, oldest)[Checked.DATA].problems == ()
    memory.objects.delete(data_key(entry.id, newest_slice))
    assert checks(memory, entry, newest)[Checked.DATA].problems == ("the data slice is missing",)
    assert checks(memory, entry, newest)[Checked.BLOCK].problems == ()


def test_a_block_that_was_changed_is_named_from_all_sides(memory: MemoryNode, entry: CatalogEntry) -> None:
    links = list(memory.node.datasets.log(entry, limit=100))
    after, damaged, before = links[0].hash, links[1].hash, links[2].hash
    replace_object(memory, block_key(entry.id, damaged), b"something else")
    assert "does not hash to its name" in checks(memory, entry, damaged)[Checked.BLOCK].problems[0]
    assert checks(memory, entry, after)[Checked.PREVIOUS].object == damaged
    assert checks(memory, entry, after)[Checked.PREVIOUS].problems
    assert checks(memory, entry, before)[Checked.FOLLOWING].problems
    memory.objects.delete(block_key(entry.id, damaged))
    assert checks(memory, entry, damaged)[Checked.BLOCK].problems == ("the block is missing",)


def test_a_block_of_elsewhere_is_not_verified(memory: MemoryNode, entry: CatalogEntry) -> None:
    with pytest.raises(NotFound):
        checks(memory, entry, physical_hash("elsewhere"))


def test_the_last_verification_says_up_to_where_it_went(memory: MemoryNode, entry: CatalogEntry) -> None:
    verbs, operator = VerifyVerbs(memory.node), memory.node.operator
    assert verbs.last(entry, by=operator) is None
    verify(memory, entry, VerifyOptions(replay=False))
    in_part = verbs.last(entry, by=operator)
    assert in_part is not None
    assert (in_part.is_whole, in_part.behind, in_part.problems) == (False, 0, 0)
    verify(memory, entry)
    push(memory, entry, "Aachen")
    whole = verbs.last(entry, by=operator)
    assert whole is not None
    assert (whole.is_whole, whole.behind, whole.block) == (True, 1, in_part.block)
    _, slice_hash = data_blocks(memory, entry)[0]
    memory.objects.delete(data_key(entry.id, slice_hash))
    verify(memory, entry)
    broken = verbs.last(entry, by=operator)
    assert broken is not None
    assert (broken.problems, broken.behind) == (1, 0)


def verify(memory: MemoryNode, entry: CatalogEntry, options: VerifyOptions | None = None) -> None:
    memory.finish(memory.node.requests.verify(entry, options or VerifyOptions()))
