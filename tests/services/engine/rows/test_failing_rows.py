"""A query that fails on a row says which row it is, whatever the query does to it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import pyarrow as pa
import pytest

from odfabric.errors import InvalidData, LimitExceeded
from odfabric_engine_spark.rows.failing_rows import Described, FailedRows, computed_over
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.frames.local_rows import local_rows
from tests.services.engine.transforming import HOUR, A, Derivative, Input, R, input_schema

pytestmark = pytest.mark.spark

A_SCHEMA = input_schema(pa.field("k", pa.int32()), pa.field("s", pa.string()), pa.field("v", pa.int32()))
B_SCHEMA = input_schema(pa.field("k", pa.int32()), pa.field("w", pa.int32()))
WRONG = 41
"""The offset of the row of `a` that fails; `k` is 4, `v` is 0, `s` is no number."""


def inputs(call: EngineCall) -> list[Input]:
    """Rows of which one is wrong; the only row of `b` for its key has a zero too."""
    rows = [(A, at * HOUR, at % 10 + 5, str(at), at + 1) for at in range(100)]
    rows[WRONG] = (A, WRONG * HOUR, 4, "4l", 0)
    one = Input(call.exchange.root, "a", A_SCHEMA).add(rows[:30]).add(rows[30:])
    return [one, Input(call.exchange.root, "b", B_SCHEMA, 2).add([(A, 0, at, at - 4) for at in range(60)])]


CASES = [
    (
        "select event_time, 1 / v x from a",
        "Division by zero, in row (offset = 41, op = 0, event_time = 1970-01-02T17:00:00Z, v = 0) of a",
    ),
    (
        "select event_time, cast(s as int) x from a union all select event_time, 1 / (k - 4) from a",
        "in row (offset = 41, op = 0, event_time = 1970-01-02T17:00:00Z, ",
    ),
    (
        "select max(event_time) event_time, k, sum(10 div v) s from a group by k",
        "in row (offset = 41, event_time = 1970-01-02T17:00:00Z, k = 4, v = 0) of a",
    ),
    (
        "select max(event_time) event_time, 1 / sum(v) s from a group by k",
        "in row (k = 4, max(event_time) = 1970-01-02T17:00:00Z, sum(v) = 0) of the groups",
    ),
    (
        "select max(event_time) event_time, k from a group by k having 1 / sum(v) > 0",
        "sum(v) = 0) of the groups",
    ),
    (
        "select event_time, k, sum(10 div v) over (partition by k) s from a",
        "in row (event_time = 1970-01-02T17:00:00Z, k = 4, v = 0) of a",
    ),
    (
        "select b.event_time, a.v / b.w s from a join b using (k)",
        "in row (k = 4, v = 0) of a and row (event_time = 1970-01-01T00:00:00Z, k = 4, w = 0) of b",
    ),
    ("select a.event_time, k, b.w from a left join b using (k) where cast(a.s as int) > 1", "s = '4l'"),
    (
        "select max(event_time) event_time, sum(n) n from (select event_time, 1 / sum(v) over (partition by k) n from a) group by event_time",
        "k = 4, v = 0) of a",
    ),
    (
        "select max(event_time) event_time, sum(1 / n) n from (select max(event_time) event_time, k, sum(v) n from a group by k) group by k % 2",
        "n = 0)",
    ),
    (
        "select event_time, 1 / (count(*) over (partition by k) - 9) x from a",
        "in 9 rows of a, the first of them (event_time = 1970-01-01T01:00:00Z, k = 6)",
    ),
    (
        "select event_time, 1 / (count(*) over (partition by k) - 1) x from a",
        "in row (event_time = 1970-01-02T17:00:00Z, k = 4) of a",
    ),
    (
        "select a.event_time, 10 div coalesce(b.k, 0) x from b right join a on b.k = a.k + 46",
        ", k = 14) of a",
    ),
    (
        "select event_time, k, 1 / v x from (select distinct event_time, k, v from a)",
        "in row (event_time = 1970-01-02T17:00:00Z, k = 4, v = 0) of the groups",
    ),
    (
        "select event_time, 1 / n x from (select max(event_time) event_time, k, sum(v) n from a group by k "
        "union all select event_time, k, w + 9 from b)",
        "in row (event_time = 1970-01-02T17:00:00Z, n = 0)",
    ),
    (
        "select max(event_time) event_time, k, 1 / sum(v) x from a group by rollup(k)",
        "in row (k = 4, spark_grouping_id = 0, max(event_time) = 1970-01-02T17:00:00Z, sum(v) = 0) of the groups",
    ),
    ("select max(event_time) event_time, 1 / (count(*) - 100) x from a", "count(*) = 100) of the groups"),
    ("select event_time, 1 / (sum(v) over () - 5008) x from a", "100 rows of a, the first of them (event_time = "),
]


@pytest.mark.parametrize(("sql", "told"), CASES)
def test_the_row_is_named(engine_call: EngineCall, sql: str, told: str) -> None:
    used = [each for each in inputs(engine_call) if f" {each.alias}" in sql]
    with pytest.raises(InvalidData) as caught:
        Derivative(sql, used, engine_call).pull()
    assert told in caught.value.message
    assert caught.value.place is not None
    assert caught.value.place.line == 1


BY_TASKS = {"stages_by_spark": True, "stage_rows_max": 1, "aggregate_by_spark": True, "transform_rows_in_memory_max": 1}


@pytest.mark.parametrize(("sql", "told"), [CASES[2], CASES[3], CASES[5], CASES[6]])
def test_the_row_is_named_where_tasks_do_the_work(engine_call: EngineCall, sql: str, told: str) -> None:
    used = [each for each in inputs(engine_call) if f" {each.alias}" in sql]
    derived = Derivative(sql, used, engine_call, settings=BY_TASKS)
    with pytest.raises(InvalidData) as caught:
        derived.pull()
    assert told in caught.value.message
    used[0].add([(R, WRONG * HOUR, 4, "4l", 0), (A, WRONG * HOUR, 4, "4", 5)])
    if len(used) == 1:
        assert derived.pull().records, "the next transaction goes on"


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("select max(event_time) event_time, upper(k) u, sum(v) s from a group by upper(k)", r"sum\(v\) overflows bigint in the group \(upper\(k\) = 'X'\)"),
        ("select max(event_time) event_time, sum(v) s from a group by window(event_time, '1 day'), k", r"\(window = \{start: 1970-01-01T00:00:00Z, end: 1970.*k = 'x'\)"),
        ("select max(event_time) event_time, sum(v) s from a", r"sum\(v\) overflows bigint \("),
    ],
)  # fmt: skip
def test_a_group_whose_sum_overflows_is_named(engine_call: EngineCall, sql: str, told: str) -> None:
    schema = input_schema(pa.field("k", pa.string()), pa.field("v", pa.int64()))
    rows = [(A, 0, "x", 2**62), (A, 0, "y", 1), (A, 0, "x", 2**62)]
    one = Input(engine_call.exchange.root, "a", schema).add(rows, watermark=100 * HOUR)
    for settings in ({}, BY_TASKS):
        with pytest.raises(InvalidData, match=told):
            Derivative(sql, [one], engine_call, settings=settings).pull()


def test_dates_that_python_does_not_have_are_told_too(engine_call: EngineCall) -> None:
    schema = input_schema(pa.field("day", pa.date32()), pa.field("v", pa.int32()))
    for sql in (
        "select event_time, day, 1 / v x from a",
        "select event_time, 1 / sum(v) over (partition by day) x from a",
    ):
        one = Input(engine_call.exchange.root, "a", schema).add([(A, 0, -800_000, 0), (A, 0, 0, 1)])
        with pytest.raises(InvalidData, match="day = about the year"):
            Derivative(sql, [one], engine_call).pull()


def test_structs_and_lists_are_told_as_sql_has_them(engine_call: EngineCall) -> None:
    row = pa.table({"w": [{"start": dt.datetime(2026, 1, 1, tzinfo=dt.UTC), "all": ["x", None]}], "v": [0]})

    def failing(scans: Sequence[pa.Table]) -> pa.Table:
        return local_rows(engine_call.session, scans[0]).selectExpr("1 / v AS x").toArrow()

    with pytest.raises(FailedRows) as caught:
        computed_over(failing, [row], lambda: [Described("a", ("w", "v"))])
    assert "row (w = {start: 2026-01-01T00:00:00Z, all: ['x', null]}, v = 0)" in str(caught.value.told(lambda: None))


def test_what_only_fails_as_a_whole_is_not_computed_for_ever(engine_call: EngineCall) -> None:
    computed: list[int] = []

    def total(scans: Sequence[pa.Table]) -> pa.Table:
        computed.append(len(scans[0]))
        frame = local_rows(engine_call.session, scans[0])
        return frame.selectExpr("count(*) AS n").selectExpr("1 / (n - 20000) AS x").toArrow()

    with pytest.raises(FailedRows) as caught:
        computed_over(total, [pa.table({"v": range(20_000)})], lambda: [Described("a", ("v",))])
    assert "in 20000 rows of a, the first of them (v = 0)" in str(caught.value.told(lambda: None))
    assert sum(computed) <= 9 * 20_000


def test_a_search_that_fails_hides_nothing(engine_call: EngineCall) -> None:
    def failing(scans: Sequence[pa.Table]) -> pa.Table:
        if len(scans[0]) < 3:
            raise RuntimeError("a bug")
        return local_rows(engine_call.session, scans[0]).selectExpr("1 / (v - 2) AS x").toArrow()

    with pytest.raises(FailedRows) as caught:
        computed_over(failing, [pa.table({"v": [1, 2, 3]})], lambda: [Described("a", ("v",))])
    assert "Division by zero" in str(caught.value.told(lambda: None))


def test_a_row_of_many_is_found_in_few_jobs_and_only_when_it_is_told(engine_call: EngineCall) -> None:
    rows = pa.table({"v": range(5000)})
    computed: list[int] = []

    def divided(scans: Sequence[pa.Table]) -> pa.Table:
        computed.append(len(scans[0]))
        frame = local_rows(engine_call.session, scans[0])
        return frame.selectExpr("1 / (v - 3210) AS x").toArrow()

    with pytest.raises(FailedRows) as caught:
        computed_over(divided, [rows], lambda: [Described("a", ("v",))])
    assert computed == [5000]
    assert "in row (v = 3210) of a" in str(caught.value.told(lambda: None))
    assert len(computed) <= 2 * 13 + 1
    assert sum(computed) < 4 * 5000


def test_a_call_that_ends_tells_what_is_known(engine_call: EngineCall) -> None:
    def failing(scans: Sequence[pa.Table]) -> pa.Table:
        return local_rows(engine_call.session, scans[0]).selectExpr("1 / (v - 2) AS x").toArrow()

    def ended() -> None:
        raise LimitExceeded("the call takes too long", limit="call_seconds", maximum=1)

    with pytest.raises(FailedRows) as caught:
        computed_over(failing, [pa.table({"v": [1, 2, 3]})], lambda: [Described("", ("v",))])
    assert "Division by zero, in 3 rows, the first of them (v = 1)" in str(caught.value.told(ended))


def test_values_are_cut(engine_call: EngineCall) -> None:
    def failing(scans: Sequence[pa.Table]) -> pa.Table:
        return local_rows(engine_call.session, scans[0]).selectExpr("CAST(s0 AS INT) AS x").toArrow()

    row = pa.table({f"s{at}": ["x" * 1000] for at in range(30)})
    with pytest.raises(FailedRows) as caught:
        computed_over(failing, [row], lambda: [Described("a", tuple(row.column_names))])
    told = str(caught.value.told(lambda: None))
    assert "..) of a" in told
    assert len(told) < 800
