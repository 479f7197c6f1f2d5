"""Large aggregates: Spark tasks leave the same bytes and failures as in-process.

`ODF_LAW_CASES` says how many random queries are compared (default 4).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from odfabric.errors import Determinate, InvalidData
from odfabric_engine_spark.operators.aggregate.spark_tasks import GroupTasks
from tests.services.engine.laws.grammar.transform_cases import make_case
from tests.services.engine.laws.law_check import Lab, exact, inputs_of, own_lab
from tests.services.engine.transforming import CF, CT, HOUR, A, Derivative, Input, R, input_schema

pytestmark = [pytest.mark.spark, pytest.mark.timeout(0)]

CASES = int(os.environ.get("ODF_LAW_CASES", "4"))
SEED = int(os.environ.get("ODF_LAW_SEED", "0"))
THERE: Mapping[str, int] = {"transform_rows_in_memory_max": 0, "aggregate_by_spark": True}
IN_FILES: Mapping[str, int] = {**THERE, "collected_bytes_max": 1}
SCHEMA = input_schema(pa.field("k", pa.string()), pa.field("v", pa.int32()))

Row = tuple[Any, ...]


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows tasks were given at most, by run."""
    found: list[int] = []
    plain = GroupTasks.applied

    def counting(self: GroupTasks, rows: Any, marks: Any, *, rows_max: int) -> Any:
        found.append(rows_max)
        return plain(self, rows, marks, rows_max=rows_max)

    monkeypatch.setattr(GroupTasks, "applied", counting)
    return found


def same_bytes(here: Derivative, there: Derivative, upto: Sequence[Sequence[int] | None]) -> None:
    for cut in upto:
        one, other = (each.pull(cut) for each in (here, there))
        assert list(map(exact, other.records)) == list(map(exact, one.records)), "other records"
        assert other.slice_path.read_bytes() == one.slice_path.read_bytes(), "other records"
        assert other.checkpoint_path.read_bytes() == one.checkpoint_path.read_bytes(), "another state"
        assert other.result == one.result, "another result"


def test_random_queries_have_the_same_bytes(lab: Lab, runs: list[int]) -> None:
    for number in range(SEED, SEED + CASES):
        chance = Random(number)
        case, own = make_case(number, ("keyed", "timed")), own_lab(lab)
        inputs = inputs_of(case, own.folder)
        sizes = {**THERE, "groups_max": chance.choice([1, 3, 1_000]), "state_piece_rows": chance.choice([1, 1_000])}
        here = Derivative(case.query.steps, inputs, own.call, name="here")
        there = Derivative(case.query.steps, inputs, own.call, name="there", settings=sizes)
        same_bytes(here, there, [[min(cut, len(one.steps)) for one in inputs] for cut in case.cuts])
    assert runs


def changelog(chance: Random, *, keys: int, rows: int) -> list[list[Row]]:
    """Three blocks in which rows come, go and change; values are few."""
    present: list[Row] = []
    blocks: list[list[Row]] = []
    for _ in range(3):
        block: list[Row] = []
        for _ in range(rows):
            row = (chance.choice([0, HOUR]), f"k{chance.randrange(keys)}", chance.randrange(3))
            if present and chance.random() < 0.3:
                old = present.pop(chance.randrange(len(present)))
                block.append((R, *old))
            elif present and chance.random() < 0.3:
                old = present.pop(chance.randrange(len(present)))
                block += [(CF, *old), (CT, *row)]
                present.append(row)
            else:
                block.append((A, *row))
                present.append(row)
        blocks.append(block)
    return blocks


WAYS = {"memory": THERE, "files": IN_FILES, "pieces": {**THERE, "groups_max": 1}}
QUERIES = {
    "shared rows": "select max(event_time) event_time, count(*) n from a group by k",
    "having": "select max(event_time) event_time, min(v) low, max(v) high from a group by k having count(*) > 1",
    "structs": "select max(event_time) event_time, named_struct('n', count(*), 'k', k) s, avg(v * 0.1d) f from a group by k",
}


@pytest.mark.parametrize(
    ("query", "way"), [("shared rows", "memory"), ("shared rows", "files"), ("having", "pieces"), ("structs", "memory")]
)
def test_changes_are_told_alike(query: str, way: str, lab: Lab, runs: list[int]) -> None:
    own = own_lab(lab)
    one = Input(own.folder, "a", SCHEMA)
    here, there = (
        Derivative(QUERIES[query], [one], own.call, name=name, settings=sizes)
        for name, sizes in (("here", {}), ("there", WAYS[way]))
    )
    for block in changelog(Random(f"{query}{SEED}"), keys=20, rows=40):
        one.add(block)
        same_bytes(here, there, [None])
    assert len(runs) == 3


def test_rows_without_a_partner_are_struck_first(lab: Lab) -> None:
    """`y` and `z` get the row that `x` loses: `y` keeps its pair."""
    own = own_lab(lab)
    one = Input(own.folder, "a", SCHEMA).add([(A, 0, "x", 1), (A, 0, "y", 1), (A, 0, "y", 2)])
    derived = Derivative(QUERIES["shared rows"], [one], own.call, settings=THERE)
    derived.pull()
    one.add([(R, 0, "x", 1), (R, 0, "y", 2), (A, 0, "z", 1)])
    assert [(op, n) for op, _, n in derived.pull().records] == [(CF, 2), (CT, 1)]


def test_groups_close_in_parts_that_no_row_comes_for(lab: Lab, runs: list[int]) -> None:
    own = own_lab(lab)
    one = Input(own.folder, "a", SCHEMA)
    query = "select window.start as event_time, k, sum(v) s from a group by window(event_time, '1 hour'), k"
    here, there = (
        Derivative(query, [one], own.call, name=name, settings=each) for name, each in (("h", {}), ("t", THERE))
    )
    one.add([(A, number, f"k{number}", number) for number in range(30)], watermark=0)
    same_bytes(here, there, [None])
    one.add([(A, 5 * HOUR, "late", 1)], watermark=2 * HOUR)
    same_bytes(here, there, [None])
    assert len(there.transactions[-1].records) == 30
    assert len(runs) == 2


def overflowing(own: Lab, sizes: Mapping[str, int]) -> None:
    one = Input(own.folder, "a", input_schema(pa.field("k", pa.string()), pa.field("v", pa.int64())))
    one.add([(A, 0, "x", 2**62), (A, 0, "x", 2**62), (A, 0, "y", 1)])
    query = "select max(event_time) event_time, k, sum(v) s from a group by k"
    Derivative(query, [one], own.call, settings=sizes).pull()


def dividing_by_zero(own: Lab, sizes: Mapping[str, int]) -> None:
    one = Input(own.folder, "a", SCHEMA).add([(A, 0, "x", 0), (A, 0, "y", 1)])
    query = "select max(event_time) event_time, k, 1 / sum(v) s from a group by k"
    Derivative(query, [one], own.call, settings=sizes).pull()


def damaged(own: Lab, sizes: Mapping[str, int]) -> None:
    one = Input(own.folder, "a", SCHEMA)
    one.add([(A, 0, f"key{number}", number) for number in range(9)])
    query = "select max(event_time) event_time, k, sum(v) s from a group by k"
    derived = Derivative(query, [one], own.call, settings=sizes)
    checkpoint = derived.pull().checkpoint_path
    whole = checkpoint.read_bytes()
    # Offsets of the bytes of keys: the header is left as it is.
    at = next(at for at in range(whole.index(b"ARROW1"), len(whole), 4) if _ascending(whole[at : at + 32]))
    checkpoint.write_bytes(whole[: at + 16] + (1 << 30).to_bytes(4, "little") + whole[at + 20 :])
    one.add([(A, 0, f"key{number}", number) for number in range(9)])
    derived.pull()


def _ascending(data: bytes) -> bool:
    numbers = [int.from_bytes(data[at : at + 4], "little") for at in range(0, 32, 4)]
    return numbers[0] == 0 and all(0 < after - before < 64 for before, after in pairwise(numbers))


@pytest.mark.parametrize("failing", [overflowing, dividing_by_zero, damaged])
def test_both_ways_fail_alike(failing: Callable[[Lab, Mapping[str, int]], None], lab: Lab, runs: list[int]) -> None:
    told = []
    for sizes in ({}, THERE):
        with pytest.raises(InvalidData) as refused:
            failing(own_lab(lab), sizes)
        told.append((refused.value.message, refused.value.place, refused.value.hint))
    assert told[0] == told[1]
    assert runs


def test_a_machine_that_fails_is_told_without_its_paths(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = GroupTasks.__init__

    def without_folder(tasks: GroupTasks, *given: Any) -> None:
        plain(tasks, *given)
        tasks.work_folder.rmdir()

    monkeypatch.setattr(GroupTasks, "__init__", without_folder)
    own = own_lab(lab)
    one = Input(own.folder, "a", SCHEMA).add([(A, 0, "x", 0)])
    query = "select max(event_time) event_time, k, sum(v) s from a group by k"
    with pytest.raises(Determinate, match=r"^a task's machine failed: No such file or directory$"):
        Derivative(query, [one], own.call, settings=THERE).pull()


def test_parts_are_bounded(lab: Lab, runs: list[int]) -> None:
    """With more groups than parts, a task works piecewise and gives the same rows."""
    one = Input(lab.folder, "a", SCHEMA).add([(A, 0, f"k{number}", number) for number in range(30)])
    query = "select max(event_time) event_time, k, sum(v) s from a group by k"
    found = Derivative(query, [one], lab.call, settings={**THERE, "groups_max": 2, "stage_tasks_max": 1}).pull()
    assert sorted((row["k"], row["s"]) for row in found.table.to_pylist()) == sorted(
        (f"k{number}", number) for number in range(30)
    )
    assert runs
