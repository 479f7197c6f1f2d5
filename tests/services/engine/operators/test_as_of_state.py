"""Of keys with many versions only those are looked up that rows can take.

What is given is the same.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from odfabric.model.metadata import TemporalTable
from odfabric_engine_spark.operators.temporal_join.as_of_state import AskedVersions
from odfabric_engine_spark.operators.touched_keys import old_rows, partial_read
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.calls.plan_cache import KeptPlans
from odfabric_engine_spark.state.row_state import RowState
from tests.services.engine.laws.law_check import exact, net_rows
from tests.services.engine.operators.test_old_rows import KEY, MANY, QUERIES, SCHEMA, change, derivative, look_up
from tests.services.engine.transforming import CF, CT, HOUR, A, Derivative, Input, R

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("interpreted")]

BY_TWO = "v.k = a.k and v.s = a.s"
FEW = {
    "by two keys": f"select a.event_time, a.k, a.n, v.n as m from a{look_up('v')}".replace("v.k = a.k", BY_TWO),
    "by a computed key": f"select a.event_time, a.k, a.n, v.n as m from (select event_time, k % 2 as k, n from a) a{look_up('v')}",
    "of a union": "select a.event_time, a.k, v.n from (select event_time, k, n from a union all select event_time, k + 1, n from a) a"
    + look_up("v"),
    "of chosen rows": f"select a.event_time, a.n, v.s from (select * from a where n > 0) a{look_up('v')}",
    "by more keys than others": f"select a.event_time, a.k, v.n as m from a{look_up('v')} join a c on c.k = a.k".replace(
        "v.k = a.k", BY_TWO
    ),
    "then summed": f"select max(a.event_time) event_time, v.s, sum(v.n) m from a{look_up('v')} group by v.s",
}
ALL = {
    "by a key of another type": f"select a.event_time, a.n, v.s from (select event_time, cast(k as bigint) k, n from a) a{look_up('v')}",
    "of some versions": f"select a.event_time, a.k, a.n, v.n as m from a{look_up('v')}".replace(
        "v.k = a.k", "v.k = a.k and v.n > 0"
    ),
}


def of(query: str, inputs: list[Input], call: EngineCall, name: str) -> Derivative:
    keys = ("k", "s") if BY_TWO in query else ("k",)
    own = replace(call, plans=KeptPlans())
    return Derivative(query, inputs, own, name=name, temporal_tables=[TemporalTable(name="b", primary_key=keys)])


@pytest.fixture
def inputs(engine_call: EngineCall) -> list[Input]:
    return [Input(engine_call.exchange.root, alias, SCHEMA, number=number) for number, alias in enumerate("ab", 1)]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int, int]]:
    """Look-ups of few versions: keys read whole, keys read in part, versions."""
    found: list[tuple[int, int, int]] = []
    plain = AskedVersions.bound

    def noting(self: AskedVersions, state: RowState, *rest: Any, **more: Any) -> Any:
        made = plain(self, state, *rest, **more)
        found.append((len(self.whole), len(self.narrow), len(made)))
        return made

    monkeypatch.setattr(AskedVersions, "bound", noting)
    return found


def _pulled_alike(
    query: str, inputs: list[Input], call: EngineCall, monkeypatch: pytest.MonkeyPatch, chance: Random, blocks: int = 8
) -> None:
    few, all_rows = (of(query, inputs, call, each) for each in ("few", "all"))
    known: list[list[tuple[object, ...]]] = [[], []]
    for _ in range(blocks):
        for one, rows in zip(inputs, known, strict=True):
            change(one, rows, chance)
        found = []
        for derived, least in ((few, -(1 << 40)), (all_rows, 1 << 40)):
            monkeypatch.setattr(partial_read, "LEFT_OUT_MIN", least)
            monkeypatch.setattr(old_rows, "LEFT_OUT_EACH", max(least, 0))
            found.append(derived.pull())
        assert list(map(exact, found[0].records)) == list(map(exact, found[1].records))
    whole = of(query, inputs, call, "whole").pull()
    assert net_rows([row for one in few.transactions for row in one.records]) == net_rows(whole.records)


@pytest.mark.parametrize("name", [*FEW, *ALL])
def test_few_versions_give_what_all_give(
    name: str,
    inputs: list[Input],
    engine_call: EngineCall,
    monkeypatch: pytest.MonkeyPatch,
    asked: list[tuple[int, int, int]],
) -> None:
    _pulled_alike({**FEW, **ALL}[name], inputs, engine_call, monkeypatch, Random(name))
    assert any(narrow for _, narrow, _ in asked) == (name in FEW)


@pytest.mark.usefixtures("colliding")
def test_keys_that_share_a_hash_are_looked_up_whole(
    inputs: list[Input], engine_call: EngineCall, monkeypatch: pytest.MonkeyPatch, asked: list[tuple[int, int, int]]
) -> None:
    _pulled_alike(FEW["by two keys"], inputs, engine_call, monkeypatch, Random(3))
    assert any(narrow for _, narrow, _ in asked)


def test_of_many_versions_rows_bind_those_that_they_take(
    inputs: list[Input], bound: list[tuple[int, ...]], engine_call: EngineCall, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partial_read, "LEFT_OUT_MIN", 10)
    a, b = inputs
    b.add([(A, HOUR + 10 * at, KEY, at, "v") for at in range(MANY)], watermark=10 * HOUR)
    a.add([(A, HOUR + 1000, KEY, 1, "x")], watermark=10 * HOUR)
    derived = derivative(QUERIES["last"], inputs, engine_call)
    assert [row[-2] for row in derived.pull().records] == [100]
    bound.clear()
    # A row after all versions, one at the very time of one, one before all of them; two take the same.
    new = [(HOUR * 2, 299), (HOUR + 500, 50), (HOUR - 1, None), (HOUR + 703, 70), (HOUR + 707, 70)]
    a.add([(A, time, KEY, 1, "x") for time, _ in new])
    assert sorted(row[-2] for row in derived.pull().records) == [50, 70, 70, 299]
    # A version that comes and one that goes late: of all that is looked up it is the rows and versions since the first of them.
    b.add([(A, HOUR + 10 * 280 + 5, KEY, 1000, "w"), (R, HOUR + 10 * 290, KEY, 290, "v")])
    assert derived.pull().records == []
    # A correction of the last one.
    b.add([(CF, HOUR + 10 * 299, KEY, 299, "v"), (CT, HOUR + 10 * 299, KEY, 299, "w")])
    assert [row[0] for row in derived.pull().records] == [CF, CT]
    assert bound == [(5, 1 + 2 + 1), (1, 20 + 1), (1, 2 + 1)]
