"""Large stages: Spark tasks leave the same bytes and failures as in-process.

`ODF_LAW_CASES` says how many random compositions are compared (default 1); from 100 on every named shape is.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from odfabric.errors import InvalidData, LimitExceeded
from odfabric_engine_spark.operators.keyed_recompute.spark_tasks import StageTasks
from tests.services.engine.laws.general_check import derivative_of, inputs_of
from tests.services.engine.laws.grammar.general_cases import BY_TASKS, GeneralCase
from tests.services.engine.laws.grammar.general_operators import composed_case
from tests.services.engine.laws.law_check import Lab, own_lab
from tests.services.engine.laws.shapes.general_shapes import SHAPES, shape_case
from tests.services.engine.transforming import HOUR, A, Derivative, Input, input_schema

pytestmark = [pytest.mark.spark, pytest.mark.timeout(0)]

CASES = int(os.environ.get("ODF_LAW_CASES", "1"))
SEED = int(os.environ.get("ODF_LAW_SEED", "0"))
SOME = ("top 2", "temporal, left", "not in, nulls", "groups of lists, joined", "star")
"""Ranks, versions, a side that meets all keys, nested values and several stages, groups over joins."""
NAMED = list(SHAPES) if CASES >= 100 else SOME
IN_PROCESS = {"stages_by_spark": False}
BOTH: Mapping[str, Mapping[str, int]] = {"here": IN_PROCESS, "there": BY_TASKS}


@pytest.fixture
def extractions(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many scans tasks were given, by transaction of a stage."""
    found: list[int] = []
    plain = StageTasks.extracted

    def counting(self: StageTasks, scans: Any) -> Any:
        found.append(len(scans))
        return plain(self, scans)

    monkeypatch.setattr(StageTasks, "extracted", counting)
    return found


def same_bytes(case: GeneralCase, lab: Lab, sizes: Mapping[str, int]) -> None:
    own = own_lab(lab)
    inputs = inputs_of(case, own)
    here = derivative_of(case, inputs, own, "here", IN_PROCESS)
    there = derivative_of(case, inputs, own, "there", {**BY_TASKS, **sizes})
    for cut in case.cuts:
        one, other = here.pull(cut), there.pull(cut)
        assert other.slice_path.read_bytes() == one.slice_path.read_bytes(), f"{case}: other records"
        assert other.checkpoint_path.read_bytes() == one.checkpoint_path.read_bytes(), f"{case}: another state"
        assert other.result == one.result, f"{case}: another result"


@pytest.mark.parametrize("shape", NAMED)
def test_named_shapes_have_the_same_bytes(shape: str, lab: Lab, extractions: list[int]) -> None:
    chance = Random(f"{shape} {SEED}")
    case = shape_case(shape, SEED + 1)
    same_bytes(case, lab, {"state_piece_rows": chance.choice([1, 3, 1_000]), "collected_bytes_max": 1 << 20})
    assert extractions or shape not in SOME


def test_compositions_have_the_same_bytes(lab: Lab, extractions: list[int]) -> None:
    chance = Random(SEED)
    for number in range(CASES):
        same_bytes(composed_case(SEED + number), lab, {"state_piece_rows": chance.choice([1, 3, 1_000])})
    assert extractions


FLOATS = input_schema(
    pa.field("k", pa.string()), pa.field("v", pa.float64()), pa.field("m", pa.struct([pa.field("f", pa.float32())]))
)
CONDITIONS = ("a.v > 5.0D", "a.v = 0.0D")
"""True of some rows of which the statistics of a file say nothing."""


@pytest.mark.parametrize("condition", CONDITIONS)
def test_files_of_tasks_do_not_decide_about_floats(condition: str, lab: Lab, extractions: list[int]) -> None:
    one, other = (Input(lab.folder, alias, FLOATS, number) for number, alias in enumerate("ab"))
    values = [1.0, float("nan"), -0.0, -0.0]
    for each in (one, other):
        each.add([(A, at, "x", value, {"f": value}) for at, value in enumerate(values)], watermark=HOUR)
    query = f"select a.event_time, a.v, b.v as w from a join b on a.k = b.k where {condition}"
    found = [
        Derivative(query, [one, other], lab.call, name=name, settings=sizes).pull() for name, sizes in BOTH.items()
    ]
    assert found[0].table.num_rows >= 4
    assert found[0].slice_path.read_bytes() == found[1].slice_path.read_bytes()
    assert extractions == [2]


SCHEMA = input_schema(pa.field("k", pa.string()), pa.field("v", pa.int32()))
NEIGHBOURS = "select event_time, k, v, lag(v) over (partition by k order by event_time, v) as earlier from input"


@pytest.fixture
def history(lab: Lab) -> Derivative:
    """A derivative after its first transaction of 40 rows of 2 keys."""
    one = Input(lab.folder, "input", SCHEMA)
    one.add([(A, number, "ab"[number % 2], number) for number in range(40)], watermark=HOUR)
    derived = Derivative(NEIGHBOURS, [one], lab.call)
    derived.pull()
    one.add([(A, HOUR + number, "ab"[number % 2], number) for number in range(4)], watermark=2 * HOUR)
    return derived


def test_a_key_with_too_many_rows_is_refused_by_its_size(history: Derivative, extractions: list[int]) -> None:
    history.call = with_settings(history, state_piece_rows=1, bound_bytes_max=100)
    with pytest.raises(LimitExceeded, match="22 rows have to be looked at together") as refused:
        history.pull()
    assert (refused.value.limit, refused.value.maximum) == ("bound_bytes_max", 100)
    assert extractions


def test_a_damaged_state_is_told_as_in_the_process(history: Derivative, extractions: list[int]) -> None:
    checkpoint = history.transactions[-1].checkpoint_path
    whole = checkpoint.read_bytes()
    # An offset of a text, in the last batch of the rows: the header is left as it is.
    at = whole.rindex(b"".join(number.to_bytes(4, "little") for number in range(19, 24)))
    checkpoint.write_bytes(whole[:at] + (1 << 30).to_bytes(4, "little") + whole[at + 4 :])
    told = []
    for sizes in BOTH.values():
        history.call = with_settings(history, **sizes)
        with pytest.raises(InvalidData) as refused:
            history.pull()
        history.taken = [1]
        told.append((refused.value.message, refused.value.place, refused.value.hint))
    assert told[0] == told[1]
    assert extractions


def with_settings(derived: Derivative, **sizes: Any) -> Any:
    return replace(derived.call, settings=replace(derived.call.settings, **{**BY_TASKS, **sizes}))


def test_both_ways_tell_a_failing_expression_alike(lab: Lab) -> None:
    one = Input(lab.folder, "input", SCHEMA)
    one.add([(A, number, "a", number) for number in range(5)], watermark=HOUR)
    told = []
    for sizes in BOTH.values():
        query = "select event_time, k, 6 / (v - 3) as q, lag(v) over (partition by k order by v, event_time) as w from input"
        with pytest.raises(InvalidData, match=r"(?i)division by zero") as refused:
            Derivative(query, [one], lab.call, settings=sizes).pull()
        told.append(refused.value.message)
    assert told[0] == told[1]


def test_tasks_of_one_stage_are_bounded(history: Derivative, extractions: list[int]) -> None:
    """With more keys than tasks, each works piecewise and gives the same rows."""
    history.call = with_settings(history, state_piece_rows=1, stage_tasks_max=1)
    found = history.pull()
    assert [row["earlier"] for row in found.table.to_pylist() if row["v"] > 1] == [0, 1]
    assert extractions == [1]
