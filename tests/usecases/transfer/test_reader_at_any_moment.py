"""A reader after each write of a push sees the dataset before or after it.

A push that failed goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from odfabric.adapters.memory.datasets.object_store import MemoryObjectStore
from odfabric.adapters.unreliable.faults import Fault, FaultPlan, SeenCall
from odfabric.adapters.unreliable.interception import Interceptor
from odfabric.domain.chain.references import named_objects
from odfabric.errors import NotFound
from odfabric.formats.blocks.block import block_hash, decode_block
from odfabric.formats.identifiers.dataset_layout import parse_ref
from odfabric.ports.datasets.object_store import ObjectStore
from tests.usecases.transfer.sharing import BYTES_MAX, PLACE, Parties

T = TypeVar("T")


class Looking(Interceptor):
    """Looks after each write."""

    def __init__(self, look: Callable[[str], None]) -> None:
        self._look = look
        self.writes: list[str] = []

    def around(self, call: str, act: Callable[[], T], *, effect: bool) -> T:
        result = act()
        if effect:
            self.writes.append(call)
            self._look(call)
        return result


def whole_chain(store: ObjectStore) -> str | None:
    """The head that a stranger sees, everything below it being there.

    None for no dataset.
    """
    text = store.read_ref("refs/head")
    if text is None:
        return None
    name = parse_ref(text)
    while True:
        data = store.read_bytes(f"blocks/{name}", size_max=BYTES_MAX)
        assert block_hash(data) == name
        block = decode_block(data)
        for area, each in named_objects(block.event):
            assert store.stat(f"{area}/{each}") is not None, f"{area} object {each} is not there"
        if block.prev_block_hash is None:
            return text
        name = block.prev_block_hash


@pytest.fixture
def parties(tmp_path: Path) -> Parties:
    found = Parties(tmp_path)
    found.ingest(1)
    found.ingest(2)
    return found


@pytest.mark.parametrize("exists", [False, True])
def test_a_reader_sees_all_or_what_was_before(parties: Parties, exists: bool) -> None:
    if exists:
        parties.push()
        parties.ingest(3)
        parties.ingest(4)
    before, seen = whole_chain(parties.shelf), []
    looking = Looking(lambda call: seen.append(whole_chain(parties.shelf)))
    parties.ours.remote_stores.share(PLACE, looking.objects(parties.shelf))
    assert parties.push()["upToDate"] is False
    after = str(parties.ours.node.datasets.head(parties.entry).hash)
    assert seen == [before] * (len(seen) - 1) + [after]
    kinds = [call.split(".")[1] for call in looking.writes]
    order = ["data", "block", "info", "ref"]
    assert sorted(kinds, key=order.index) == kinds
    assert kinds[-1] == "ref"


def _writes(parties: Parties) -> int:
    plan = FaultPlan()
    parties.ours.remote_stores.share(PLACE, plan.objects(MemoryObjectStore(parties.ours.clock)))
    parties.push()
    return len(plan.calls)


def test_after_any_fault_the_reader_sees_a_whole_dataset_and_the_next_push_goes_on(parties: Parties) -> None:
    calls = _writes(parties)
    assert calls > 10
    for number in range(calls):
        for fault in Fault:
            store = MemoryObjectStore(parties.ours.clock)
            struck: list[SeenCall] = []

            def decide(
                at: int,
                call: SeenCall,
                number: int = number,
                fault: Fault = fault,
                struck: list[SeenCall] = struck,
            ) -> Fault | None:
                if at == number and fault in call.faults:
                    struck.append(call)
                    return fault
                return None

            plan = FaultPlan(decide)
            parties.ours.remote_stores.share(PLACE, plan.objects(store))
            pushed: Any = parties.push()
            assert "code" not in pushed, pushed  # the job repeats what failed outside
            assert whole_chain(store) == str(parties.ours.node.datasets.head(parties.entry).hash)
            put = [call.name for call in plan.calls if call.name == "object.data.put"]
            assert len(put) <= 2 + len(struck)


def test_a_reader_that_comes_too_early_finds_nothing(parties: Parties) -> None:
    with pytest.raises(NotFound):
        parties.theirs.remotes.open(PLACE).head()
