"""A finite lateness over all that waits for the watermark.

Which rows are dropped, what is read then, what is removed.

The judge is the same query without the hint over inputs from which a few lines of Python have taken the rows that are too late.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from odfabric.model.metadata import TemporalTable
from odfabric_engine_spark.spark.calls.call import EngineCall
from tests.services.engine.laws.law_check import Lab, own_lab
from tests.services.engine.state.checkpoint_states import rows_left
from tests.services.engine.transforming import CF, CT, HOUR, A, Derivative, Input, R, input_schema
from tests.support.turns import todays

pytestmark = pytest.mark.spark

SCHEMA = input_schema(pa.field("k", pa.string()), pa.field("v", pa.int32()))
CASES = int(os.environ.get("ODF_LATENESS_CASES", "1"))
"""Of each shape."""
MORE_CASES = 3
"""Where no row of these was too late."""
Closes = Callable[[int], int]


@dataclass(frozen=True)
class Shape:
    """A query, and for each input with drops the final instant of a row's time (ms)."""

    sql: str
    closes: Mapping[str, Closes]
    others: tuple[str, ...] = ()
    lookups: tuple[TemporalTable, ...] = ()


def _hour_after(hours: int) -> Closes:
    return lambda time: time // HOUR * HOUR + hours * HOUR


SHAPES = {
    "hourly medians": Shape(
        "select window.start as event_time, k, median(v) m, count(*) n from a group by window(event_time, '1 hour'), k",
        {"a": _hour_after(1)},
    ),
    "hourly medians of distinct values": Shape(
        "select window.start as event_time, k, median(distinct v) m from a group by window(event_time, '1 hour'), k",
        {"a": _hour_after(1)},
    ),
    "sliding sums": Shape(
        "select window.start as event_time, k, sum(v) s from a group by window(event_time, '2 hours', '1 hour'), k",
        {"a": _hour_after(2)},
    ),
    "sessions": Shape(
        "select session_window.start as event_time, session_window.end as till, k, count(*) n from a"
        " group by session_window(event_time, '40 minutes'), k",
        {"a": lambda time: time + 2 * HOUR // 3},
    ),
    "names, then hourly sums": Shape(
        "select window.start as event_time, d.v as name, sum(a.v) s, count(*) n from a join d on a.k = d.k"
        " group by window(a.event_time, '1 hour'), d.v",
        {"a": _hour_after(1)},
        others=("d",),
    ),
    "hours within two hours": Shape(
        "select window.start as event_time, max(s) m from (select window.start as event_time, sum(v) s from a"
        " group by window(event_time, '1 hour'), k) group by window(event_time, '2 hours')",
        {"a": lambda time: time // (2 * HOUR) * (2 * HOUR) + 2 * HOUR},
    ),
    "best of hourly sums": Shape(
        "select event_time, k, s from (select *, row_number() over (partition by event_time order by s desc, k) as place from"
        " (select window.start as event_time, k, sum(v) s from a group by window(event_time, '1 hour'), k)) where place = 1",
        {"a": _hour_after(1)},
    ),
    "both inputs by the hour": Shape(
        "select window.start as event_time, k, count(distinct v) n from (select * from a union all select * from d)"
        " group by window(event_time, '1 hour'), k",
        {"a": _hour_after(1), "d": _hour_after(1)},
    ),
    "versions": Shape(
        "select a.event_time, a.k, a.v, i.v as version from a left join lateral (select v from d where d.k = a.k"
        " and d.event_time <= a.event_time order by d.event_time desc limit 1) i on true",
        {"a": lambda time: time, "d": lambda time: time},
        lookups=(TemporalTable(name="d", primary_key=("k",)),),
    ),
    "partners within an hour": Shape(
        "select a.event_time, a.k, a.v, d.v as partner from a left join d on a.k = d.k"
        " and d.event_time between a.event_time and a.event_time + interval '1' hour",
        {"a": lambda time: time + HOUR, "d": lambda time: time},
    ),
    "all partners": Shape(
        "select coalesce(a.event_time, d.event_time) as event_time, coalesce(a.k, d.k) as k, a.v, d.v as partner"
        " from a full join d on a.k = d.k"
        " and d.event_time between a.event_time - interval '30' minutes and a.event_time + interval '1' hour",
        {"a": lambda time: time + HOUR, "d": lambda time: time + HOUR // 2},
    ),
    "pairs within an hour": Shape(
        "select a.event_time, a.k, a.v, d.v as partner from a join d on a.k = d.k"
        " and d.event_time > a.event_time - interval '2' hours and d.event_time < a.event_time - interval '1' hour",
        {"a": lambda time: time - HOUR, "d": lambda time: time + 2 * HOUR},
    ),
    "pairs whatever their key": Shape(
        "select a.event_time, a.k, a.v, d.v as partner from a join d"
        " on d.event_time between a.event_time and a.event_time + interval '30' minutes",
        {"a": lambda time: time + HOUR // 2, "d": lambda time: time},
    ),
    "rows with a partner": Shape(
        "select event_time, k, v from a where exists (select 1 from d where d.k = a.k"
        " and d.event_time between a.event_time and a.event_time + interval '1' hour)",
        {"a": lambda time: time + HOUR, "d": lambda time: time},
    ),
    "sums of pairs": Shape(
        "select max(event_time) as event_time, k, sum(v * partner) s, median(v) m from"
        " (select a.event_time, a.k, a.v, d.v as partner from a join d on a.k = d.k"
        " and d.event_time between a.event_time and a.event_time + interval '1' hour) group by k",
        {"a": lambda time: time + HOUR, "d": lambda time: time},
    ),
    "hours of pairs": Shape(
        "select window.start as event_time, k, median(v + partner) m, count(*) n from"
        " (select a.event_time, a.k, a.v, d.v as partner from a join d on a.k = d.k"
        " and d.event_time between a.event_time and a.event_time + interval '1' hour)"
        " group by window(event_time, '1 hour'), k",
        {"a": lambda time: max(time + HOUR, _hour_after(1)(time)), "d": lambda time: time},
    ),
    "versions of sums": Shape(
        "select a.event_time, a.k, a.s, i.v as version from"
        " (select window.start as event_time, k, sum(v) s from a group by window(event_time, '1 hour'), k) a"
        " join lateral (select v from d where d.k = a.k"
        " and d.event_time < a.event_time and d.v > 0 order by d.event_time desc limit 1) i on true",
        {"a": _hour_after(1), "d": lambda time: time},
        lookups=(TemporalTable(name="d", primary_key=("k",)),),
    ),
    "sums of versions by the hour": Shape(
        "select window.start as event_time, k, median(version) m from"
        " (select a.event_time, a.k, i.v as version from a join lateral (select v from d where d.k = a.k"
        " and d.event_time <= a.event_time order by d.event_time desc limit 1) i on true)"
        " group by window(event_time, '1 hour'), k",
        {"a": _hour_after(1), "d": lambda time: time},
        lookups=(TemporalTable(name="d", primary_key=("k",)),),
    ),
    "most of versions": Shape(
        "select max(event_time) as event_time, k, max(v) v, max(version) m from"
        " (select a.event_time, a.k, a.v, i.v as version from a join lateral (select v from d where d.k = a.k"
        " and d.event_time <= a.event_time order by d.event_time desc limit 1) i on true) group by k",
        {"a": lambda time: time, "d": lambda time: time},
        lookups=(TemporalTable(name="d", primary_key=("k",)),),
    ),
    "sliding medians of distinct values": Shape(
        "select window.start as event_time, k, median(distinct v) m from a group by window(event_time, '90 minutes', '1 hour'), k",
        {"a": lambda time: time // HOUR * HOUR + 3 * HOUR // 2},
    ),
    "sliding medians": Shape(
        "select window.start as event_time, k, median(v) m from a group by window(event_time, '90 minutes', '1 hour'), k",
        {"a": lambda time: time // HOUR * HOUR + 3 * HOUR // 2},
    ),
    "sessions of both": Shape(
        "select session_window.start as event_time, session_window.end as till, count(*) n, sum(v) s from"
        " (select * from a union all select * from d where v > 0) group by session_window(event_time, '40 minutes')",
        {"a": lambda time: time + 2 * HOUR // 3, "d": lambda time: time + 2 * HOUR // 3},
    ),
    "sessions of sums": Shape(
        "select session_window.start as event_time, session_window.end as till, k, count(*) n, sum(s) s from"
        " (select window.start as event_time, k, sum(v) s from a group by window(event_time, '1 hour'), k)"
        " group by session_window(event_time, '10 minutes'), k",
        {"a": _hour_after(1)},
    ),
    "longest sessions": Shape(
        "select max(event_time) as event_time, k, max(n) n from"
        " (select session_window.start as event_time, k, count(*) n from a group by session_window(event_time, '40 minutes'), k)"
        " group by k",
        {"a": lambda time: time + 2 * HOUR // 3},
    ),
}

Row = tuple[int, int, str, int]
Block = tuple[list[Row], int]
"""Rows, and the watermark that comes with them."""


def random_blocks(chance: Random) -> list[Block]:
    """Rows around a watermark that goes on.

    Some come hours late, some are withdrawn, however old.
    """
    blocks: list[Block] = []
    watermark = 0
    present: list[tuple[int, str, int]] = []
    for _ in range(chance.randint(3, 6)):
        rows: list[Row] = []
        for _ in range(chance.randint(0, 6)):
            if present and chance.random() < 0.25:
                rows.append((R, *present.pop(chance.randrange(len(present)))))
            else:
                time = max(watermark + int(chance.uniform(-6, 2) * HOUR), -HOUR)
                present.append((time, chance.choice("xy"), chance.randint(0, 3)))
                rows.append((A, *present[-1]))
        watermark += chance.randint(0, 2 * HOUR)
        blocks.append((rows, watermark))
    return blocks


def in_time(blocks: Sequence[Block], closes: Closes | None) -> list[Block]:
    """Blocks without rows that are final for an hour or more by earlier watermarks."""
    kept: list[Block] = []
    announced: int | None = None
    for rows, watermark in blocks:
        kept.append(
            (
                [row for row in rows if closes is None or announced is None or closes(row[1]) > announced - HOUR],
                watermark,
            )
        )
        announced = watermark
    return kept


def _limited(sql: str) -> str:
    return sql.replace("select", "select /*+ lateness('1 hour') */", 1)


def net(derivative: Derivative) -> Counter[tuple[object, ...]]:
    found: Counter[tuple[object, ...]] = Counter()
    for transaction in derivative.transactions:
        for op, *row in transaction.records:
            found[tuple(row)] += 1 if op in (A, CT) else -1
    return Counter({row: count for row, count in found.items() if count})


def _inputs(folder: Path, blocks: Mapping[str, Sequence[Block]]) -> list[Input]:
    found = []
    for number, (alias, own) in enumerate(blocks.items()):
        one = Input(folder, alias, SCHEMA, number + 1)
        for at, (rows, watermark) in enumerate(own):
            one.add(rows, watermark=watermark, at=at * 10 + number)
        found.append(one)
    return found


@pytest.mark.parametrize("name", todays([*SHAPES], parts=2))
def test_what_is_read_is_the_query_over_the_rows_in_time(name: str, lab: Lab) -> None:
    shape = SHAPES[name]
    dropped = 0
    for number in range(CASES + MORE_CASES):
        if number >= CASES and dropped:
            break
        chance = Random(f"{name} {number}")
        blocks = {alias: random_blocks(chance) for alias in (*shape.closes, *shape.others)}
        kept = {alias: in_time(own, shape.closes.get(alias)) for alias, own in blocks.items()}
        labs = own_lab(lab), own_lab(lab)
        given, judged = (_inputs(own.folder, each) for own, each in zip(labs, (blocks, kept), strict=True))
        limited = Derivative(_limited(shape.sql), given, labs[0].call, temporal_tables=shape.lookups)
        taken = [0] * len(given)
        while taken != [len(one.steps) for one in given]:
            taken = [chance.randint(at, len(one.steps)) for at, one in zip(taken, given, strict=True)]
            limited.pull(taken)
        judge = Derivative(shape.sql, judged, labs[1].call, temporal_tables=shape.lookups)
        judge.pull()
        assert net(limited) == net(judge), f"{name} {number}: {blocks}"
        missing = sum(len(one.rows) for one in given) - sum(len(one.rows) for one in judged)
        assert sum(each.result.late_rows_dropped for each in limited.transactions) == missing
        dropped += missing
    assert dropped, "no case has had a row that was too late"


LEFT_MAX = 12
"""Rows and windows of the last three hours in both inputs; the last version."""

OF_ALL_TIMES = {"sums of pairs", "most of versions", "longest sessions"}
"""What keeps every value that it has been given, for any of them may be the least one tomorrow."""


@pytest.mark.parametrize("name", todays([name for name, shape in SHAPES.items() if not shape.others], parts=2))
def test_what_nothing_needs_again_expires(name: str, engine_call: EngineCall, tmp_path: Path) -> None:
    """Fifty hourly rows: what no row can touch leaves the states, the last excepted."""
    shape = SHAPES[name]
    inputs = [Input(tmp_path, alias, SCHEMA, number + 1) for number, alias in enumerate(shape.closes)]
    derived = Derivative(
        _limited(shape.sql), inputs, engine_call, temporal_tables=shape.lookups, whole_checkpoints=True
    )
    for hour in range(0, 50, 10):
        for one in inputs:
            one.add([(A, (hour + at) * HOUR, "x", at) for at in range(10)], watermark=(hour + 10) * HOUR, at=hour)
        derived.pull()
    left = rows_left(derived.transactions[-1].checkpoint_path)
    if name in OF_ALL_TIMES:
        assert any(rows >= 49 for rows in left.values())
        left = {state: rows for state, rows in left.items() if state.startswith("stage0.")}
    assert sum(left.values()) <= LEFT_MAX, left


def test_rows_of_open_windows_stay_though_others_of_their_key_are_closed(
    engine_call: EngineCall, tmp_path: Path
) -> None:
    """Rows of an open sliding window stay though other windows of them are closed."""
    hits = Input(tmp_path, "a", SCHEMA)
    derived = Derivative(_limited(SHAPES["sliding sums"].sql), [hits], engine_call)
    hits.add([(A, 2 * HOUR + 1, "x", 1)], watermark=4 * HOUR - 1)
    derived.pull()
    hits.add([(A, 3 * HOUR + 1, "x", 2), (A, HOUR + 1, "x", 4), (A, HOUR - 1, "x", 8)], watermark=9 * HOUR)
    found = derived.pull()
    assert found.result.late_rows_dropped == 1, "only the windows of the row of the first hour are over for an hour"
    hits.add([(A, 3 * HOUR + 1, "x", 9)])
    assert derived.pull().result.late_rows_dropped == 1
    assert sorted((row[0].hour, row[2]) for row in net(derived)) == [(0, 4), (1, 5), (2, 3), (3, 2)]


@pytest.mark.parametrize("hint", ["merge('1 hour')", "lateness('1 day'), broadcast('1 hour')", "repartition(3)"])
def test_a_hint_on_how_to_compute_says_nothing_of_lateness(hint: str, engine_call: EngineCall, tmp_path: Path) -> None:
    hits = Input(tmp_path, "a", SCHEMA)
    hourly = f"select /*+ {hint} */ window.start as event_time, count(*) n from a group by window(event_time, '1 hour')"
    derived = Derivative(hourly, [hits], engine_call)
    hits.add([(A, 0, "x", 1)], watermark=20 * HOUR)
    derived.pull()
    hits.add([(A, 0, "x", 2)])
    assert derived.pull().result.late_rows_dropped == 0
    assert [row[1] for row in net(derived)] == [2]


def test_a_long_session_keeps_its_first_rows(engine_call: EngineCall, tmp_path: Path) -> None:
    """Each row alone would be over for an hour long before the session ends."""
    hits = Input(tmp_path, "a", SCHEMA)
    derived = Derivative(_limited(SHAPES["sessions"].sql), [hits], engine_call)
    for half_hour in range(10):
        hits.add([(A, half_hour * HOUR // 2, "x", 1)], watermark=half_hour * HOUR // 2)
        derived.pull()
    hits.add([], watermark=9 * HOUR)
    derived.pull()
    assert [(row[0].hour, row[3]) for row in net(derived)] == [(0, 10)]


def test_a_row_that_two_places_read_is_counted_once(engine_call: EngineCall, tmp_path: Path) -> None:
    hits = Input(tmp_path, "a", SCHEMA)
    hourly = "select window.start as event_time, median(v) m from a group by window(event_time, '1 hour')"
    derived = Derivative(_limited(f"{hourly} union all {hourly.replace('1 hour', '2 hours')}"), [hits], engine_call)
    hits.add([(A, 0, "x", 1)], watermark=2 * HOUR)
    derived.pull()
    hits.add([(A, 1, "x", 2)])
    assert [row[0] for row in derived.pull().records] == [CF, CT], "the hour is over for an hour, the two hours are not"
    assert derived.transactions[-1].result.late_rows_dropped == 1
    hits.add([], watermark=9 * HOUR).add([(A, 1, "x", 3)])
    last = derived.pull()
    assert (last.records, last.result.late_rows_dropped) == ([], 1)
