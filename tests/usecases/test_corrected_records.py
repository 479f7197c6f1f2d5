"""Links from corrections and withdrawals to the records that they are about."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from odfabric.testing.changelogs import C_FROM, C_TO, A, Change, R
from odfabric.usecases.provenance.corrected_records import CorrectionPorts, corrections_of
from odfabric.usecases.reading.read_tail import ReadTail
from tests.usecases.committed import Committed


def tail(committed: Committed, *, limit: int = 100) -> dict[str, Any]:
    asked = ReadTail(skip=0, limit=limit, data_format="JsonAoS", schema_format=None, corrects=True)
    return committed.memory.node.rows.tail(committed.entry, asked)


@pytest.fixture
def committed(tmp_path: Path) -> Committed:
    found = Committed(tmp_path)
    found.commit([(A, "a", 1.0), (A, "a", 1.0), (A, "b", 2.0)])
    found.commit([(C_FROM, "a", 1.0), (C_TO, "a", 3.0), (R, "a", 1.0)])
    found.commit([(R, "b", 2.0), (R, "c", 9.0)])
    return found


def test_each_withdrawal_has_its_record(committed: Committed) -> None:
    # The latest equal row that is still there; nothing is said of a row that never was.
    assert tail(committed)["corrects"] == {"3": 1, "4": 3, "5": 0, "6": 2, "7": None}
    assert tail(committed, limit=2)["corrects"] == {"6": 2, "7": None}


def test_links_of_a_block(committed: Committed) -> None:
    node = committed.memory.node
    block = committed.heads[2].hash
    data = node.repository.blocks(committed.entry.id).get(block).event.new_data
    links = node.provenance.corrections(committed.entry, block, data, limit=2)
    assert [(link.offset, link.op, link.about) for link in links] == [(3, C_FROM, 1), (4, C_TO, 3)]


def test_what_may_be_read_bounds_the_search(committed: Committed) -> None:
    node = committed.memory.node
    _, state = node.repository.current(committed.entry.id)
    ports = CorrectionPorts(repository=node.repository, exchange=node.core.ports.exchange, rows_max=1)
    block = committed.heads[3].hash
    data = node.repository.blocks(committed.entry.id).get(block).event.new_data
    links = corrections_of(committed.entry, data, block, state.vocabulary, limit=9, ports=ports)
    assert [link.about for link in links] == [None, None]


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32))
def test_links_pair_rows_as_a_stack_does(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    chance = random.Random(seed)
    committed = Committed(tmp_path_factory.mktemp("links"))
    stacks: dict[tuple[str, float], list[int]] = {}
    expected: dict[str, int | None] = {}
    offset = 0
    for _ in range(3):
        block: list[Change] = []
        for _ in range(chance.randrange(1, 6)):
            row = (chance.choice("ab"), chance.choice([0.0, 1.0]))
            stack = stacks.setdefault(row, [])
            if stack and chance.random() < 0.5:
                expected[str(offset)] = stack.pop()
                block.append((R, *row))
            else:
                stack.append(offset)
                block.append((A, *row))
            offset += 1
        committed.commit(block)
    assert tail(committed)["corrects"] == expected
