"""Rows whose missing join partner makes them void do not go to Spark.

The results are equal.
"""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.errors import InvalidData
from odfabric.model.metadata import TemporalTable
from odfabric_engine_spark.operators.keyed_recompute import recompute_plan
from odfabric_engine_spark.operators.touched_keys.semi_join_pruning import is_among
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.calls.plan_cache import KeptPlans
from tests.services.engine.laws.law_check import net_rows
from tests.services.engine.transforming import HOUR, A, Derivative, Input, R, input_schema

pytestmark = pytest.mark.spark

SCHEMA = input_schema(pa.field("k", pa.int32()), pa.field("s", pa.string()))
ALL = 10
SHARED = 5
VERSIONS = (
    "select a.event_time, a.k, v.s from a join lateral (select b.s from b where b.k = a.k and b.event_time <= a.event_time"
    " order by b.event_time desc limit 1) v"
)
LEFT = "select a.event_time, a.k, a.s, b.s as t from a"
BOUND = {
    "inner": (f"{LEFT} join b on a.k = b.k", (SHARED, SHARED)),
    "left": (f"{LEFT} left join b on a.k = b.k", (ALL, SHARED)),
    "right": ("select b.event_time, b.k, a.s, b.s as t from a right join b on a.k = b.k", (SHARED, ALL)),
    "full": (
        "select a.event_time, a.k, a.s, b.s as t from a full join b on a.k = b.k where a.k is not null",
        (ALL, SHARED),
    ),
    "truly full": (
        "select coalesce(a.event_time, b.event_time) event_time, a.s, b.s as t from a full join b on a.k = b.k",
        (ALL, ALL),
    ),
    "semi": ("select event_time, k, s from a where k in (select k from b)", (SHARED, SHARED)),
    "anti": ("select event_time, k, s from a where not exists (select * from b where b.k = a.k)", (ALL, SHARED)),
    "a condition on one side": (f"{LEFT} join b on a.k = b.k and b.s > 'n'", (SHARED, SHARED)),
    "above a window": (
        "select a.event_time, a.k, b.n from a join (select k, row_number() over (partition by k order by s) n from b) b on a.k = b.k",
        (SHARED, ALL),
    ),
    "a union": (
        f"{LEFT} join (select k, s from b union all select k, s from b where s > 'n') b on a.k = b.k",
        (ALL, SHARED, SHARED),
    ),
    "what may fail": (f"{LEFT} join (select k, substr(s, 1 div (k + 1)) s from b) b on a.k = b.k", (SHARED, ALL)),
    "what fails in a branch": (
        f"{LEFT} join (select k, case when s = 'bad' then 1 div 0 else 1 end s from b) b on a.k = b.k",
        (SHARED, ALL),
    ),
    "a constant": (f"{LEFT} join (select k, s from b where k < 90 + 9) b on a.k = b.k", (SHARED, SHARED)),
    "what may fail in the condition": (f"{LEFT} join b on a.k = b.k and 1 div (b.k + 1) >= 0", (SHARED, ALL)),
    "the last before each row": (VERSIONS, (SHARED, SHARED, SHARED)),
    "a key by itself": (
        "select a.event_time, a.k, n from a join (select k, count(*) n from b group by k) b on a.k = b.k",
        (SHARED, SHARED),
    ),
}
"""Queries, and how many rows of each scan the first transaction binds, of ten each."""


@pytest.fixture
def inputs(engine_call: EngineCall) -> list[Input]:
    """Rows of the keys 0 to 9, and of 5 to 14."""
    a, b = (Input(engine_call.exchange.root, alias, SCHEMA, number=number) for number, alias in enumerate("ab", 1))
    a.add([(A, HOUR + key, key, str(key)) for key in range(ALL)])
    b.add([(A, key, key, f"of {key}") for key in range(ALL - SHARED, 2 * ALL - SHARED)])
    return [a, b]


@pytest.mark.parametrize("name", BOUND)
def test_rows_without_a_partner_are_not_bound_and_give_nothing(
    name: str,
    inputs: list[Input],
    bound: list[tuple[int, ...]],
    engine_call: EngineCall,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    query, expected = BOUND[name]
    derived = Derivative(query, inputs, engine_call)
    records = derived.pull().records
    assert bound[-1] == expected
    # A key of each side gets a partner, and both get one that has none.
    a, b = inputs
    a.add([(A, HOUR, 12, "new"), (A, HOUR, 90, "alone")])
    b.add([(A, 0, 3, "new"), (A, 0, 91, "alone"), (R, 5, 5, "of 5")])
    records += derived.pull().records
    monkeypatch.setattr(recompute_plan, "semi_joins_of", lambda *_: {})
    whole = Derivative(query, inputs, replace(engine_call, plans=KeptPlans()), name="whole")
    assert net_rows(records) == net_rows(whole.pull().records)
    assert net_rows(records)


def test_a_transaction_looks_up_no_rows_that_have_no_partner(
    inputs: list[Input], bound: list[tuple[int, ...]], engine_call: EngineCall
) -> None:
    _, b = inputs
    derived = Derivative(BOUND["inner"][0], inputs, engine_call)
    derived.pull()
    b.add([(A, 0, 14, "again"), (A, 0, 90, "alone"), (A, 0, 3, "new")])
    bound.clear()
    derived.pull()
    assert bound == [(1, 1)]


def test_versions_that_no_row_looks_up_are_not_bound(
    inputs: list[Input], bound: list[tuple[int, ...]], engine_call: EngineCall
) -> None:
    for one in inputs:
        one.add([], watermark=2 * HOUR)
    tables = [TemporalTable(name="b", primary_key=("k",))]
    derived = Derivative(VERSIONS, inputs, engine_call, temporal_tables=tables)
    found = net_rows(derived.pull().records)
    assert bound == [(ALL, SHARED)]
    assert [row[1:] for row in found] == [(key, f"of {key}") for key in range(SHARED, ALL)]


@pytest.mark.parametrize(
    "join",
    [
        "join (select k, case when s = 'bad' then 1 div 0 else 1 end x from b) b on a.k = b.k",
        "join (select k, coalesce(s, cast(cast('abc' as int) as string)) x from b) b on a.k = b.k",
        "join (select k, s x from b) b on a.k = b.k and case when b.x = 'bad' then 1 div 0 > 0 else true end",
        "join (select k, s x from b where case when s = 'bad' then 1 div 0 > 0 else true end) b on a.k = b.k",
    ],
)
def test_what_fails_on_rows_without_a_partner_fails(join: str, inputs: list[Input], engine_call: EngineCall) -> None:
    _, b = inputs
    query = f"select a.event_time, a.k, b.x from a {join}"
    Derivative(query, inputs, engine_call).pull()
    b.add([(A, 0, 90, "bad"), (A, 0, 91, None)])
    with pytest.raises(InvalidData):
        Derivative(query, inputs, engine_call, name="failing").pull()


def test_unmatched_retractions_are_logged_though_they_have_no_partner(
    inputs: list[Input], engine_call: EngineCall, caplog: pytest.LogCaptureFixture
) -> None:
    a, _ = inputs
    derived = Derivative(BOUND["inner"][0], inputs, engine_call)
    derived.pull()
    a.add([(R, HOUR, 0, "another"), (R, HOUR, 90, "nobody")])
    with caplog.at_level(logging.WARNING):
        derived.pull()
    assert [each.getMessage().split(" (")[0] for each in caplog.records] == [
        "2 retractions of a came before their inserts"
    ]


@given(st.lists(st.integers(0, 9)), st.sets(st.integers(0, 9)))
def test_is_among_is_membership(some: list[int], others: set[int]) -> None:
    found = is_among(np.array(some, dtype=np.uint64), np.array(sorted(others), dtype=np.uint64))
    assert found.tolist() == [each in others for each in some]
