"""Late rows, and rows in time, where several places read an input.

Joins within a span of times, subqueries, temporal joins in steps.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from odfabric.model.metadata import TemporalTable
from odfabric_engine_spark.spark.calls.call import EngineCall
from tests.services.engine.transforming import CF, HOUR, A, Derivative, Input, R, input_schema
from tests.support.turns import todays

pytestmark = pytest.mark.spark

SCHEMA = input_schema(pa.field("k", pa.string()), pa.field("v", pa.int32()))
MINUTE = HOUR // 60
Feed = tuple[str, Sequence[tuple[Any, ...]], int | None]
"""An alias, the rows of a block with their operations, and the watermark that comes with it."""

WITHIN = "d.event_time {} a.event_time and {} a.event_time + interval 30 minutes"
COMPARED, BETWEEN = WITHIN.format(">=", "d.event_time <="), WITHIN.format("between", "")
LIMIT = "/*+ lateness('10 minutes') */"


def at(minutes: int) -> dt.datetime:
    return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(minutes=minutes)


def fed(
    sql: Sequence[tuple[str | None, str]] | str,
    feeds: Sequence[Feed],
    call: EngineCall,
    folder: Path,
    *,
    temporal: Sequence[TemporalTable] = (),
) -> tuple[list[tuple[Any, ...]], int, Derivative]:
    """The rows that are there in the end, how many came too late, and what read them."""
    inputs = {alias: Input(folder, alias, SCHEMA, n + 1) for n, alias in enumerate(sorted({f[0] for f in feeds}))}
    derived = Derivative(sql, list(inputs.values()), call, temporal_tables=temporal)
    for number, (alias, rows, watermark) in enumerate(feeds):
        inputs[alias].add(rows, watermark=watermark, at=number)
        derived.pull()
    found: Counter[tuple[Any, ...]] = Counter()
    for op, *row in (record for transaction in derived.transactions for record in transaction.records):
        found[tuple(row)] += -1 if op in (R, CF) else 1
    assert min(found.values(), default=1) >= 0
    return sorted(found.elements(), key=str), sum(t.result.late_rows_dropped for t in derived.transactions), derived


VALUES = {
    "count": (f"select count(*) from d where d.k = a.k and {COMPARED}", 1),
    "max": (f"select max(v) from d where d.k = a.k and {COMPARED}", 7),
    "no key": (f"select max(v) from d where {COMPARED}", 7),
    "between": (f"select max(v) from d where d.k = a.k and {BETWEEN}", 7),
    "first": (f"select v from d where d.k = a.k and {COMPARED} order by d.v limit 1", 7),
}
"""Subqueries with a span of times, and what they say of the row in time."""


@pytest.mark.parametrize("name", todays([*VALUES], parts=2))
def test_a_row_in_time_for_its_window_finds_what_its_subquery_reads(
    name: str, engine_call: EngineCall, tmp_path: Path
) -> None:
    """The span of the subquery is over when the row comes, and its window is not."""
    value, expected = VALUES[name]
    if name == "first":
        inner = f"select a.event_time, l.v c from a left join lateral ({value}) l on true"
    else:
        inner = f"select a.event_time, ({value}) c from a"
    sql = (
        f"select {LIMIT} window.start event_time, c, count(*) n from ({inner}) group by window(event_time, '1 hour'), c"
    )
    feeds: list[Feed] = [
        ("a", [], 50 * MINUTE),
        ("d", [(A, 10 * MINUTE, "x", 7)], None),
        ("d", [], 50 * MINUTE),
        ("a", [(A, 5 * MINUTE, "x", 1)], None),
        ("a", [], 2 * HOUR),
        ("d", [], 2 * HOUR),
    ]
    rows, dropped, _ = fed(sql, feeds, engine_call, tmp_path)
    assert (rows, dropped) == ([(at(0), expected, 1)], 0)


def test_a_row_too_late_for_its_subquery_is_dropped_as_a_whole(engine_call: EngineCall, tmp_path: Path) -> None:
    inner = "select max(v) from d where d.k = a.k and d.event_time > a.event_time - interval 30 minutes and d.event_time <= a.event_time"
    feeds: list[Feed] = [
        ("a", [(A, 10 * MINUTE, "x", 1)], None),
        ("d", [(A, 5 * MINUTE, "x", 7)], None),
        ("a", [], 5 * HOUR),
        ("d", [], 5 * HOUR),
        ("a", [(A, 20 * MINUTE, "x", 2), (R, 10 * MINUTE, "x", 1)], None),
    ]
    sql = f"select {LIMIT} a.event_time, a.k, a.v, ({inner}) m from a"
    rows, dropped, _ = fed(sql, feeds, engine_call, tmp_path)
    assert (rows, dropped) == ([(at(10), "x", 1, 7)], 2)


COUNTED = {
    "value": "select a.event_time, a.k, (select count(*) from d where d.v > a.v) c from a",
    "lateral": "select a.event_time, a.k, t.c from a, lateral (select count(*) c from d where d.v > a.v) t",
}


@pytest.mark.parametrize("name", COUNTED)
def test_a_late_withdrawal_changes_nothing_of_what_a_subquery_said(
    name: str, engine_call: EngineCall, tmp_path: Path
) -> None:
    """A late withdrawal changes nothing that a subquery said.

    What the subquery is computed for is read without a time, and is dropped with the row all the same.
    """
    sql = (
        f"select /*+ lateness('0 seconds') */ window.start event_time, k, count(*) n, sum(c) c from ({COUNTED[name]})"
        " group by window(event_time, '1 hour'), k"
    )
    feeds: list[Feed] = [
        ("d", [(A, 5 * MINUTE, "y", 9)], 2 * HOUR),
        ("a", [(A, 12 * MINUTE, "x", 1), (A, 13 * MINUTE, "x", 2)], 2 * HOUR),
        ("a", [(R, 12 * MINUTE, "x", 1)], None),
    ]
    rows, dropped, _ = fed(sql, feeds, engine_call, tmp_path)
    assert (rows, dropped) == ([(at(0), "x", 2, 2)], 1)


JOINED = (
    "a join d on a.k = d.k and {within}",
    "a join d on a.k = d.k where {within}",
    "a, d where a.k = d.k and {within}",
    "a join d using (k) where {within}",
    "a join d on a.k = d.k join d e on e.k = a.k where {within}",
)


@pytest.mark.parametrize(
    ("joined", "within"), todays([(joined, within) for joined in JOINED for within in (COMPARED, BETWEEN)], parts=4)
)
def test_a_late_partner_is_dropped_however_the_span_is_written(
    joined: str, within: str, engine_call: EngineCall, tmp_path: Path
) -> None:
    """The second of the rows of d is late by the watermark of d itself."""
    sql = (
        f"select {LIMIT} window.start event_time, sum(dv) s from (select a.event_time, d.v dv from "
        f"{joined.format(within=within)}) group by window(event_time, '1 hour')"
    )
    feeds: list[Feed] = [
        ("a", [(A, 10 * MINUTE, "x", 1)], None),
        ("d", [(A, 15 * MINUTE, "x", 5)], None),
        ("d", [], 5 * HOUR),
        ("a", [], 30 * MINUTE),
        ("d", [(A, 20 * MINUTE, "x", 7)], None),
        ("d", [], 10 * HOUR),
        ("a", [], 10 * HOUR),
    ]
    rows, dropped, _ = fed(sql, feeds, engine_call, tmp_path)
    if " e on " in joined:  # that place keeps the late row, which is the partner of nothing in time
        assert (rows, dropped) == ([(at(0), 10)], 1)
    else:
        assert (rows, dropped) == ([(at(0), 5)], 1)


LOOK_UP = (
    "select a.event_time, a.k, a.v, i.v iv from a left join lateral (select v from {t} where {t}.k = a.k"
    " and {t}.event_time <= a.event_time order by {t}.event_time desc, {t}.v limit 1) i on true"
)
STEPS: dict[str, tuple[Sequence[tuple[str | None, str]] | str, str]] = {
    "itself": (LOOK_UP.format(t="d"), "d"),
    "a step": ([("v1", "select * from d"), (None, LOOK_UP.format(t="v1"))], "v1"),
    "a step with a condition": ([("v1", "select * from d where v > 0"), (None, LOOK_UP.format(t="v1"))], "v1"),
    "a step over a declared one": ([("v1", "select * from d where v > 0"), (None, LOOK_UP.format(t="v1"))], "d"),
    "a subquery": (LOOK_UP.replace("from {t} ", "from (select * from d) {t} ").format(t="v1"), "d"),
    "with": ("with v1 as (select * from d) " + LOOK_UP.format(t="v1"), "d"),
}


@pytest.mark.parametrize("name", todays([*STEPS], parts=2))
def test_a_temporal_table_may_be_rows_that_a_step_selects(name: str, engine_call: EngineCall, tmp_path: Path) -> None:
    sql, table = STEPS[name]
    feeds: list[Feed] = [
        ("a", [(A, 60 * MINUTE, "x", 1)], 10 * MINUTE),
        ("d", [(A, 10 * MINUTE, "x", 5)], 20 * MINUTE),
        ("d", [(A, 50 * MINUTE, "x", 6)], 70 * MINUTE),
        ("a", [], 70 * MINUTE),
    ]
    temporal = [TemporalTable(name=table, primary_key=("k",))]
    rows, _, derived = fed(sql, feeds, engine_call, tmp_path, temporal=temporal)
    assert rows == [(at(60), "x", 1, 6)]
    assert [len(each.records) for each in derived.transactions] == [0, 0, 0, 1], "a row waits for its version"


BRANCHES = "select window(event_time, '1 hour') w, v from a union all select window(event_time, '1 hour') w, v from d"
NO_TIME = "select event_time, v from a union all select cast(null as timestamp), v from d"


@pytest.mark.parametrize("function", ["sum(v)", "median(v)", "median(distinct v)"])
@pytest.mark.parametrize(
    "sql",
    [
        f"select w.start event_time, {{}} s from ({BRANCHES}) group by w",
        f"select window.start event_time, {{}} s from ({NO_TIME}) group by window(event_time, '1 hour')",
    ],
)
def test_windows_wait_whatever_is_computed_over_them(
    sql: str, function: str, engine_call: EngineCall, tmp_path: Path
) -> None:
    feeds: list[Feed] = [
        ("a", [(A, 10 * MINUTE, "x", 1)], 20 * MINUTE),
        ("d", [], 20 * MINUTE),
        ("a", [], 2 * HOUR),
        ("d", [], 2 * HOUR),
    ]
    rows, _, derived = fed(sql.format(function), feeds, engine_call, tmp_path)
    assert rows == [(at(0), 1)]
    assert [len(each.records) for each in derived.transactions] == [0, 0, 0, 1]
