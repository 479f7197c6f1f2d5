"""A subquery that stands for a value may find one row.

A second one is an error of the data, reported to the one row that reads it.
"""

from __future__ import annotations

import pyarrow as pa
import pytest

from odfabric.errors import InvalidData
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.session import SparkProcess, interpret, request_session
from tests.services.engine.plan.normalising import EPOCH, Queries, random_rows
from tests.services.engine.transforming import CF, CT, A, Derivative, Input, R, input_schema, run

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def queries(spark: SparkProcess) -> Queries:
    """Tables in which k, or z, distinguishes the rows of b and c where k is below 5."""
    session = request_session(spark.session)
    interpret(session)
    session.conf.set("spark.sql.shuffle.partitions", "1")
    session.conf.set("spark.sql.leafNodeDefaultParallelism", "1")
    b = [(1, "x", 4, 1), (2, "y", None, 2), (3, None, 7, 3), (5, "z", 8, 2), (5, "q", 8, 1)]
    c = [("x", 7), ("y", 8)]
    rows = {**random_rows(0), "b": [(EPOCH, *row) for row in b], "c": [(EPOCH, *row) for row in c]}
    return Queries(session, spark.settings, rows)


SAME = [
    "select k, (select w from b where b.k = a.k) w from a",
    "select k, v from a where (select w from b where b.k = a.k) > 3",
    "select k, v from a where (select w from b where b.k = a.k) is null",
    "select k, (select w from b where b.k = 1) w from a",
    "select k, (select w from b where b.k = 77) w from a",
    "select k, (select w + a.v from b where b.k = a.k and b.n = a.k) w from a",
    "select k, v from a where v > (select distinct w from b where k = 1)",
    "select sum((select w from b where b.k = a.k)) s from a",
    "select (select w from b where b.k = a.k) g, count(*) c from a group by (select w from b where b.k = a.k)",
    "select k, max(v) m from a group by k having max(v) > (select w from b where b.k = a.k)",
    "select a.k, c.x from a left join c on a.z = c.z and (select w from b where b.k = 1) > 3",
    "select k, (select named_struct('w', w, 'z', z) from b where b.k = a.k).z w from a",
    "select k, (select array(w) from b where b.k = a.k) w from a",
    "select k, (select w from b where b.k = a.k and b.w > a.v) w from a",
    "select k, (select w from b where b.k < a.k and b.k > a.k - 2) w from a",
    "select k, case when k < 5 then (select n from b where b.k = a.k) end w from a where k in (select k from b)",
    "select k, (select max(w) from b where b.k = a.k group by b.z) w from a",
    "select k, (select w from b where b.k = a.k union all select x from c where c.x = a.n) w from a",
    "select k, (select w from b where b.k = a.k order by w limit 2) w from a",
    "select k, (select d from (select -0.0d d, 1 k union all select 'nan' d, 2 k) i where i.k = a.k) w from a",
    "select k, (select count(*) from b where b.k = a.k) + (select w from b where b.k = a.k) w from a",
    "select q.k, q.w from a left join lateral (select b.k, (select x from c where c.z = b.z) w from b where b.k = a.k) q",
    "with t as (select k, (select w from b where b.k = a.k) w from a) select t.k, t.w, (select x from c where x = t.w) x from t",
    "select k from a where k not in (select k from b where k > (select x from c where z = 'y') or k = (select n from b where w = 4))",
]  # fmt: skip


@pytest.mark.parametrize("sql", SAME)
def test_a_value_is_what_plain_spark_finds(queries: Queries, sql: str) -> None:
    assert queries.rows_of(queries.normal(sql)) == queries.plain(sql)


ORDERS = input_schema(pa.field("k", pa.int32()), pa.field("v", pa.int64()))
NAMES = input_schema(pa.field("k", pa.int32()), pa.field("s", pa.string()))
FILTERED = "select event_time, k from a where (select s from b where b.k = a.k) = 'x'"
NAMED = "select event_time, k, (select s from b where b.k = a.k) s from a"
OF_ONE = "select event_time, k, (select s from b where k = 1) s from a"


@pytest.mark.parametrize("query", [NAMED, FILTERED])
def test_a_second_row_is_told_with_the_row_that_asked(engine_call: EngineCall, query: str) -> None:
    a, b = _inputs(engine_call)
    out = Derivative(query, [a, b], engine_call)
    out.pull()
    b.add([(A, 0, 1, "y")])
    with pytest.raises(InvalidData, match=r"more than one row in .*, for k = 1, in row .* of a \(correct") as caught:
        out.pull()
    assert caught.value.hint


@pytest.mark.parametrize("query", [NAMED, FILTERED])
def test_a_second_row_that_no_row_asks_for_is_none_of_its_business(engine_call: EngineCall, query: str) -> None:
    a, b = _inputs(engine_call)
    out = Derivative(query, [a, b], engine_call)
    out.pull()
    b.add([(A, 0, 7, "y"), (A, 0, 7, "z")])
    assert out.pull().records == []
    a.add([(A, 0, 7, 5)])
    with pytest.raises(InvalidData, match=r", for k = 7, in row .* of a \(correct"):
        out.pull()


def test_a_value_follows_corrections(engine_call: EngineCall) -> None:
    a, b = _inputs(engine_call)
    out = Derivative(NAMED, [a, b], engine_call)
    out.pull()
    b.add([(CF, 0, 1, "x"), (CT, 0, 1, "y"), (R, 0, 2, None), (A, 0, 2, "n")])
    assert [record[0:1] + record[2:] for record in out.pull().records] == [
        (CF, 1, "x"),
        (CT, 1, "y"),
        (CF, 2, None),
        (CT, 2, "n"),
    ]


def test_an_engine_goes_on_when_the_second_row_is_gone(engine_call: EngineCall) -> None:
    a, b = _inputs(engine_call)
    out = Derivative(OF_ONE, [a, b], engine_call)
    out.pull()
    b.add([(A, 0, 1, "y")])
    with pytest.raises(InvalidData, match="more than one row in"):
        run(out.request(), engine_call)
    b.add([(R, 0, 1, "x")])
    assert {record[3] for record in out.pull().records if record[0] in (A, CT)} == {"y"}


def _inputs(call: EngineCall) -> tuple[Input, Input]:
    root = call.exchange.root
    a = Input(root, "a", ORDERS, 1).add([(A, 0, 1, 10), (A, 0, 2, 20)])
    return a, Input(root, "b", NAMES, 2).add([(A, 0, 1, "x"), (A, 0, 2, None)])
