"""Parts of a stage's keys that are computed at once: the same bytes as one after the other, and smaller ones where a result is too large."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest

from odfabric.errors import LimitExceeded
from odfabric_engine_spark.call import EngineCall
from odfabric_engine_spark.stages.binding import BoundPlan
from odfabric_engine_spark.state import run_file
from tests.services.engine.transforming import HOUR, A, Derivative, Input, R, Transaction, input_schema

pytestmark = pytest.mark.spark

SCHEMA = input_schema(pa.field("k", pa.int32()), pa.field("v", pa.string()))
JOIN = "select a.event_time, a.k, a.v, b.v as w from a join b on a.k = b.k"
TOP = "select event_time, k, v from (select *, row_number() over (partition by k order by v) n from a) where n <= 2"
KEYS = 60
TEXT = "some text of a hundred characters " * 3
_MAX_RESULT = "spark.driver.maxResultSize"


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


@pytest.fixture
def branches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Of how many parts each job was made."""
    found: list[int] = []
    plain = BoundPlan.changes

    def counting(self: BoundPlan, sources: Any, *rest: Any, **more: Any) -> Any:
        found.append(len(sources))
        return plain(self, sources, *rest, **more)

    monkeypatch.setattr(BoundPlan, "changes", counting)
    return found


def pulled(query: str, inputs: list[Input], call: EngineCall, name: str, settings: dict[str, int]) -> list[Transaction]:
    used = inputs if " b " in query else inputs[:1]
    derived = Derivative(query, used, call, name=name, settings=settings)
    return [derived.pull([upto] * len(used)) for upto in (1, 2)]


def bytes_of(transactions: list[Transaction]) -> list[bytes]:
    return [path.read_bytes() for each in transactions for path in (each.slice_path, each.checkpoint_path)]


@contextmanager
def results_of_at_most(call: EngineCall, size: str) -> Iterator[None]:
    """Spark collects no more than so many bytes, as it does for results beyond `collected_bytes_max`."""
    conf = call.session.sparkContext._jsc.sc().conf()
    before = conf.get(_MAX_RESULT)
    conf.set(_MAX_RESULT, size)
    try:
        yield
    finally:
        conf.set(_MAX_RESULT, before)


@pytest.mark.parametrize("query", [JOIN, TOP])
def test_parts_at_once_leave_the_same_bytes(
    query: str, inputs: list[Input], engine_call: EngineCall, branches: list[int]
) -> None:
    whole = pulled(query, inputs, engine_call, "whole", {})
    assert set(branches) == {1}
    branches.clear()
    cores = {"cores": 3, "stage_rows_each": 20}
    for name, settings in {"at-once": cores, "in-rounds": {**cores, "stage_rows_max": 50}}.items():
        parts = pulled(query, inputs, engine_call, name, settings)
        assert bytes_of(parts) == bytes_of(whole)
        assert max(branches) == 3
    assert len(branches) > 4


@pytest.mark.parametrize("query", [JOIN, TOP])
def test_old_rows_that_keys_bring_along_are_work_too(
    query: str, inputs: list[Input], engine_call: EngineCall, branches: list[int]
) -> None:
    """Few new rows of keys with many: their old rows are what all cores have to do with, round by round."""
    for key in range(0, KEYS, 2):
        inputs[0].add([(A, HOUR + key, key, f"new {TEXT}")])
    upto = len(inputs[0].steps)
    used = inputs if query == JOIN else inputs[:1]
    cores = {"cores": 3, "stage_rows_each": 80}
    ways = {"whole": {}, "at-once": cores, "in-rounds": {**cores, "stage_rows_max": 70}}
    found = []
    for name, settings in ways.items():
        derived = Derivative(query, used, engine_call, name=name, settings=settings)
        done = [derived.pull([2] * len(used))]
        branches.clear()
        done.append(derived.pull([upto, 2][: len(used)]))
        assert max(branches) == (3 if settings else 1)
        assert (len(branches) > 1) == (name == "in-rounds")
        found.append(bytes_of(done))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("settings", [{}, {"cores": 2, "stage_rows_each": 20}])
def test_a_result_that_is_too_large_comes_in_smaller_parts(
    settings: dict[str, int], inputs: list[Input], engine_call: EngineCall, branches: list[int]
) -> None:
    whole = pulled(JOIN, inputs, engine_call, "whole", {})
    with results_of_at_most(engine_call, "24k"):
        branches.clear()
        parts = pulled(JOIN, inputs, engine_call, "parts", settings)
    assert bytes_of(parts) == bytes_of(whole)
    assert len(branches) > 6


def test_a_result_of_one_key_that_is_too_large_is_refused(inputs: list[Input], engine_call: EngineCall) -> None:
    settings = {"cores": 2, "stage_rows_each": 20}
    with results_of_at_most(engine_call, "1k"), pytest.raises(LimitExceeded):
        pulled(JOIN, inputs, engine_call, "parts", settings)


def test_what_cannot_be_stored_is_told(
    inputs: list[Input], engine_call: EngineCall, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_file, "_PIECE_BYTES", 0)
    engine_call.scratch.rmdir()
    with pytest.raises(FileNotFoundError):
        pulled(JOIN, inputs, engine_call, "out", {})
