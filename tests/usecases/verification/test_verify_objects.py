"""Objects are compared with their blocks by several threads, and found wrong in the order of the chain."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from odfabric.formats.identifiers.dataset_layout import DATA
from odfabric.formats.slices.arrow_schema import arrow_to_data_schema
from odfabric.model.commit import CatalogEntry
from odfabric.model.jobs.job import JobStatus
from odfabric.model.metadata import AddData, SetDataSchema
from odfabric.testing.memory_node import MemoryNode
from odfabric.usecases.verification.verification_run import VerifyOptions
from tests.support.real_chains import COLUMNS, RealChain, plant

SLICES = 12


def chain_of_slices(folder: Path) -> RealChain:
    chain = RealChain(folder)
    chain.add(SetDataSchema(schema=arrow_to_data_schema(COLUMNS)))
    for number in range(SLICES):
        chain.add(AddData(prev_offset=chain.state.last_offset, new_data=chain.next_slice(*[0] * (number % 3 + 1))))
    return chain


def verified(memory: MemoryNode, entry: CatalogEntry, at_once: int) -> list[dict[str, Any]]:
    memory.settings = memory.settings.model_copy(update={"replays_at_once": at_once})
    memory.restart()
    job = memory.finish(memory.node.requests.verify(entry, VerifyOptions()))
    assert job.status is JobStatus.SUCCEEDED, job.error
    errors: list[dict[str, Any]] = json.loads(job.result or "")["errors"]
    return errors


@pytest.mark.parametrize("at_once", [1, 2, 5])
def test_all_damaged_slices_are_named_in_the_order_of_the_chain(at_once: int, tmp_path: Path) -> None:
    chain = chain_of_slices(tmp_path)
    damaged = {path: data[:-1] if path.startswith(DATA) else data for path, data in chain.files.items()}
    memory = MemoryNode(tmp_path / "node")
    entry = plant(memory, chain.blocks, damaged)
    blocks = [str(one.hash) for one in chain.blocks if isinstance(one.block.event, AddData)]
    assert [each["block"] for each in verified(memory, entry, at_once)] == blocks


@pytest.mark.parametrize("at_once", [1, 5])
def test_a_lost_slice_is_named_among_good_ones(at_once: int, tmp_path: Path) -> None:
    chain = chain_of_slices(tmp_path)
    events = [one.block.event for one in chain.blocks if isinstance(one.block.event, AddData)]
    lost = events[SLICES // 2].new_data
    assert lost is not None
    files = {path: data for path, data in chain.files.items() if not path.endswith(str(lost.physical_hash))}
    assert len(files) == len(chain.files) - 1
    memory = MemoryNode(tmp_path / "node")
    entry = plant(memory, chain.blocks, files)
    assert [each["object"] for each in verified(memory, entry, at_once)] == [str(lost.physical_hash)]
