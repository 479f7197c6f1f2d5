"""Top-N queries read only the first rows of keys; equal results."""

from __future__ import annotations

import datetime as dt
import logging
import math
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from odfabric.errors import InvalidData
from odfabric_engine_spark.operators.keyed_recompute import recompute_plan
from odfabric_engine_spark.operators.top_n.top_n_read import TopN
from odfabric_engine_spark.operators.top_n.top_n_scan import top_n_of
from odfabric_engine_spark.operators.touched_keys.partial_read import ChosenRows
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.calls.plan_cache import KeptPlans
from tests.services.engine.laws.law_check import net_rows
from tests.services.engine.transforming import HOUR, A, Derivative, Input, R, input_schema

pytestmark = pytest.mark.spark

SCHEMA = input_schema(
    pa.field("k", pa.int32()),
    pa.field("n", pa.int64()),
    pa.field("s", pa.string()),
    pa.field("x", pa.float64()),
    pa.field("d", pa.decimal128(10, 2)),
    pa.field("b", pa.bool_()),
    pa.field("t", pa.date32()),
    pa.field("y", pa.binary()),
)
RANKED = "select event_time, k, n, s, x, d, b, t, y, {rank} over (partition by {keys} order by {order}) r from a"
TOP = "select event_time, k, n, s, x, d, b, t, y, r from ({ranked}) where {where}"


def top(order: str, *, where: str = "r <= 2", rank: str = "row_number()", keys: str = "k", ranked: str = RANKED) -> str:
    """Rows up to a rank."""
    return TOP.format(ranked=ranked.format(rank=rank, keys=keys, order=order), where=where)


FIRST_ONLY = {
    "ascending": top("n"),
    "descending": top("n desc"),
    "nulls last": top("n asc nulls last, s desc nulls first"),
    "nulls first": top("n desc nulls first, x"),
    "texts": top("s, n desc"),
    "texts descending": top("s desc, n, x desc"),
    "floats": top("x, n"),
    "floats descending": top("x desc, s"),
    "decimals": top("d desc, n desc"),
    "decimals after numbers": top("b, d desc, n"),
    "truth": top("b desc, s"),
    "dates": top("s desc, t, n"),
    "dates descending": top("b nulls last, t desc, y"),
    "truth and bytes descending": top("y desc, b"),
    "times": top("event_time desc"),
    "ranks that tie": top("n", rank="rank()"),
    "ranks that tie descending": top("b desc, s desc", rank="rank()"),
    "dense ranks": top("n", rank="dense_rank()"),
    "dense ranks descending": top("s desc, n", rank="dense_rank()", where="r <= 3"),
    "one": top("event_time desc", where="r = 1"),
    "a number of the middle": top("n, s", where="3 >= r and r > 1"),
    "some of a list": top("n desc", where="r in (3, 1)"),
    "between": top("x", where="r between 2 and 3 and coalesce(n, 1) > 0"),
    "two keys": top("n", keys="k, b"),
    "keys that are computed": top("n", keys="k % 2, s"),
    "an order that is computed": top("n * 2 - k desc, s"),
    "of all": top("n desc, s", keys="1"),
    "limit": "select * from (select event_time, k, n, s from a order by n desc nulls last, s limit 3)",
    "limit and offset": "select * from (select event_time, n, s from a order by s, n limit 2 offset 1)",
    "of chosen rows": top("n", ranked=RANKED + " where coalesce(n, 0) + 1 > 0"),
    "of all inputs": "select * from (select * from (select event_time, k, n from a union all select event_time, k + 1, n from a) order by n limit 4)",
    "summed": "select max(event_time) event_time, k, sum(n) n from (" + top("n desc") + ") group by k",
    "ranked again": "select * from (select event_time, k, n, row_number() over (partition by k order by n desc, s) q from ("
    + top("n", where="r <= 3")
    + ")) where q <= 1",
    "latest": "select max(event_time) event_time, k, max_by(s, event_time) s, max_by(x, event_time) x from a group by k",
    "greatest of a float": "select max_by(event_time, x) event_time, k, max_by(s, x) s, max(x) x from a group by k",
    "earliest": "select min(event_time) event_time, k, b, min_by(s, event_time) s, min_by(y, event_time) y from a group by k, b",
    "greatest of a number": "select max_by(event_time, n) event_time, k, max_by(s, n) s, max(n) n from a group by k",
    "least of a text": "select min_by(event_time, s) event_time, k, min_by(n, s) n, min(s) s from a"
    " where coalesce(n, 0) + 9 > 0 group by k having min(s) is not null or k > 0",
    "qualify": "select event_time, k, n from a qualify row_number() over (partition by k order by n, s) <= 2",
}
"""Queries that look at first rows alone."""
ALL_ROWS = {
    "dense ranks beside numbers": "select * from (select event_time, k, n, s, dense_rank() over (partition by k order by s) r,"
    " row_number() over (partition by k order by s) q from a) where r <= 2",
    "counts beside the latest": "select max(event_time) event_time, k, max_by(s, event_time) s, count(*) c from a group by k",
    "both ends": "select max_by(event_time, n) event_time, k, min_by(s, n) s from a group by k",
    "some of the latest": "select max(event_time) event_time, k, max_by(s, event_time) filter (where b) s from a group by k",
    "by what may fail": "select max_by(event_time, n) event_time, k, max_by(1 div n, n) m from a group by k",
    "months after numbers": top("n, make_ym_interval(k, n)", rank="rank()"),
    "what cannot be kept": "select event_time, n, m['a'] v from (select *, rank() over (partition by k order by n) r from"
    " (select event_time, k, n, map('a', n) m from a)) where r <= 2",
    "months": top("make_ym_interval(k, n)", rank="rank()"),
    "tiles": top("n", rank="ntile(3)"),
    "shares": top("n", rank="percent_rank()", where="r < 0.5"),
    "no bound": top("n", where="r > 1"),
    "one or another": top("n", where="r <= 2 or b"),
    "fewer keys above": "select * from (select *, row_number() over (partition by k order by n) q from ("
    + top("n", keys="k, b")
    + ")) where q <= 1",
    "what the window adds up": "select event_time, k, n, total from (select *, row_number() over (partition by k order by n, s) r,"
    " sum(n) over (partition by k order by n, s) total from a) where r <= 2",
    "what may fail above": top("n", where="r <= 2 and 1 div n >= 0"),
}
"""Queries that must look at all rows of a key."""
TEXTS = [None, "", "a", "b", "ab", "é", "a\x00b"]
FLOATS = [None, 0.0, -0.0, math.nan, math.inf, -math.inf, 1.5, -1.5]


def _row(rng: random.Random) -> tuple[Any, ...]:
    number = rng.choice([None, *range(-3, 4)])
    decimal = rng.choice([None, Decimal("1.50"), Decimal("-1.50"), Decimal("0.00"), Decimal("12.25")])
    return (
        HOUR + rng.randrange(4) * 1000,
        rng.choice([None, 0, 1]),
        number,
        rng.choice(TEXTS),
        rng.choice(FLOATS),
        decimal,
        rng.choice([None, True, False]),
        rng.choice([None, dt.date(1969, 12, 31), dt.date(2020, 1, 1)]),
        rng.choice([None, b"", b"\x00", b"a\xff"]),
    )


def _history(source: Input, rng: random.Random) -> Iterator[None]:
    """Blocks of rows that come, and some of those that are there and go."""
    there: list[tuple[Any, ...]] = []
    for rows in (50, 10, 30):
        new = [_row(rng) for _ in range(rows)]
        gone = [there.pop(rng.randrange(len(there))) for _ in range(min(len(there), rng.randrange(rows)))]
        there += new
        source.add([*((A, *row) for row in new), *((R, *row) for row in gone)])
        yield


@contextmanager
def _by_all_rows(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patched:
        patched.setattr(recompute_plan, "top_n_of", lambda *_: None)
        yield


@pytest.mark.parametrize("name", FIRST_ONLY)
def test_first_rows_give_what_all_rows_give(
    name: str, engine_call: EngineCall, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = FIRST_ONLY[name]
    source = Input(engine_call.exchange.root, "a", SCHEMA)
    found: list[bool] = []
    monkeypatch.setattr(recompute_plan, "top_n_of", lambda *given: _noted(found, top_n_of(*given)))
    by_first = Derivative(query, [source], replace(engine_call, plans=KeptPlans()))
    by_all = Derivative(query, [source], replace(engine_call, plans=KeptPlans()), name="all")
    for _ in _history(source, random.Random(name)):
        records = by_first.pull().records
        with _by_all_rows(monkeypatch):
            expected = by_all.pull().records
        assert net_rows(records) == net_rows(expected)
    assert any(found)


def _noted(found: list[bool], made: Any) -> Any:
    found.append(made is not None)
    return made


@pytest.mark.parametrize("name", ALL_ROWS)
def test_other_queries_look_at_all_rows(name: str, engine_call: EngineCall, monkeypatch: pytest.MonkeyPatch) -> None:
    source = Input(engine_call.exchange.root, "a", SCHEMA)
    found: list[bool] = []
    monkeypatch.setattr(recompute_plan, "top_n_of", lambda *given: _noted(found, top_n_of(*given)))
    source.add([(A, HOUR, 1, 1, "a", 1.0, Decimal("1.00"), True, None, None)] * 2)
    assert Derivative(ALL_ROWS[name], [source], replace(engine_call, plans=KeptPlans())).pull().records
    assert found
    assert not any(found)


def test_what_is_bound_does_not_grow_with_the_key(engine_call: EngineCall, bound: list[tuple[int, ...]]) -> None:
    source = Input(engine_call.exchange.root, "a", SCHEMA)
    source.add([(A, HOUR, 1, number, "a", None, None, None, None, None) for number in range(5_000)])
    derived = Derivative("select * from (select event_time, n from a order by n desc limit 3)", [source], engine_call)
    assert sorted(row[-1] for row in derived.pull().records) == [4_997, 4_998, 4_999]
    assert bound == [(3,)]
    # One of the first goes, one comes before them, one comes far behind, and one goes far behind.
    changes = [(R, 4_999), (A, 6_000), (A, 2), (R, 1)]
    source.add([(op, HOUR, 1, number, "a", None, None, None, None, None) for op, number in changes])
    bound.clear()
    assert sorted(row[-1] for row in derived.pull().records) == [4_999, 6_000]
    assert bound == [(6,)]  # two may move up where two go, so five are looked at, and the one that comes


def test_what_ties_with_the_last_is_looked_at(engine_call: EngineCall, bound: list[tuple[int, ...]]) -> None:
    source = Input(engine_call.exchange.root, "a", SCHEMA)
    source.add([(A, HOUR, 1, 7, str(number), None, None, None, None, None) for number in range(40)])
    derived = Derivative(top("n", rank="rank()"), [source], engine_call)
    assert len(derived.pull().records) == 40
    source.add([(A, HOUR, 1, 6, "first", None, None, None, None, None)])
    assert len(derived.pull().records) == 81
    source.add([(A, HOUR, 1, 6, "second", None, None, None, None, None)])
    assert len(derived.pull().records) == 41
    assert bound == [(40,), (41,), (2 + 40,)]


@pytest.mark.parametrize("query", [FIRST_ONLY["two keys"], FIRST_ONLY["nulls last"]])
@pytest.mark.usefixtures("colliding")
def test_keys_that_share_a_hash_are_looked_at_whole(
    query: str, engine_call: EngineCall, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[bool] = []
    plain = TopN.chosen

    def noting(self: TopN, *given: Any) -> ChosenRows:
        made = plain(self, *given)
        found.append(len(made.doubtful) > 0)
        return made

    monkeypatch.setattr(TopN, "chosen", noting)
    source = Input(engine_call.exchange.root, "a", SCHEMA)
    by_first = Derivative(query, [source], replace(engine_call, plans=KeptPlans()))
    by_all = Derivative(query, [source], replace(engine_call, plans=KeptPlans()), name="all")
    for _ in _history(source, random.Random(7)):
        records = by_first.pull().records
        with _by_all_rows(monkeypatch):
            assert net_rows(records) == net_rows(by_all.pull().records)
    assert any(found)


def test_unmatched_retractions_count_where_they_lie(engine_call: EngineCall, caplog: pytest.LogCaptureFixture) -> None:
    source = Input(engine_call.exchange.root, "a", SCHEMA)
    source.add([(A, HOUR, 1, number, "a", None, None, None, None, None) for number in range(3, 9)])
    derived = Derivative(top("n"), [source], engine_call)
    records = derived.pull().records
    source.add([(R, HOUR, 1, 1, "a", None, None, None, None, None)])
    with caplog.at_level(logging.WARNING):
        records += derived.pull().records
    assert "1 retractions of a came before their inserts" in caplog.text
    # It comes after all, so that it is not there; then once more, and is the first.
    for expected in ([3, 4], [1, 3]):
        source.add([(A, HOUR, 1, 1, "a", None, None, None, None, None)])
        records += derived.pull().records
        assert sorted(row[2] for row in net_rows(records)) == expected


def test_a_row_that_fails_below_the_ranks_fails(engine_call: EngineCall) -> None:
    source = Input(engine_call.exchange.root, "a", SCHEMA)
    query = "select * from (select event_time, n, 1 div (n - 5000) m from a order by n limit 2)"
    source.add([(A, HOUR, 1, number, "a", None, None, None, None, None) for number in range(4)])
    derived = Derivative(query, [source], engine_call)
    derived.pull()
    source.add([(A, HOUR, 1, 5_000, "a", None, None, None, None, None)])
    with pytest.raises(InvalidData, match="5000"):
        derived.pull()


def test_of_a_key_that_fails_no_more_rows_are_looked_at(engine_call: EngineCall, bound: list[tuple[int, ...]]) -> None:
    source = Input(engine_call.exchange.root, "a", SCHEMA)
    rest = (None, None, None, None, None, None)
    source.add([(A, HOUR, 1, number, *rest) for number in range(1, 1_000)])
    ranked = RANKED.format(rank="row_number()", keys="k", order="n")
    derived = Derivative(f"select event_time, n, 1 div n v from ({ranked}) where r = 1", [source], engine_call)
    derived.pull()
    bound.clear()
    source.add([(A, HOUR, 1, 0, *rest)])
    with pytest.raises(InvalidData, match="Division by zero"):
        derived.pull()
    assert max(bound) < (10,)
