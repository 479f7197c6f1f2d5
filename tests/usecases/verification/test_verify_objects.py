"""Several threads compare objects with blocks; faults come in the chain's order."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from odfabric.adapters.unreliable.interception import Interceptor
from odfabric.formats.identifiers.dataset_layout import DATA
from odfabric.formats.slices.arrow_schema import arrow_to_data_schema
from odfabric.model.commit import CatalogEntry
from odfabric.model.jobs.job import Job, JobStatus
from odfabric.model.jobs.requests import PullRequest
from odfabric.model.metadata import AddData, SetDataSchema
from odfabric.testing.memory_node import MemoryNode
from odfabric.usecases.ingestion.push_data import PushData
from odfabric.usecases.verification.verification_run import VerifyOptions
from tests.support.real_chains import COLUMNS, RealChain, plant
from tests.usecases.manifests import DERIVED, ROOT

SLICES = 12
WAIT_S_MAX = 30.0

T = TypeVar("T")


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


class SlowEngine(Interceptor):
    """An engine that has started only when a slice was checked."""

    def __init__(self) -> None:
        self.armed = False
        self.checked = threading.Event()
        self.met = False

    def around(self, call: str, act: Callable[[], T], *, effect: bool) -> T:
        if self.armed and call == "engine.info":
            self.met = self.checked.wait(WAIT_S_MAX)
        found = act()
        if self.armed and call == "object.data.read":
            self.checked.set()
        return found


def test_objects_are_checked_while_the_engine_starts(tmp_path: Path) -> None:
    engine = SlowEngine()
    memory = MemoryNode(tmp_path, interceptor=engine)
    root, copy = memory.add(ROOT), memory.add(DERIVED)
    body = b'{"event_time": "2026-01-01T00:00:00Z", "city": "Kyiv"}'
    job = memory.node.requests.push(PushData(dataset=root.id, body=iter([body])))
    assert isinstance(job, Job)
    assert memory.finish(job).status is JobStatus.SUCCEEDED
    pull = memory.node.requests.pull(PullRequest(dataset=copy.id, alias=copy.alias))
    assert memory.finish(pull).status is JobStatus.SUCCEEDED
    engine.armed = True
    verification = memory.finish(memory.node.requests.verify(copy, VerifyOptions()))
    assert json.loads(verification.result or "") == {"ok": True, "errors": []}
    assert engine.met
