"""Cumulative windows continue from rows before a change, with equal results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from odfabric.errors import InvalidData
from odfabric_engine_spark.operators.cumulative_window.cumulative_read import CumulativeRead
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.calls.plan_cache import KeptPlans
from tests.services.engine.laws.law_check import net_rows
from tests.services.engine.operators.partial_read_watch import PartialReadWatch, history
from tests.services.engine.transforming import HOUR, A, Derivative, Input, R, input_schema

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("interpreted")]

SCHEMA = input_schema(
    pa.field("k", pa.int32()),
    pa.field("n", pa.int64()),
    pa.field("s", pa.string()),
    pa.field("m", pa.decimal128(12, 2)),
    pa.field("i", pa.int8()),
)
ROWS = "rows between unbounded preceding and current row"


D = "case n when 0 then 0.0D when 1 then -0.0D when 6 then double('NaN') else n / 2.0D end"
"""A double: zeros with and without a sign, and no number, among them."""


def window(function: str, order: str = "event_time", *, where: str = "true", frame: str = "", keys: str = "k") -> str:
    return f"select event_time, k, n, s, m, {function} over (partition by {keys} order by {order} {frame}) v from a where {where}"


RUNNING = {
    "sum of peers": window("sum(n)"),
    "sum of rows": window("sum(n)", frame=ROWS),
    "sum of decimals": window("sum(m)", "event_time desc"),
    "sum of small numbers": window("sum(i)", "n nulls last"),
    "number": window("row_number()", "n, s"),
    "number from the end": window("row_number()", "n desc nulls first, event_time"),
    "rank": window("rank()", "n desc, s"),
    "count": window("count(*)", frame=ROWS),
    "count of one": window("count(1)", "n"),
    "count of values": window("count(s)", "n", frame=ROWS),
    "mean": window("avg(n)"),
    "greatest": window("max(n)"),
    "least of decimals' halves": "select event_time, k, min(d) over (partition by k order by n, s) v from (select *, m > 0 d from a)",
    "greatest from the end": window("max(i)", "event_time desc, n", frame=ROWS),
    "greatest and least doubles": f"select event_time, k, max(d) over w g, min(d) over w l from (select event_time, k, {D} d from a)"
    " window w as (partition by k order by event_time, d)",
    "greatest time": "select event_time, k, n, max(event_time) over (partition by k order by n nulls last) v from a",
    "of chosen values": window("sum(n) filter (where n > 0)"),
    "of all": window("sum(m)", keys="1"),
    "of two keys": window("sum(n)", keys="k, s"),
    "of a struct": "select event_time, k, sum(n) over (partition by t order by event_time) v from (select event_time, k, n, struct(k, s) t from a)",
    "of a list": "select event_time, k, count(n) over (partition by t order by event_time) v from (select event_time, k, n, array(k) t from a)",
    "several": "select event_time, k, row_number() over w a, sum(n) over w b, count(n) over w c, sum(m) over w d, sum(n) over w + 1 e,"
    " rank() over w f from a window w as (partition by k order by event_time)",
    "balance": "select event_time, k, sum(case when s = 'a' then m else -m end) over (partition by k order by event_time, n) b from a",
    "of chosen rows": window("sum(n)", where="n > 0 and s is not null"),
    "of computed rows": "select event_time, k, sum(y) over (partition by k order by y) v from (select event_time, k, n * 2 + 1 y from a)",
    "of rows of two": "select event_time, k, sum(n) over (partition by k order by event_time, n) v from"
    " (select event_time, k, n from a union all select event_time, k + 1, n from a)",
    "filtered above": "select * from (" + window("sum(n)", frame=ROWS) + ") where v > 0",
    "then grouped": "select max(event_time) event_time, k, sum(v) v from ("
    + window("row_number()")
    + ") where v % 3 = 1 group by k",
    "of groups": "select event_time, k, n, sum(c) over (partition by k order by n) v from"
    " (select max(event_time) event_time, k, n, count(*) c from a group by k, n)",
    "one over another": "select event_time, k, sum(v) over (order by event_time, k) w from ("
    + window("count(*)", frame=ROWS)
    + ")",
    "beside near rows": "select event_time, k, lag(n) over w p, sum(n) over w q, row_number() over w r"
    " from a window w as (partition by k order by event_time)",
    "beside later rows, from the end": "select event_time, k, lead(s, 2) over w p, count(s) over w q"
    " from a window w as (partition by k order by n desc, s)",
    "beside frames": f"select event_time, k, sum(n) over (partition by k order by n, event_time {ROWS}) t,"
    " avg(n) over (partition by k order by n, event_time rows between 3 preceding and 1 following) m from a",
    "beside the last second": "select event_time, k, sum(n) over (partition by k order by event_time) t, max(s) over (partition by k"
    " order by event_time range between interval 1 second preceding and interval 500 milliseconds following) m from a",
    "near running ones": "select event_time, k, n, v - lag(v) over (partition by k order by event_time, n) w from ("
    + window("sum(n)")
    + ")",
}
"""Queries that go on."""
OF_ONE_ROW = {
    "last that is known": window("last_value(s) ignore nulls", "event_time, s"),
    "last row that has one": window("last_value(m) ignore nulls", "event_time, n", frame=ROWS),
    "first from the end": window("first_value(n) ignore nulls", "n desc nulls first, event_time"),
    "first double": f"select event_time, k, first(d) ignore nulls over (partition by k order by event_time, n) v from (select event_time, k, n, {D} d from a)",
    "first time": "select event_time, k, first(event_time) over (partition by k order by event_time) v from a where k is not null",
    "greatest double": f"select event_time, k, max(d) over (partition by k order by event_time) v from (select event_time, k, {D} d from a)",
    "number of those that tie, too": "select event_time, k, sum(n) over (partition by k order by event_time) t,"
    " row_number() over (partition by k, event_time order by n, s) v from a",
}
"""Queries that go on from single rows: where several tie, all are looked at."""
ALL_ROWS = {
    "of doubles": window("sum(cast(n as double))"),
    "of large decimals": window("sum(cast(m as decimal(30, 2)))"),
    "greatest text": window("max(s)"),
    "first row": window("first_value(s)"),
    "last row": window("last_value(s)"),
    "dense": window("dense_rank()"),
    "all the others": window("sum(n)", frame="rows between current row and unbounded following"),
    "but the last": window("sum(n)", frame="rows between unbounded preceding and 1 preceding"),
    "beside a median": "select event_time, k, median(n) over (partition by k) p, sum(n) over (partition by k order by event_time) q from a",
    "by rows and by values": "select event_time, k, sum(n) over w t, lag(n) over w p, max(n) over"
    " (partition by k order by event_time range between interval 1 second preceding and current row) m from a"
    " window w as (partition by k order by event_time)",
    "both ways": "select event_time, k, sum(n) over (partition by k order by n) p, sum(n) over (partition by k order by n desc) q from a",
    "groups of equal ones": "select event_time, k, sum(c) over (partition by k order by event_time, n) g from (select event_time, k, n,"
    " case when lag(n) over (partition by k order by event_time, n) <> n then 1 else 0 end c from a)",
    "by a text": window("sum(n)", "s"),
    "by a decimal": window("sum(n)", "m"),
    "over one another": "select event_time, k, sum(v) over (partition by k order by event_time) w from ("
    + window("count(*)", frame=ROWS)
    + ")",
}
"""Queries that look at all rows of a key."""


def _row_of_its_time(rng: Random) -> tuple[Any, ...]:
    row = _row(rng)
    return (HOUR + rng.randrange(1_000_000), *row[1:])


def _row(rng: Random) -> tuple[Any, ...]:
    return (
        HOUR + rng.randrange(40) * 250,
        rng.choice([None, 0, 1]),
        rng.choice([None, *range(-6, 7)]),
        rng.choice([None, "", "a", "b"]),
        rng.choice([None, Decimal("0.00"), Decimal("-1234567890.12"), Decimal("9.99")]),
        rng.choice([None, -128, 127, 3]),
    )


SIZES = ((300, 0), (2, 1), (0, 3), (12, 12))


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> PartialReadWatch:
    return PartialReadWatch(monkeypatch, "cumulative_windows_of", CumulativeRead)


@pytest.mark.parametrize("name", RUNNING)
def test_what_goes_on_is_what_all_rows_give(name: str, engine_call: EngineCall, watch: PartialReadWatch) -> None:
    source = Input(engine_call.exchange.root, "a", SCHEMA)
    watch.held(RUNNING[name], source, engine_call, history(source, Random(name), _row, SIZES))
    assert any(watch.found)
    assert any(watch.by_few)


@pytest.mark.parametrize("name", OF_ONE_ROW)
@pytest.mark.parametrize("row", [_row, _row_of_its_time])
def test_what_goes_on_from_a_row_is_what_all_rows_give(
    name: str, row: Callable[[Random], tuple[Any, ...]], engine_call: EngineCall, watch: PartialReadWatch
) -> None:
    source = Input(engine_call.exchange.root, "a", SCHEMA)
    watch.held(OF_ONE_ROW[name], source, engine_call, history(source, Random(name), row, SIZES))
    assert any(watch.found)
    assert any(watch.by_few) or row is _row


@pytest.mark.parametrize("name", ALL_ROWS)
def test_other_windows_look_at_all_rows(name: str, engine_call: EngineCall, watch: PartialReadWatch) -> None:
    source = Input(engine_call.exchange.root, "a", SCHEMA)
    source.add([(A, HOUR, 1, 1, "a", None, 1)] * 2)
    assert Derivative(ALL_ROWS[name], [source], replace(engine_call, plans=KeptPlans())).pull().records
    assert watch.found
    assert not any(watch.found)


def _numbers(changes: list[tuple[int, int]], key: int = 1) -> list[tuple[Any, ...]]:
    return [(op, HOUR + number, key, number, "a", None, 1) for op, number in changes]


SUM = "select event_time, k, n, sum(n) over (partition by k order by event_time) v from a"


def test_what_is_bound_does_not_grow_with_the_key(engine_call: EngineCall, bound: list[tuple[int, ...]]) -> None:
    source = Input(engine_call.exchange.root, "a", SCHEMA)
    source.add(_numbers([(A, number) for number in range(6_000)]))
    derived = Derivative(SUM, [source], engine_call)
    assert len(derived.pull().records) == 6_000
    bound.clear()
    source.add(_numbers([(A, 7_000), (A, 7_001)]))
    total = sum(range(6_000))
    assert [row[-1] for row in derived.pull().records] == [total + 7_000, total + 14_001]
    assert bound == [(2,)]
    bound.clear()
    # A row that goes takes part in what comes after it.
    source.add(_numbers([(R, 5_990)]))
    assert len(derived.pull().records) == 1 + 2 * (9 + 2)
    assert bound == [(1 + 9 + 2,)]


def test_few_rows_are_looked_at_whole(engine_call: EngineCall, bound: list[tuple[int, ...]]) -> None:
    source = Input(engine_call.exchange.root, "a", SCHEMA)
    source.add(_numbers([(A, number) for number in range(100)]))
    derived = Derivative(SUM, [source], engine_call)
    derived.pull()
    bound.clear()
    source.add(_numbers([(A, 200)]))
    assert len(derived.pull().records) == 1
    assert bound == [(101,)]


def test_rows_that_were_withdrawn_do_not_count(
    engine_call: EngineCall, bound: list[tuple[int, ...]], watch: PartialReadWatch
) -> None:
    """Withdrawn rows do not count, though their runs are never merged here.

    They and their withdrawals are in runs of their own.
    """
    source = Input(engine_call.exchange.root, "a", SCHEMA)
    source.add(_numbers([(A, number) for number in range(1_000)]))
    derived = Derivative(SUM, [source], engine_call)
    derived.pull()
    source.add(_numbers([(R, 10), (R, 20), (A, 1_500)]))
    derived.pull()
    source.add(_numbers([(R, 1_500), (A, 20)]))
    derived.pull()
    bound.clear()
    source.add(_numbers([(A, 2_000)]))
    assert [row[-1] for row in derived.pull().records] == [sum(range(1_000)) - 10 + 2_000]
    assert bound == [(1,)]
    assert any(watch.found)


def test_a_value_that_was_withdrawn_is_not_the_greatest(engine_call: EngineCall, watch: PartialReadWatch) -> None:
    source = Input(engine_call.exchange.root, "a", SCHEMA)
    source.add([*_numbers([(A, number) for number in range(1_000)]), (A, HOUR + 500, 1, 5_000, "a", None, 1)])
    derived = Derivative(window("max(n)"), [source], engine_call)
    derived.pull()
    for taken, at in ((5_000, 500), (999, 999)):
        # The second time another row has the value.
        source.add([(R, HOUR + at, 1, taken, "a", None, 1), (A, HOUR + 1_500, 1, 999, "b", None, 1)])
        derived.pull()
        source.add([(A, HOUR + 3_000 + taken, 1, 1, "a", None, 1)])
        assert [row[-1] for row in derived.pull().records] == [999]
    assert any(watch.found)


def test_a_value_that_was_corrected_is_the_last(
    engine_call: EngineCall, bound: list[tuple[int, ...]], watch: PartialReadWatch
) -> None:
    source = Input(engine_call.exchange.root, "a", SCHEMA)
    source.add(_numbers([(A, number) for number in range(1_000)]))
    derived = Derivative(window("last_value(n) ignore nulls"), [source], engine_call)
    derived.pull()
    source.add([(R, HOUR + 999, 1, 999, "a", None, 1), (A, HOUR + 999, 1, 7, "a", None, 1)])
    derived.pull()
    bound.clear()
    source.add([(A, HOUR + 2_000, 1, None, "a", None, 1)])
    assert [row[-1] for row in derived.pull().records] == [7]
    assert bound == [(1,)]
    assert any(watch.found)


def test_unmatched_retractions_make_a_key_doubtful(
    engine_call: EngineCall, bound: list[tuple[int, ...]], watch: PartialReadWatch
) -> None:
    source = Input(engine_call.exchange.root, "a", SCHEMA)
    source.add(
        [*_numbers([(A, number) for number in range(10)]), *_numbers([(A, number) for number in range(10)], key=2)]
    )
    derived = Derivative(SUM, [source], engine_call)
    records = derived.pull().records
    source.add(_numbers([(R, 5), (R, 5)]))
    records += derived.pull().records
    bound.clear()
    source.add([*_numbers([(A, 20)]), *_numbers([(A, 20)], key=2)])
    records += derived.pull().records
    assert bound == [(10 + 1,)]
    assert {row[-3:] for row in net_rows(records) if row[-2] == 20} == {(1, 20, 60), (2, 20, 65)}
    # An unmatched retraction comes, and comes again.
    for total in (60, 65):
        source.add(_numbers([(A, 5)]))
        records += derived.pull().records
        assert {row[-1] for row in net_rows(records) if row[-3:-1] == (1, 20)} == {total}
    assert any(watch.found)


@pytest.mark.parametrize("query", [RUNNING["of two keys"], RUNNING["several"], RUNNING["of groups"]])
@pytest.mark.usefixtures("colliding")
def test_keys_that_share_a_hash_are_looked_at_whole(
    query: str, engine_call: EngineCall, watch: PartialReadWatch
) -> None:
    source = Input(engine_call.exchange.root, "a", SCHEMA)
    watch.held(query, source, engine_call, history(source, Random(7), _row, SIZES))
    assert any(watch.found)
    assert any(watch.doubtful)


@pytest.mark.parametrize("pieces", [1, 7, 1_000])
def test_rows_before_are_summed_in_pieces(pieces: int, engine_call: EngineCall, watch: PartialReadWatch) -> None:
    call = replace(engine_call, settings=replace(engine_call.settings, state_piece_rows=pieces))
    source = Input(call.exchange.root, "a", SCHEMA)
    watch.held(RUNNING["several"], source, call, history(source, Random(pieces), _row, SIZES))
    assert any(watch.found)


@pytest.mark.parametrize("order", ["n", "n desc"])
def test_rows_of_which_none_is_left_change_nothing(
    order: str, engine_call: EngineCall, watch: PartialReadWatch
) -> None:
    source = Input(engine_call.exchange.root, "a", SCHEMA)
    source.add(_numbers([(A, 1), (A, 2)]))
    derived = Derivative(RUNNING["of chosen rows"].replace("event_time )", f"{order})"), [source], engine_call)
    assert len(derived.pull().records) == 2
    source.add(_numbers([(A, -1)]))
    assert not derived.pull().records
    assert any(watch.found)


LARGE = 1 << 62


@pytest.mark.parametrize(
    ("query", "values", "last"),
    [
        ("sum(n)", [LARGE, -LARGE, LARGE], LARGE),
        ("sum(n)", [-LARGE, -LARGE, LARGE], -LARGE),
        ("sum(m)", [Decimal("9999999999.99")] * 3, Decimal("39999999999.96")),
    ],
)
def test_large_numbers_are_summed_exactly(
    query: str, values: list[Any], last: Any, engine_call: EngineCall, watch: PartialReadWatch
) -> None:
    source = Input(engine_call.exchange.root, "a", SCHEMA)

    def row(number: int, value: Any) -> tuple[Any, ...]:
        is_decimal = isinstance(value, Decimal)
        return (A, HOUR + number, 1, None if is_decimal else value, "a", value if is_decimal else None, 1)

    source.add([row(number, value) for number, value in enumerate(values)])
    derived = Derivative(f"select event_time, {query} over (order by event_time) v from a", [source], engine_call)
    derived.pull()
    source.add([row(9, values[-1] if isinstance(last, Decimal) else 0)])
    assert [each[-1] for each in derived.pull().records] == [last]
    assert any(watch.found)


def test_what_is_too_large_fails_as_in_spark(engine_call: EngineCall, watch: PartialReadWatch) -> None:
    source = Input(engine_call.exchange.root, "a", SCHEMA)
    source.add([(A, HOUR + number, 1, LARGE - 1, "a", None, 1) for number in range(2)])
    derived = Derivative("select event_time, sum(n) over (order by event_time) v from a", [source], engine_call)
    derived.pull()
    source.add([(A, HOUR + 5, 1, LARGE, "a", None, 1)])
    with pytest.raises(InvalidData, match="overflow"):
        derived.pull()
    assert any(watch.found)
