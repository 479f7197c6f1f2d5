"""Of large keys only relevant old rows are looked up; equal results."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random

import pyarrow as pa
import pytest

from odfabric.model.metadata import TemporalTable
from odfabric_engine_spark.operators.keyed_recompute.spark_tasks import Extracted, StageTasks, TouchedScan
from odfabric_engine_spark.operators.touched_keys import old_rows, partial_read
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.calls.plan_cache import KeptPlans
from tests.services.engine.laws.grammar.general_cases import BY_TASKS
from tests.services.engine.laws.law_check import exact, net_rows
from tests.services.engine.transforming import CF, CT, HOUR, A, Derivative, Input, R, input_schema

pytestmark = pytest.mark.spark

SCHEMA = input_schema(
    pa.field("k", pa.int32()),
    pa.field("n", pa.int64()),
    pa.field("s", pa.string()),
    event_time=pa.field("event_time", pa.timestamp("ms", "UTC")),
)
MANY = 300
KEY = 1


def look_up(alias: str, comparison: str = "<=", join: str = "join", order: str = "v.event_time desc") -> str:
    return (
        f" {join} lateral (select v.n, v.s from b v where v.k = a.k and v.event_time {comparison} a.event_time"
        f" order by {order} limit 1) {alias}" + (" on true" if join == "left join" else "")
    )


LEFT = "select a.event_time, a.k, a.n, a.s, b.s as t from a"
QUERIES = {
    "inner": f"{LEFT} join b on a.k = b.k",
    "left": f"{LEFT} left join b on a.k = b.k",
    "right": "select b.event_time, b.k, b.n, a.s from a right join b on a.k = b.k and a.n > b.n",
    "full": f"{LEFT.replace('a.event_time', 'coalesce(a.event_time, b.event_time) event_time')} full join b on a.k = b.k",
    "semi": "select event_time, k, n, s from a where k in (select k from b where n > 2)",
    "anti": "select event_time, k, n, s from a where not exists (select * from b where b.k = a.k and b.n > a.n)",
    "marked": "select event_time, k, n, exists (select * from b where b.k = a.k and b.n = a.n) as found from a",
    "two joins": f"{LEFT} join b on a.k = b.k join b c on c.k = a.k and c.n = a.n",
    "joined groups": "select a.event_time, a.k, a.n, m from a join (select k, max(n) m from b group by k) b on a.k = b.k",
    "grouped joins": "select max(a.event_time) event_time, b.s, sum(a.n) n from a join b on a.k = b.k group by b.s",
    "unions": f"{LEFT} join (select k, n, s from b union all select k, n, s from a where n < 3) b on a.k = b.k",
    "last": f"select a.event_time, a.k, a.n, v.n as m, v.s from a{look_up('v')}",
    "last or none": f"select a.event_time, a.k, a.n, v.n as m, v.s from a{look_up('v', join='left join')}",
    "last before": f"select a.event_time, a.k, a.n, v.n as m from a{look_up('v', '<', order='v.event_time desc, v.n')}",
    "two look-ups": f"select a.event_time, a.k, v.n as m, w.s from a{look_up('v')}{look_up('w', '<', 'left join')}",
    "looked up and joined": f"select a.event_time, a.n, v.n as m, b.s from a{look_up('v')} join b on b.k = a.k and b.n = a.n",
    "within an hour": f"{LEFT} join b on a.k = b.k and b.event_time between a.event_time - interval 1 hour and a.event_time",
    "within an hour or none": (
        f"{LEFT} left join b on a.k = b.k and b.event_time between a.event_time - interval 1 hour and a.event_time + interval 1 hour"
    ),
}
"""By what they do."""


def derivative(
    query: str,
    inputs: list[Input],
    call: EngineCall,
    *,
    name: str = "derived",
    settings: Mapping[str, int] | None = None,
) -> Derivative:
    tables = [TemporalTable(name="b", primary_key=("k",))] if " lateral " in query else ()
    own = replace(call, plans=KeptPlans())
    return Derivative(query, inputs, own, name=name, temporal_tables=tables, settings=settings)


@pytest.fixture
def inputs(engine_call: EngineCall) -> list[Input]:
    return [Input(engine_call.exchange.root, alias, SCHEMA, number=number) for number, alias in enumerate("ab", 1)]


def change(one: Input, known: list[tuple[object, ...]], chance: Random) -> None:
    """A block of few keys: withdrawals and corrections, some twice or before rows."""
    block: list[tuple[object, ...]] = []
    for _ in range(chance.choice((0, 1, 4, 12))):
        row = chance.randrange(9) * HOUR // 2, chance.randrange(2), chance.randrange(4), chance.choice(("x", "y", None))
        kind = chance.random()
        if kind < 0.6 or not known:
            block += [(A, *row)] * chance.choice((1, 1, 1, 2))
            known.append(row)
            continue
        if kind < 0.7:
            block.append((R, *row))
            continue
        old = known.pop(chance.randrange(len(known)))
        if kind < 0.85:
            block.append((R, *old))
        else:
            block += [(CF, *old), (CT, *row)]
            known.append(row)
    watermark = chance.choice((None, *[chance.randrange(2, 10) * HOUR // 2] * 3))
    latest = max((step.watermark.epoch_ns // 10**6 for step in one.steps if step.watermark is not None), default=0)
    one.add(block, watermark=None if watermark is None else max(watermark, latest))


@pytest.mark.parametrize("name", QUERIES)
def test_what_is_looked_up_changes_nothing(
    name: str, inputs: list[Input], engine_call: EngineCall, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = Random(name)
    few, all_rows = (derivative(QUERIES[name], inputs, engine_call, name=each) for each in ("few", "all"))
    known: list[list[tuple[object, ...]]] = [[], []]
    given = 0
    for _ in range(9):
        for one, rows in zip(inputs, known, strict=True):
            change(one, rows, chance)
        found = []
        for derived, least in ((few, 0), (all_rows, 1 << 40)):
            monkeypatch.setattr(partial_read, "LEFT_OUT_MIN", least)
            monkeypatch.setattr(old_rows, "LEFT_OUT_EACH", least)
            found.append(derived.pull())
        assert [list(map(exact, one.records)) for one in found[:1]] == [
            list(map(exact, one.records)) for one in found[1:]
        ]
        assert found[0].result == found[1].result
        given += len(found[0].records)
    assert given > 0
    whole = derivative(QUERIES[name], inputs, engine_call, name="whole").pull()
    assert net_rows([row for one in few.transactions for row in one.records]) == net_rows(whole.records)


@pytest.mark.parametrize("name", ["inner", "last or none"])
def test_tasks_look_up_the_same(
    name: str, inputs: list[Input], engine_call: EngineCall, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partial_read, "LEFT_OUT_MIN", 0)
    monkeypatch.setattr(old_rows, "LEFT_OUT_EACH", 0)
    chance = Random(f"{name} by tasks")
    here = derivative(QUERIES[name], inputs, engine_call, name="here")
    there = derivative(QUERIES[name], inputs, engine_call, name="there", settings=BY_TASKS)
    narrow: list[int] = []
    extracted = StageTasks.extracted

    def noting(self: StageTasks, scans: Sequence[TouchedScan]) -> Extracted:
        narrow.extend(scan.narrow[0].size for scan in scans)
        return extracted(self, scans)

    monkeypatch.setattr(StageTasks, "extracted", noting)
    known: list[list[tuple[object, ...]]] = [[], []]
    for _ in range(9):
        for one, rows in zip(inputs, known, strict=True):
            change(one, rows, chance)
        one, other = here.pull(), there.pull()
        assert other.slice_path.read_bytes() == one.slice_path.read_bytes()
        assert other.checkpoint_path.read_bytes() == one.checkpoint_path.read_bytes()
    assert any(narrow)


@pytest.mark.parametrize(
    ("name", "expected"),
    {
        "inner": (1, 2),
        "left": (1, 2),
        "semi": (1, 2),
        "anti": (1, 2),
        "two joins": (1, 2, 2),
        "joined groups": (1, 1),
        "last": (1, 2),
        "last or none": (1, 2),
        "within an hour": (1, 2),
        "full": (MANY + 1, 2),
    }.items(),
)
def test_of_a_long_key_a_new_row_binds_what_it_meets(
    name: str,
    expected: tuple[int, ...],
    inputs: list[Input],
    bound: list[tuple[int, ...]],
    engine_call: EngineCall,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(partial_read, "LEFT_OUT_MIN", 10)
    a, b = inputs
    a.add([(A, HOUR + at, KEY, at, "x") for at in range(MANY)], watermark=10 * HOUR)
    b.add([(A, HOUR * at, KEY, 1000, "v") for at in range(2)], watermark=10 * HOUR)
    derived = derivative(QUERIES[name], inputs, engine_call)
    derived.pull()
    bound.clear()
    a.add([(A, HOUR, KEY, 5000, "x")])
    derived.pull()
    assert bound == [expected]


def test_a_new_version_binds_rows_that_are_not_earlier(
    inputs: list[Input], bound: list[tuple[int, ...]], engine_call: EngineCall, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partial_read, "LEFT_OUT_MIN", 10)
    a, b = inputs
    a.add([(A, HOUR + at, KEY, at, "x") for at in range(MANY)], watermark=10 * HOUR)
    b.add([(A, HOUR * at, KEY, at, "v") for at in range(2)], watermark=HOUR + MANY - 5)
    derived = derivative(QUERIES["last"], inputs, engine_call)
    derived.pull()
    bound.clear()
    b.add([(A, HOUR + MANY - 20, KEY, 7, "w")], watermark=HOUR + MANY - 5)
    derived.pull()
    b.add([], watermark=10 * HOUR)
    records = derived.pull().records
    b.add([(A, HOUR + MANY - 10, KEY, 8, "w")], watermark=10 * HOUR)
    a.add([(A, HOUR, KEY, 9, "y"), (R, HOUR + 1, KEY, 1, "x")])
    records += derived.pull().records
    assert bound == [(20, 3), (4, 3), (10 + 2, 4)]
    assert sorted(row[0] for row in records) == [A] * (4 + 10 + 1) + [R] * (10 + 1)


def test_unmatched_retractions_of_a_long_key_are_logged(
    inputs: list[Input], engine_call: EngineCall, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(partial_read, "LEFT_OUT_MIN", 10)
    a, b = inputs
    a.add([(A, HOUR + at, KEY, at, "x") for at in range(MANY)])
    b.add([(A, HOUR, KEY, 0, "v")])
    derived = derivative(QUERIES["inner"], inputs, engine_call)
    derived.pull()
    a.add([(R, HOUR, KEY, 17, "x"), (R, HOUR, KEY, 0, "x")])
    with caplog.at_level(logging.WARNING):
        records = derived.pull().records
    assert [row[0] for row in records] == [R]
    assert [each.getMessage().split(" (")[0] for each in caplog.records] == [
        "1 retractions of a came before their inserts"
    ]
    a.add([(A, HOUR, KEY, 17, "x"), (A, HOUR, KEY, 17, "x")])
    assert [row[0] for row in derived.pull().records] == [A]


@pytest.mark.parametrize("moves", [True, False])
def test_parts_without_new_rows_look_up_what_closes_or_meets_a_version(
    moves: bool, inputs: list[Input], engine_call: EngineCall, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partial_read, "LEFT_OUT_MIN", 10)
    settings = {"stage_rows_each": 10, "cores": 4}
    a, b = inputs
    a.add([(A, HOUR + at, key, at, "x") for at in range(100) for key in range(8)], watermark=HOUR + 50)
    b.add([(A, HOUR * at, key, at, "v") for at in range(2) for key in range(8)], watermark=HOUR + 50)
    derived = derivative(QUERIES["last"], inputs, engine_call, settings=settings)
    given = len(derived.pull().records)
    if moves:
        a.add([], watermark=10 * HOUR)
        b.add([], watermark=10 * HOUR)
        assert given + len(derived.pull().records) == 100 * 8
    else:
        b.add([(A, HOUR + 25, key, 7, "w") for key in range(8)], watermark=HOUR + 50)
        assert len(derived.pull().records) == 2 * 8 * 26
