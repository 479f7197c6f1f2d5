"""Distinct counts by changes equal those of plain Spark."""

from __future__ import annotations

import datetime as dt
import math
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.state.run import Run
from tests.services.engine.laws.law_check import compare
from tests.services.engine.plain_spark import plain_rows
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
    pa.field("o", pa.struct([pa.field("p", pa.int32()), pa.field("q", pa.string())])),
)
LAST = "select max(event_time) event_time"
QUERIES = (
    f"{LAST}, k, count(distinct n) n, count(distinct s) s, count(distinct x) x, count(distinct d) d, count(distinct b) b,"
    " count(distinct t) t, count(distinct o) o from a group by k",
    f"{LAST}, count(distinct n) n, sum(x) x, count(distinct n, s) ns, count(distinct o.p, k, b) pk, count(*) c from a",
    f"{LAST}, k, count(distinct n) filter (where b) n, count(distinct if(n > 0, s, null)) s, min(n) least, max(s) greatest"
    " from a group by k having count(distinct s) > 1",
    f"{LAST}, k, s, count(distinct n) n from a group by rollup(k, s)",
    f"{LAST}, count(distinct x, k) xk, count(distinct k, cast(x as float)) kf from a",
    f"{LAST}, k, count(distinct event_time, n) tn, count(distinct event_time, event_time) filter (where b) tt,"
    " count(distinct if(n > 0, named_struct('t', event_time), null)) o from a group by k",
    f"{LAST}, count(distinct *) c from (select event_time, k, n from a)",
    f"{LAST}, m, count(distinct k) k from (select k, max(event_time) event_time, count(distinct n) m from a group by k) group by m",
)
TEXTS = [None, "", "a", "b", "ab", "a\x00b", "é"]


def _row(rng: random.Random) -> tuple[Any, ...]:
    return (
        HOUR + rng.randrange(4) * 1000,
        rng.choice([None, 0, 1, 2]),
        rng.choice([None, *range(-3, 4)]),
        rng.choice(TEXTS),
        rng.choice([None, 0.0, -0.0, math.nan, math.inf, 1.5]),
        rng.choice([None, Decimal("1.50"), Decimal("-1.50")]),
        rng.choice([None, True, False]),
        rng.choice([None, dt.date(1969, 12, 31), dt.date(2020, 1, 1)]),
        rng.choice([None, {"p": rng.choice([None, 1, 2]), "q": rng.choice(TEXTS)}]),
    )


@pytest.mark.parametrize("number", range(len(QUERIES)))
def test_what_is_counted_is_what_plain_spark_counts(number: int, engine_call: EngineCall) -> None:
    query, rng = QUERIES[number], random.Random(number)
    source = Input(engine_call.exchange.root, "a", SCHEMA)
    derived = Derivative(query, [source], engine_call)
    there: list[tuple[Any, ...]] = []
    records: list[tuple[Any, ...]] = []
    for rows in (40, 10, 20, 30):
        new = [_row(rng) for _ in range(rows)]
        gone = [there.pop(rng.randrange(len(there))) for _ in range(min(len(there), rng.randrange(2 * rows)))]
        there += new
        source.add([*((A, *row) for row in new), *((R, *row) for row in gone)])
        records += derived.pull().records
        compare("Spark", query, plain_rows(query, SCHEMA, there, engine_call), records)


def test_what_is_read_does_not_grow_with_the_group(engine_call: EngineCall, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    plain, sliced = Run.take, Run.slice

    def take(self: Run, positions: Any, names: Any = None) -> pa.Table:
        read.append(len(positions))
        return plain(self, positions, names)

    def cut(self: Run, begin: int, end: int) -> pa.Table:
        read.append(end - begin)
        return sliced(self, begin, end)

    rows = [(A, HOUR, 1, number, "a", None, None, None, None, None) for number in range(20_000)]
    source = Input(engine_call.exchange.root, "a", SCHEMA).add(rows)
    query = f"{LAST}, k, count(distinct n) n from a group by k"
    derived = Derivative(query, [source], engine_call)
    assert derived.pull().records[-1][-1] == 20_000
    source.add([(A, *rows[5][1:]), (R, *rows[7][1:]), (A, HOUR, 1, -1, "a", None, None, None, None, None)])
    monkeypatch.setattr(Run, "take", take)
    monkeypatch.setattr(Run, "slice", cut)
    assert [row[-1] for row in derived.pull().records] == []  # one goes, one comes
    assert sum(read) < 100


def test_values_that_have_no_bytes_are_counted_by_all_rows(engine_call: EngineCall) -> None:
    schema = input_schema(pa.field("k", pa.int32()), pa.field("f", pa.struct([pa.field("x", pa.float64())])))
    source = Input(engine_call.exchange.root, "a", schema)
    derived = Derivative(f"{LAST}, k, count(distinct f) n from a group by k", [source], engine_call)
    source.add([(A, HOUR, 1, {"x": 0.0}), (A, HOUR, 1, {"x": -0.0}), (A, HOUR, 1, {"x": math.nan})])
    assert [row[-1] for row in derived.pull().records] == [2]
