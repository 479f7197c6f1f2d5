"""A condition, even null, guards a row from failing expressions, as in Spark."""

from __future__ import annotations

import pyarrow as pa
import pytest

from odfabric.errors import InvalidData
from odfabric_engine_spark.spark.calls.call import EngineCall
from tests.services.engine.transforming import A, Derivative, Input, R, input_schema

pytestmark = pytest.mark.spark

SCHEMA = input_schema(pa.field("k", pa.int32()), pa.field("kind", pa.string()), pa.field("s", pa.string()))
FIRST = [(A, 0, 1, "num", "7"), (A, 0, 2, "txt", "abc"), (A, 0, 3, None, "abc")]

GUARDED = {
    "compared": "select event_time, k from a where kind = 'num' and cast(s as int) > 5",
    "by an implicit cast": "select event_time, k from a where kind = 'num' and s > 5",
    "one of several": "select event_time, k from a where kind in ('num', 'digits') and cast(s as int) > 5",
    "a pattern": "select event_time, k from a where kind like 'nu%' and cast(s as int) > 5",
    "not another": "select event_time, k from a where kind <> 'txt' and cast(s as int) > 5",
    "negated": "select event_time, k from a where not (kind <> 'num' or cast(s as int) <= 5)",
    "either": "select event_time, k from a where (kind = 'num' or kind = 'digits') and cast(s as int) > 5",
    "cast below": "select event_time, k from (select event_time, k, kind, cast(s as int) x from a) where kind = 'num' and x > 5",
    "in a result": "select event_time, k from (select *, cast(s as int) x from a where kind = 'num') where x > 5",
    "grouped": "select max(event_time) event_time, k from a where kind = 'num' and cast(s as int) > 5 group by k",
    "ranked": "select event_time, k from (select *, rank() over (order by k) r from a where kind = 'num' and cast(s as int) > 5)",
    "joined": "select a.event_time, a.k from a join b on a.k = b.k where a.kind = 'num' and cast(a.s as int) > 5",
    "lateral": "select a.event_time, a.k from a, lateral (select cast(a.s as int) x) l where a.kind = 'num' and l.x > 5",
}


@pytest.mark.parametrize("name", GUARDED)
def test_a_guard_that_is_null_guards(engine_call: EngineCall, name: str) -> None:
    root = engine_call.exchange.root
    a, b = Input(root, "a", SCHEMA, 1).add(FIRST), Input(root, "b", SCHEMA, 2).add([(A, 0, 1, None, None)])
    out = Derivative(GUARDED[name], [a, b] if "join b" in GUARDED[name] else [a], engine_call)
    assert [record[0:1] + record[2:] for record in out.pull().records] == [(A, 1)]
    a.add([(A, 0, 4, None, "zz"), (R, 0, 1, "num", "7")])
    assert [record[0:1] + record[2:] for record in out.pull().records] == [(R, 1)]


def test_what_no_guard_keeps_away_still_fails(engine_call: EngineCall) -> None:
    a = Input(engine_call.exchange.root, "a", SCHEMA, 1).add(FIRST)
    out = Derivative("select event_time, k from a where cast(s as int) > 5 and kind = 'num'", [a], engine_call)
    with pytest.raises(InvalidData, match=r"'abc' .* in row \(k = [23]|'abc'"):
        out.pull()


def test_a_list_of_distinct_numbers_in_their_order(engine_call: EngineCall) -> None:
    a = Input(engine_call.exchange.root, "a", SCHEMA, 1).add([*FIRST, (A, 0, 2, "num", None)])
    query = "select max(event_time) event_time, listagg(distinct k, ',') within group (order by k desc) l from a"
    out = Derivative(query, [a], engine_call)
    assert [record[2] for record in out.pull().records] == ["3,2,1"]


def test_a_pattern_that_goes_too_deep_names_its_row(engine_call: EngineCall) -> None:
    deep = [(A, 0, 1, "num", "ab"), (A, 0, 2, "num", "ab" * 60_000)]
    a = Input(engine_call.exchange.root, "a", SCHEMA, 1).add(deep)
    with pytest.raises(InvalidData, match=r"too deep .*k = 2"):
        Derivative("select event_time, k from a where s rlike '^(a|b)*$'", [a], engine_call).pull()
    good = Derivative("select event_time, k from a where s rlike '^[ab]*$'", [a], engine_call)
    assert [record[2] for record in good.pull().records] == [1, 2]
