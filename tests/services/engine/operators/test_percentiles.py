"""Percentiles of groups are found by rank and equal those of plain Spark."""

from __future__ import annotations

import math
import random
from typing import Any

import pyarrow as pa
import pytest

from odfabric_engine_spark.operators.aggregate import percentile_values
from odfabric_engine_spark.spark.calls.call import EngineCall
from tests.services.engine.laws.law_check import compare, well_formed
from tests.services.engine.plain_spark import plain_rows
from tests.services.engine.transforming import HOUR, A, Derivative, Input, R, input_schema

pytestmark = pytest.mark.spark

SCHEMA = input_schema(
    pa.field("k", pa.int32()),
    pa.field("n", pa.int64()),
    pa.field("i", pa.int16()),
    pa.field("x", pa.float64()),
    pa.field("f", pa.float32()),
)
LAST = "select max(event_time) event_time"
QUERIES = (
    f"{LAST}, k, percentile(x, 0.95) p, median(n) m, count(*) c from a group by k",
    f"{LAST}, percentile(n, array(0, 0.1, 0.5, 0.5, 0.99, 1)) p, percentile(i, 0.3) i, max(n) g from a",
    f"{LAST}, k, percentile_cont(0.3) within group (order by x desc) c, percentile_disc(0.3) within group (order by x desc) d,"
    " percentile_disc(0) within group (order by n) z, percentile_disc(0.5) within group (order by f) f from a group by k",
    f"{LAST}, k, median(x) filter (where n > 0) m, percentile(if(n > 0, f, null), 0.25) f, sum(x) s from a group by k having median(n) > -5",
    f"{LAST}, k, i, percentile(n, 0.9) p from a group by rollup(k, i)",
    f"{LAST}, k, percentile(x, cast(array() as array<double>)) e, median(n) m from a group by k",
    f"{LAST}, percentile_disc(cast(array() as array<double>)) within group (order by n) e from a",
    f"{LAST}, avg(m) m, percentile(m, 0.5) p from (select k, max(event_time) event_time, median(n) m from a group by k)",
)
SPECIAL = [None, 0.0, -0.0, math.nan, math.inf, -math.inf, 0.1, 0.7]


def _row(rng: random.Random) -> tuple[Any, ...]:
    far = rng.choice([0, 0, 1 << 53, (1 << 63) - 10])
    return (
        HOUR + rng.randrange(4) * 1000,
        rng.choice([None, 0, 1, 1, 1]),
        rng.choice([None, *(far + each for each in range(8)), *(-far - each for each in range(8))]),
        rng.choice([None, *range(-30_000, 30_000, 7_000)]),
        rng.choice([*SPECIAL, *(rng.gauss(0, 3) for _ in range(6))]),
        rng.choice([*SPECIAL, *(float(rng.randrange(40)) / 4 for _ in range(4))]),
    )


@pytest.mark.parametrize("whole", [True, False], ids=["whole", "by places"])
@pytest.mark.parametrize("number", range(len(QUERIES)))
def test_as_plain_spark(engine_call: EngineCall, monkeypatch: pytest.MonkeyPatch, number: int, *, whole: bool) -> None:
    if not whole:
        monkeypatch.setattr(percentile_values, "WHOLE_ROWS_MAX", 0)
    rng = random.Random(number)
    source = Input(engine_call.exchange.root, "a", SCHEMA)
    derived = Derivative(QUERIES[number], [source], engine_call)
    net: list[tuple[Any, ...]] = []
    told: list[tuple[Any, ...]] = []
    for size, gone in [(60, 0), (3, 1), (1, 0), (0, 12), (30, 5), (0, 70), (9, 9)]:
        new = [_row(rng) for _ in range(size)]
        old = [net.pop(rng.randrange(len(net))) for _ in range(min(gone, len(net)))]
        net += new
        source.add([*((A, *row) for row in new), *((R, *row) for row in old)])
        records = derived.pull().records
        well_formed(told, records)
        told += records
        compare("plain Spark", QUERIES[number], plain_rows(QUERIES[number], SCHEMA, net, engine_call), told)
