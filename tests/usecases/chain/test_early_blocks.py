"""Blocks that are stored before their commit: nobody sees them, none is lost."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from odfabric.domain.chain.append import link_blocks, next_system_time
from odfabric.errors import Determinate, LimitExceeded
from odfabric.formats.identifiers.dataset_layout import block_key
from odfabric.model.commit import CatalogEntry, EncodedBlock
from odfabric.model.metadata import SetInfo
from odfabric.testing.memory_node import MemoryNode
from odfabric.usecases.chain.commit import STORED_ONE_BY_ONE_MAX, PlannedCommit
from tests.support.at_call import Counting
from tests.usecases.manifests import ROOT

BYTES_MAX = 1 << 20


@pytest.fixture
def counting() -> Counting:
    return Counting()


@pytest.fixture
def memory(tmp_path: Path, counting: Counting) -> MemoryNode:
    return MemoryNode(tmp_path, interceptor=counting)


@pytest.fixture
def entry(memory: MemoryNode) -> CatalogEntry:
    return memory.add(ROOT)


def following(memory: MemoryNode, entry: CatalogEntry, count: int) -> list[EncodedBlock]:
    """Blocks on top of the head, oldest first."""
    _, state = memory.node.repository.current(entry.id)
    moment = next_system_time(state, now=memory.clock.now())
    events = [SetInfo(description=f"number {number}", keywords=()) for number in range(count)]
    return link_blocks(state, events, system_time=moment)


def stored(memory: MemoryNode, entry: CatalogEntry, block: EncodedBlock) -> bytes | None:
    key = block_key(entry.id, block.hash)
    return memory.objects.read_bytes(key, size_max=BYTES_MAX) if memory.objects.stat(key) else None


@pytest.mark.parametrize("count", [2, STORED_ONE_BY_ONE_MAX + 4])
def test_the_commit_does_not_store_an_early_block_again(
    memory: MemoryNode, counting: Counting, entry: CatalogEntry, count: int
) -> None:
    blocks, commits = following(memory, entry, count), memory.node.commits
    for block in blocks[1:]:
        commits.store_block(entry.id, block)
    before = counting.calls["object.block.put"]
    assert commits.commit(entry.id, lambda _: PlannedCommit(tuple(blocks))) is not None
    assert counting.calls["object.block.put"] == before + 1
    assert [stored(memory, entry, block) for block in blocks] == [block.data for block in blocks]
    assert memory.node.datasets.head(entry).hash == blocks[-1].hash


def test_nobody_sees_an_early_block(memory: MemoryNode, entry: CatalogEntry) -> None:
    head, log = memory.node.datasets.head(entry), list(memory.node.datasets.log(entry, limit=100))
    for block in following(memory, entry, 3):
        memory.node.commits.store_block(entry.id, block)
        assert not memory.node.repository.chains.contains(entry.id, block.hash)
    assert memory.node.datasets.head(entry) == head
    assert list(memory.node.datasets.log(entry, limit=100)) == log


def test_an_early_block_that_was_collected_is_missed_before_the_head_moves(
    memory: MemoryNode, entry: CatalogEntry
) -> None:
    (block,), commits = following(memory, entry, 1), memory.node.commits
    head = memory.node.datasets.head(entry)
    commits.store_block(entry.id, block)
    memory.objects.delete(block_key(entry.id, block.hash))
    with pytest.raises(Determinate, match="is gone"):
        commits.commit(entry.id, lambda _: PlannedCommit((block,)))
    assert memory.node.datasets.head(entry) == head
    # The next attempt believes nothing of the first: it stores the block itself.
    assert commits.commit(entry.id, lambda _: PlannedCommit((block,))) is not None
    assert stored(memory, entry, block) == block.data


def test_an_early_block_of_one_dataset_is_not_there_for_another(
    memory: MemoryNode, counting: Counting, entry: CatalogEntry
) -> None:
    other = memory.add(ROOT.replace("name: readings", "name: other"))
    (block,) = following(memory, entry, 1)
    memory.node.commits.store_block(other.id, block)
    before = counting.calls["object.block.put"]
    assert memory.node.commits.commit(entry.id, lambda _: PlannedCommit((block,))) is not None
    assert counting.calls["object.block.put"] == before + 1


def test_an_early_block_that_could_never_be_read_again_is_refused(memory: MemoryNode, entry: CatalogEntry) -> None:
    (block,) = following(memory, entry, 1)
    large = replace(block, data=bytes(memory.settings.block_bytes_max + 1))
    with pytest.raises(LimitExceeded, match="a block of") as refused:
        memory.node.commits.store_block(entry.id, large)
    assert refused.value.limit == "block_bytes_max"
    assert stored(memory, entry, block) is None
