"""Bounded windows read only rows near a change and give the same result."""

from __future__ import annotations

import datetime as dt
import logging
from dataclasses import replace
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from odfabric.errors import InvalidData
from odfabric_engine_spark.operators.bounded_window.bounded_frame_read import BoundedFrameRead
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.calls.plan_cache import KeptPlans
from odfabric_engine_spark.state.row_state import RowState
from tests.services.engine.laws.law_check import net_rows
from tests.services.engine.operators.partial_read_watch import PartialReadWatch, history
from tests.services.engine.transforming import HOUR, A, Derivative, Input, R, input_schema

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("interpreted")]

SCHEMA = input_schema(
    pa.field("k", pa.int32()),
    pa.field("n", pa.int64()),
    pa.field("s", pa.string()),
    pa.field("x", pa.float64()),
    pa.field("d", pa.date32()),
)


def window(function: str, order: str = "event_time", *, where: str = "true", frame: str = "", keys: str = "k") -> str:
    return (
        f"select event_time, k, n, s, x, d, {function} over (partition by {keys} order by {order} {frame}) v"
        f" from a where {where}"
    )


NEAR = {
    "before": window("lag(n)"),
    "after": window("lead(s, 2, 'none')"),
    "descending": window("lag(x)", "event_time desc"),
    "both": "select event_time, k, n, lag(n) over w p, lead(x, 3) over w q from a window w as (partition by k order by event_time, n)",
    "both ways": "select event_time, k, n, lag(n, 2) over (partition by k order by n) p,"
    " lag(s) over (partition by k order by n desc nulls last, s) q from a",
    "nulls last": window("lag(s)", "n nulls last, s"),
    "nulls first": window("lead(s)", "n desc nulls first"),
    "by a float": window("lag(n)", "x desc, n"),
    "by a date": window("lag(n)", "d, x"),
    "two keys": window("lag(n)", keys="k, s"),
    "of all": window("lag(n)", keys="1"),
    "moving average": window("avg(x)", frame="rows between 2 preceding and current row"),
    "moving sum": window("sum(n)", frame="rows between 1 preceding and 2 following"),
    "later rows": window("max(s)", frame="rows between 1 following and 2 following"),
    "first of a frame": window("nth_value(s, 2)", "n, s", frame="rows between 3 preceding and 1 following"),
    "last hour": window("avg(x)", frame="range between interval 1 second preceding and current row"),
    "around": window("sum(n)", "n", frame="range between 1 preceding and 1 following"),
    "around nulls": window("count(*)", "n desc nulls first", frame="range between 1 preceding and current row"),
    "days": window("sum(n)", "d", frame="range between 3 preceding and 1 preceding"),
    "peers": window("count(s)", "n", frame="range between current row and current row"),
    "differences": "select event_time, k, n - lag(n) over (partition by k order by event_time) v from a",
    "changes": "select * from (" + window("lag(s)") + ") where v is null or v <> s",
    "of chosen rows": window("lag(n)", where="n > 0 and s is not null"),
    "of computed rows": "select event_time, k, lag(y) over (partition by k order by event_time) v from"
    " (select event_time, k, cast(n as string) y from a)",
    "by what is computed": "select event_time, k, lag(y) over (partition by k order by y) v from"
    " (select event_time, k, n * 2 + 1 y from a where s > '')",
    "of a union": "select event_time, k, lag(n) over (partition by k order by n) v from"
    " (select event_time, k, n from a union all select event_time, k + 1, n from a)",
    "over one another": "select event_time, k, n, max(v) over (partition by k order by event_time, n desc"
    " rows between 1 preceding and 1 following) w from ("
    + window("sum(n)", frame="rows between 2 preceding and current row")
    + ")",
    "then summed": "select max(event_time) event_time, k, count(*) c from ("
    + window("lag(s)")
    + ") where v <> s group by k",
    "fewer keys above": "select event_time, k, n, lag(v) over (order by event_time) w from (" + window("lag(n)") + ")",
    "averages of averages": "select event_time, k, avg(v) over (partition by k order by event_time"
    " range between interval 1 second preceding and interval 1 second following) w from ("
    + window("max(x)", frame="range between interval 1 second preceding and current row")
    + ")",
}
"""Queries that look at rows near what changes."""
ALL_ROWS = {
    "last that is not null": window("lag(n) ignore nulls"),
    "running": window("sum(n)"),
    "running rows": window("sum(n)", frame="rows between unbounded preceding and current row"),
    "numbered": window("row_number()"),
    "numbered beside": "select event_time, k, lag(n) over w p, row_number() over w q from a window w as (partition by k order by n, s)",
    "rows and values": "select event_time, k, n, max(v) over (partition by k order by event_time rows between 1 preceding and 1 following) w"
    " from (" + window("max(n)", frame="range between interval 1 second preceding and current row") + ")",
    "filtered between": "select event_time, k, n, lag(v) over (partition by k order by event_time) w from ("
    + window("lag(n)")
    + ") where v > 0",
    "orders that differ": "select event_time, k, n, lag(v) over (partition by k order by n) w from ("
    + window("lag(n)")
    + ")",
    "by a text": window("lag(n)", "s"),
    "months": window("sum(n)", frame="range between interval 1 month preceding and current row"),
    "summed above": "select max(event_time) event_time, k, sum(v) v, max_by(s, n) s from ("
    + window("lag(n)")
    + ") group by k",
}
"""Queries that must look at all rows of a key."""


def _row(rng: Random) -> tuple[Any, ...]:
    return (
        HOUR + rng.randrange(40) * 250,
        rng.choice([None, 0, 1]),
        rng.choice([None, *range(-6, 7)]),
        rng.choice([None, "", "a", "b"]),
        rng.choice([None, 0.0, -0.0, float("nan"), 1.5, -2.5]),
        rng.choice([None, *(dt.date(1969, 12, 25) + dt.timedelta(days) for days in range(12))]),
    )


SIZES = ((300, 0), (1, 1), (2, 1), (0, 3), (3, 2), (12, 12))


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> PartialReadWatch:
    return PartialReadWatch(monkeypatch, "bounded_frames_of", BoundedFrameRead)


@pytest.mark.parametrize("name", NEAR)
def test_bounded_frames_give_what_all_rows_give(name: str, engine_call: EngineCall, watch: PartialReadWatch) -> None:
    source = Input(engine_call.exchange.root, "a", SCHEMA)
    watch.held(NEAR[name], source, engine_call, history(source, Random(name), _row, SIZES))
    assert any(watch.found)
    assert any(watch.by_few)


@pytest.mark.parametrize("name", ALL_ROWS)
def test_other_windows_look_at_all_rows(name: str, engine_call: EngineCall, watch: PartialReadWatch) -> None:
    source = Input(engine_call.exchange.root, "a", SCHEMA)
    source.add([(A, HOUR, 1, 1, "a", 1.0, None)] * 2)
    assert Derivative(ALL_ROWS[name], [source], replace(engine_call, plans=KeptPlans())).pull().records
    assert watch.found
    assert not any(watch.found)


def _numbers(changes: list[tuple[int, int]]) -> list[tuple[Any, ...]]:
    return [(op, HOUR, 1, number, "a", 1.0, None) for op, number in changes]


def test_what_is_bound_does_not_grow_with_the_key(engine_call: EngineCall, bound: list[tuple[int, ...]]) -> None:
    source = Input(engine_call.exchange.root, "a", SCHEMA)
    source.add(_numbers([(A, 2 * number) for number in range(6_000)]))
    derived = Derivative("select event_time, n, lag(n) over (order by n) p from a", [source], engine_call)
    assert len(derived.pull().records) == 6_000
    bound.clear()
    # One goes, one comes in between, and two come after all others, one beside the other.
    source.add(_numbers([(R, 3_000), (A, 6_001), (A, 20_000), (A, 20_001)]))
    told = sorted((row[0], *row[-2:]) for row in derived.pull().records)
    assert bound == [((1 + 4) + (1 + 4) + (2 + 2),)]
    changed = {6_001: 6_000, 20_000: 11_998, 20_001: 20_000}
    before, after = {3_000: 2_998, 3_002: 3_000, 6_002: 6_000}, {3_002: 2_998, 6_002: 6_001, **changed}
    assert told == sorted([*((R, *each) for each in before.items()), *((A, *each) for each in after.items())])


def test_windows_that_order_ties_differently_reach_beyond_them(
    engine_call: EngineCall, watch: PartialReadWatch
) -> None:
    """Windows with different tie orders reach beyond the ties.

    Of rows that tie the lower window takes first what the upper one takes last: that depends on all that follow.
    """
    lower = "select event_time, k, n, x, lag(x) over (partition by k order by event_time, n) v from a"
    query = f"select event_time, k, n, x, lag(v) over (partition by k order by event_time, n desc) w from ({lower})"
    source = Input(engine_call.exchange.root, "a", SCHEMA)
    times = [0, *[1] * 40, *range(2, 42)]
    blocks = [
        [(A, HOUR + time, 1, number, None, float(number), None) for number, time in enumerate(times)],
        [(R, HOUR, 1, 0, None, 0.0, None), (A, HOUR, 1, 0, None, 50.0, None)],
    ]
    records = watch.held(query, source, engine_call, (source.add(block) for block in blocks))
    assert any(watch.found)
    assert len(records) == 4


def test_rows_that_tie_beside_many_changes_are_read_once(
    engine_call: EngineCall, monkeypatch: pytest.MonkeyPatch, watch: PartialReadWatch
) -> None:
    read: list[int] = []
    plain = RowState.beside

    def counting(self: RowState, *given: Any, **more: Any) -> Any:
        made = plain(self, *given, **more)
        read.append(len(made[0]))
        return made

    monkeypatch.setattr(RowState, "beside", counting)
    source = Input(engine_call.exchange.root, "a", SCHEMA)
    source.add([(A, HOUR, 1, max(0, number - 2_000), str(number), 1.0, None) for number in range(5_000)])
    derived = Derivative(window("lag(x, 20)", "n, s"), [source], engine_call)
    derived.pull()
    source.add([(A, HOUR, 1, number, "new", 1.0, None) for number in range(1, 31)])
    derived.pull()
    assert any(watch.found)
    assert 0 < sum(read) < 10_000


def test_few_rows_are_looked_at_whole(engine_call: EngineCall, bound: list[tuple[int, ...]]) -> None:
    source = Input(engine_call.exchange.root, "a", SCHEMA)
    source.add(_numbers([(A, number) for number in range(100)]))
    derived = Derivative("select event_time, n, lag(n) over (order by n) p from a", [source], engine_call)
    derived.pull()
    bound.clear()
    source.add(_numbers([(R, 50)]))
    derived.pull()
    assert bound == [(100,)]


@pytest.mark.parametrize("query", [NEAR["two keys"], NEAR["both ways"], NEAR["around"]])
@pytest.mark.usefixtures("colliding")
def test_keys_that_share_a_hash_are_looked_at_whole(
    query: str, engine_call: EngineCall, watch: PartialReadWatch
) -> None:
    source = Input(engine_call.exchange.root, "a", SCHEMA)
    watch.held(query, source, engine_call, history(source, Random(7), _row, SIZES))
    assert any(watch.found)
    assert any(watch.doubtful)


def test_unmatched_retractions_make_a_key_doubtful(
    engine_call: EngineCall, caplog: pytest.LogCaptureFixture, watch: PartialReadWatch
) -> None:
    source = Input(engine_call.exchange.root, "a", SCHEMA)
    source.add(_numbers([(A, number) for number in range(10)]))
    derived = Derivative("select event_time, n, lag(n) over (order by n) p from a", [source], engine_call)
    records = derived.pull().records
    source.add(_numbers([(R, 20)]))
    with caplog.at_level(logging.WARNING):
        records += derived.pull().records
    assert "1 retractions of a came before their inserts" in caplog.text
    for number, expected in ((20, [(8, 7), (9, 8)]), (21, [(9, 8), (21, 9)]), (20, [(20, 9), (21, 20)])):
        source.add(_numbers([(A, number)]))
        records += derived.pull().records
        assert sorted(row[-2:] for row in net_rows(records) if row[-1] is not None)[-2:] == expected
    assert any(watch.found)


def test_what_fails_at_an_edge_alone_fails_nothing(
    engine_call: EngineCall, bound: list[tuple[int, ...]], watch: PartialReadWatch
) -> None:
    """A failure at an excerpt's edge alone fails nothing.

    The whole key has no two rows as far apart as those at the edges of what is looked at.
    """
    source = Input(engine_call.exchange.root, "a", SCHEMA)
    source.add(_numbers([(A, number) for number in range(0, 400, 2)]))
    query = "select event_time, n, 1 div (3 - (n - lag(n, 1, n) over (order by n)) div 100) v from a"
    derived = Derivative(query, [source], engine_call)
    derived.pull()
    bound.clear()
    source.add(_numbers([(A, 1), (A, 321)]))
    assert len(derived.pull().records) == 2
    assert bound[0] < bound[1]
    # What fails in the whole key fails.
    source.add(_numbers([(A, 398 + 300)]))
    with pytest.raises(InvalidData, match="Division by zero"):
        derived.pull()
