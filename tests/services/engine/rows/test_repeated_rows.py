"""Rows repeated a thousand times: emitted once with a weight, used by weight."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

from tests.services.engine.laws.law_check import Lab, own_lab
from tests.services.engine.transforming import CF, CT, A, Derivative, Input, R, input_schema

pytestmark = [pytest.mark.spark, pytest.mark.timeout(0)]

TIMES = 1_100
"""More than 2^10: a float has 53 bits, and what is counted 64."""
HUGE = (1 << 52) + 1
SUMS = "count(*) n, sum(f) f, avg(f) mean, sum(v) v, min(v) low, max(v) high"


def net(derived: Derivative) -> list[Any]:
    """What the records of all transactions come to."""
    found: list[Any] = []
    for transaction in derived.transactions:
        for op, _, *row in transaction.records:
            if op in (A, CT):
                found.append(tuple(row))
            else:
                found.remove(tuple(row))
    return sorted(found)


@pytest.mark.parametrize("sizes", [{}, {"stage_rows_max": 0, "stages_by_spark": True}], ids=["here", "tasks"])
def test_sums_over_a_join_that_a_correction_reaches(lab: Lab, sizes: dict[str, int]) -> None:
    own = own_lab(lab)
    rows = Input(own.folder, "a", input_schema(pa.field("k", pa.string())))
    values = Input(
        own.folder,
        "b",
        input_schema(pa.field("k", pa.string()), pa.field("f", pa.float64()), pa.field("v", pa.int64())),
    )
    values.number = 2
    query = f"select max(a.event_time) event_time, a.k, {SUMS} from a join b on a.k = b.k group by a.k"
    derived = Derivative(query, [rows, values], own.call, settings=sizes)
    rows.add([(A, 0, "x")] * TIMES + [(A, 0, "y")])
    values.add([(A, 0, "x", 0.1, HUGE), (A, 0, "y", 0.25, 1)])
    derived.pull()
    assert net(derived) == [expected("x", TIMES, 0.1, HUGE), expected("y", 1, 0.25, 1)]
    values.add([(CF, 0, "x", 0.1, HUGE), (CT, 0, "x", 0.7, -HUGE)])
    derived.pull()
    assert net(derived) == [expected("x", TIMES, 0.7, -HUGE), expected("y", 1, 0.25, 1)]
    rows.add([(R, 0, "x")] * (TIMES - 1))
    derived.pull()
    assert net(derived) == [expected("x", 1, 0.7, -HUGE), expected("y", 1, 0.25, 1)]


def expected(key: str, times: int, value: float, number: int) -> tuple[Any, ...]:
    """The sums over rows that are all equal; each is rounded once."""
    numerator, denominator = value.as_integer_ratio()
    return (key, times, numerator * times / denominator, value, number * times, number, number)


def test_times_without_a_zone_where_tasks_sum_up(lab: Lab) -> None:
    own = own_lab(lab)
    one = Input(own.folder, "a", input_schema(pa.field("k", pa.string()), pa.field("t", pa.timestamp("us"))))
    query = "select max(event_time) event_time, k, cast(min(cast(t as timestamp_ntz)) as timestamp) low, cast(max(cast(t as timestamp_ntz)) as timestamp) high from a group by k"
    tasks = {"transform_rows_in_memory_max": 0, "aggregate_by_spark": True, "state_piece_rows": 4}
    here, there = (
        Derivative(query, [one], own.call, name=name, settings=each) for name, each in (("h", {}), ("t", tasks))
    )
    moments = [dt.datetime(2026, 1, 1, hour, tzinfo=dt.UTC) for hour in range(3)]
    for block in ([(A, 0, "x", each) for each in moments] * 9, [(R, 0, "x", moments[0])] * 9 + [(A, 0, "y", None)]):
        one.add(block)
        assert there.pull().records == here.pull().records
    assert net(there) == [("x", *moments[1:]), ("y", None, None)]


def test_a_failing_row_that_is_taken_back_where_tasks_sum_up(lab: Lab) -> None:
    own = own_lab(lab)
    one = Input(own.folder, "a", input_schema(pa.field("k", pa.string()), pa.field("v", pa.int32())))
    one.add([(A, 0, "x", 1), (A, 0, "x", 0), (R, 0, "x", 0)])
    query = "select max(event_time) event_time, k, sum(1 / v) s from a group by k"
    tasks = {"transform_rows_in_memory_max": 0, "aggregate_by_spark": True}
    derived = Derivative(query, [one], own.call, settings=tasks)
    derived.pull()
    assert net(derived) == [("x", 1.0)]
