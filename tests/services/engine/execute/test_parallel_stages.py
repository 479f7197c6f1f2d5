"""Stages that wait for nothing of each other are computed at once.

Those with many rows are alone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pytest

from odfabric_engine_spark.execute.parallel_stages import FEW_ROWS, StageWork, computed_stages
from odfabric_engine_spark.rows.delta import Delta
from odfabric_engine_spark.spark.calls.call import EngineCall

pytestmark = pytest.mark.spark

DEADLINE_S = 30
DIAMOND = [frozenset[int](), frozenset[int](), frozenset({0, 1}), frozenset({2})]
"""Two stages that need nothing, one that needs both, one that needs that."""


def delta(number: int) -> Delta:
    """A change that says of which stage it is."""
    return Delta.of([pa.array([number])], np.ones(1, dtype=np.int64))


def number_of(found: Delta | None) -> int:
    assert found is not None
    return int(found.rows.column(0)[0].as_py())


@dataclass
class Stages:
    """Stages that note when they begin and end; `rows` and what they `do` by number."""

    needs: Sequence[frozenset[int]]
    rows: dict[int, int] = field(default_factory=dict)
    do: dict[int, Callable[[], object]] = field(default_factory=dict)
    running: set[int] = field(default_factory=set)
    beside: dict[int, set[int]] = field(default_factory=dict)
    ended: list[int] = field(default_factory=list)
    taken: list[int] = field(default_factory=list)
    most: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, call: EngineCall, cores: int = 2) -> list[int]:
        """The numbers in the changes of all stages."""
        call = replace(call, settings=replace(call.settings, cores=cores))
        found = computed_stages(call, self.needs, self.begin, lambda found: self.taken.append(number_of(found)))
        return [number_of(each) for each in found]

    def begin(self, number: int, done: Sequence[Delta | None]) -> StageWork:
        assert {number_of(done[each]) for each in self.needs[number]} == self.needs[number]
        return StageWork(self.rows.get(number, 1), lambda: self.compute(number))

    def compute(self, number: int) -> Delta:
        with self.lock:
            self.running.add(number)
            self.most = max(self.most, len(self.running))
            for each in self.running:
                self.beside.setdefault(each, set()).update(self.running)
        try:
            self.do.get(number, int)()
        finally:
            with self.lock:
                self.running.discard(number)
                self.ended.append(number)
        return delta(number)


def meeting(count: int) -> Callable[[], object]:
    """Waits for so many others."""
    barrier = threading.Barrier(count)
    return lambda: barrier.wait(DEADLINE_S)


def failing(message: str) -> Callable[[], object]:
    def fail() -> object:
        raise ValueError(message)

    return fail


def test_stages_that_need_nothing_of_each_other_are_computed_at_once(engine_call: EngineCall) -> None:
    meet = meeting(2)
    stages = Stages(DIAMOND, do={0: meet, 1: meet})
    assert stages.run(engine_call) == [0, 1, 2, 3]
    assert sorted(stages.taken) == [0, 1, 2, 3]
    assert stages.beside[2] == {2}


def test_no_more_than_there_are_cores_for(engine_call: EngineCall) -> None:
    stages = Stages([frozenset()] * 12)
    assert stages.run(engine_call, cores=3) == list(range(12))
    assert stages.most <= 3


def test_with_one_core_stages_follow_each_other(engine_call: EngineCall) -> None:
    stages = Stages(DIAMOND)
    assert stages.run(engine_call, cores=1) == [0, 1, 2, 3]
    assert stages.ended == [0, 1, 2, 3]
    assert stages.most == 1


def test_a_stage_with_many_rows_is_alone(engine_call: EngineCall) -> None:
    stages = Stages([frozenset()] * 5, rows={1: FEW_ROWS + 1, 4: FEW_ROWS + 1})
    assert stages.run(engine_call) == list(range(5))
    assert stages.beside[1] == {1}
    assert stages.beside[4] == {4}


def test_of_several_failures_that_of_the_first_stage_is_told(engine_call: EngineCall) -> None:
    meet = meeting(2)

    def late() -> object:
        meet()
        return failing("first")()

    def early() -> object:
        meet()
        return failing("second")()

    stages = Stages(DIAMOND, do={0: late, 1: early})
    with pytest.raises(ValueError, match="first"):
        stages.run(engine_call)
    assert not stages.running
    assert sorted(stages.ended) == [0, 1]


def test_nothing_runs_after_a_failure(engine_call: EngineCall) -> None:
    failed = threading.Event()

    def fail() -> object:
        failed.set()
        return failing("told")()

    stages = Stages([frozenset()] * 6, do={0: fail, 1: lambda: failed.wait(DEADLINE_S)})
    with pytest.raises(ValueError, match="told"):
        stages.run(engine_call)
    assert not stages.running
    assert set(stages.ended) == {0, 1}
