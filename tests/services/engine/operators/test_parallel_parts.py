"""Parallel parts of a stage's keys give sequential bytes, smaller for big results."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest

from odfabric.errors import LimitExceeded
from odfabric_engine_spark.operators.touched_keys.before_and_after import BoundPlan
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.state import run_file
from tests.services.engine.transforming import (
    HOUR,
    A,
    Derivative,
    Input,
    R,
    Transaction,
    input_schema,
    results_of_at_most,
)

pytestmark = pytest.mark.spark

SCHEMA = input_schema(pa.field("k", pa.int32()), pa.field("v", pa.string()))
JOIN = "select a.event_time, a.k, a.v, b.v as w from a join b on a.k = b.k"
TOP = "select event_time, k, v from (select *, row_number() over (partition by k order by v) n from a) where n <= 2"
KEYS = 60
TEXT = "some text of a hundred characters " * 3
_GROUP = "spark.jobGroup.id"


@pytest.fixture
def inputs(engine_call: EngineCall) -> list[Input]:
    """600 rows of 60 keys, then corrections of some; a row for each key."""
    root = engine_call.exchange.root
    a, b = Input(root, "a", SCHEMA, number=1), Input(root, "b", SCHEMA, number=2)
    rows = [(number % KEYS, f"{number:03} {TEXT}") for number in range(10 * KEYS)]
    a.add([(A, number, *row) for number, row in enumerate(rows)])
    a.add([(R, number, *row) for number, row in enumerate(rows) if number % 7 == 0])
    b.add([(A, HOUR, key, str(key)) for key in range(KEYS)])
    b.add([(A, HOUR, key, "another") for key in range(0, KEYS, 3)])
    return [a, b]


@dataclass
class Jobs:
    """The jobs of stages: how many there were, by which threads, and as whose."""

    count: int = 0
    threads: set[str] = field(default_factory=set)
    groups: set[str] = field(default_factory=set)

    def clear(self) -> None:
        self.count, self.threads, self.groups = 0, set(), set()


@pytest.fixture
def jobs(engine_call: EngineCall, monkeypatch: pytest.MonkeyPatch) -> Jobs:
    found = Jobs()
    plain = BoundPlan.changes

    def counting(self: BoundPlan, *rest: Any, **more: Any) -> Any:
        found.count += 1
        found.threads.add(threading.current_thread().name)
        found.groups.add(str(engine_call.session.sparkContext.getLocalProperty(_GROUP)))
        return plain(self, *rest, **more)

    monkeypatch.setattr(BoundPlan, "changes", counting)
    return found


def pulled(query: str, inputs: list[Input], call: EngineCall, name: str, settings: dict[str, int]) -> list[Transaction]:
    used = inputs if " b " in query else inputs[:1]
    derived = Derivative(query, used, call, name=name, settings=settings)
    return [derived.pull([upto] * len(used)) for upto in (1, 2)]


def bytes_of(transactions: list[Transaction]) -> list[bytes]:
    return [path.read_bytes() for each in transactions for path in (each.slice_path, each.checkpoint_path)]


@pytest.mark.parametrize("query", [JOIN, TOP])
def test_parts_at_once_leave_the_same_bytes(
    query: str, inputs: list[Input], engine_call: EngineCall, jobs: Jobs
) -> None:
    whole = pulled(query, inputs, engine_call, "whole", {})
    assert len(jobs.threads) == 1
    jobs.clear()
    cores = {"cores": 3, "stage_rows_each": 20}
    counts = []
    for name, settings in {"at-once": cores, "small": {**cores, "stage_rows_max": 50}}.items():
        jobs.clear()
        parts = pulled(query, inputs, engine_call, name, settings)
        assert bytes_of(parts) == bytes_of(whole)
        assert len(jobs.threads) >= 3
        counts.append(jobs.count)
    assert counts[0] < counts[1]


def test_jobs_of_other_threads_belong_to_the_call(inputs: list[Input], engine_call: EngineCall, jobs: Jobs) -> None:
    """So they end with it, and the next call finds no tasks of it."""
    context = engine_call.session.sparkContext
    context.setJobGroup("a call", "engine call", interruptOnCancel=True)
    try:
        pulled(JOIN, inputs, engine_call, "out", {"cores": 3, "stage_rows_each": 20})
    finally:
        context.setLocalProperty(_GROUP, None)  # type: ignore[arg-type]
    assert jobs.groups == {"a call"}
    assert len(jobs.threads) >= 3


@pytest.mark.parametrize("query", [JOIN, TOP.replace("row_number()", "ntile(3)")])
def test_old_rows_that_keys_bring_along_are_work_too(
    query: str, inputs: list[Input], engine_call: EngineCall, jobs: Jobs
) -> None:
    """Old rows of keys count as work.

    Few new rows of keys with many: their old rows are what all cores have to do with.
    """
    for key in range(0, KEYS, 2):
        inputs[0].add([(A, HOUR + key, key, f"new {TEXT}")])
    upto = len(inputs[0].steps)
    used = inputs if query == JOIN else inputs[:1]
    cores = {"cores": 3, "stage_rows_each": 80}
    ways = {"whole": {}, "at-once": cores, "small": {**cores, "stage_rows_max": 70}}
    found, counts = [], []
    for name, settings in ways.items():
        derived = Derivative(query, used, engine_call, name=name, settings=settings)
        done = [derived.pull([2] * len(used))]
        jobs.clear()
        done.append(derived.pull([upto, 2][: len(used)]))
        assert len(jobs.threads) == (3 if settings else 1)
        counts.append(jobs.count)
        found.append(bytes_of(done))
    assert counts[0] == 1 < counts[1] < counts[2]
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("settings", [{}, {"cores": 2, "stage_rows_each": 20}])
def test_a_result_that_is_too_large_comes_in_smaller_parts(
    settings: dict[str, int], inputs: list[Input], engine_call: EngineCall, jobs: Jobs
) -> None:
    whole = pulled(JOIN, inputs, engine_call, "whole", {})
    with results_of_at_most(engine_call, "24k"):
        jobs.clear()
        parts = pulled(JOIN, inputs, engine_call, "parts", settings)
    assert bytes_of(parts) == bytes_of(whole)
    assert jobs.count > 6


def test_a_result_of_one_key_that_is_too_large_is_refused(inputs: list[Input], engine_call: EngineCall) -> None:
    settings = {"cores": 2, "stage_rows_each": 20}
    with results_of_at_most(engine_call, "1k"), pytest.raises(LimitExceeded):
        pulled(JOIN, inputs, engine_call, "parts", settings)


def test_what_cannot_be_stored_is_told(
    inputs: list[Input], engine_call: EngineCall, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_file, "PIECE_BYTES", 0)
    engine_call.scratch.rmdir()
    with pytest.raises(FileNotFoundError):
        pulled(JOIN, inputs, engine_call, "out", {})
