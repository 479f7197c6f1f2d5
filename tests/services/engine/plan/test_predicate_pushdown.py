"""Conditions guard failing expressions below aggregates, joins, windows.

Wherever plain Spark lets them.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odfabric.errors import InvalidData, InvalidQuery
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.frames.spark_types import spark_schema
from odfabric_engine_spark.sql import gate
from tests.services.engine.laws.law_check import Row, net_rows
from tests.services.engine.transforming import HOUR, A, Derivative, Input, R, input_schema

pytestmark = pytest.mark.spark

TEXT = "select max(event_time) event_time, s, sum(cast(s as int)) n from a group by s having s rlike '^[0-9]+$'"
RATIO = """select max(event_time) event_time, k, sum(length(s)) t, 6 div sum(length(s)) d from a
    group by k having sum(length(s)) > 0"""
GUARDED = {
    "having a key": TEXT,
    "above a keyed subquery": f"select event_time, n from ({TEXT.split(' having')[0]}) where s rlike '^[0-9]+$'",
    "above distinct": "select event_time, cast(s as int) n from (select distinct event_time, s from a) where s rlike '^[0-9]'",
    "below two aggregates": """select max(event_time) event_time, n, count(*) c from (
        select max(event_time) event_time, s, max(cast(s as int)) n from a group by s) where s rlike '^[0-9]' group by n""",
    "above a join, of a computed side": """select q.event_time, q.k, q.n from (
        select k, s, max(event_time) event_time, sum(cast(s as int)) n from a group by k, s) q
        join b on q.k = b.k where q.s rlike '^[0-9]'""",
    "in the condition of a join": """select q.event_time, q.k, q.n from b join (
        select k, s, max(event_time) event_time, sum(cast(s as int)) n from a group by k, s) q
        on q.k = b.k and q.s rlike '^[0-9]'""",
    "of a side that an outer join may leave out": """select b.event_time, q.k, q.n from b left join (
        select k, s, sum(cast(s as int)) n from a group by k, s) q on q.k = b.k where q.s rlike '^[0-9]'""",
    "of the partition of a window": """select event_time, s, v from (
        select event_time, s, sum(cast(s as int)) over (partition by s order by event_time, k) v from a) where s rlike '^[0-9]'""",
    "above a union": """select event_time, n from (
        select max(event_time) event_time, s, sum(cast(s as int)) n from a group by s
        union all select max(event_time), s, sum(cast(s as int)) from b group by s) where s rlike '^[0-9]'""",
    "of a window that closes": """select window.start event_time, s, sum(cast(s as int)) n from a
        group by window(event_time, '1 hour'), s having s rlike '^[0-9]'""",
    "having a function": RATIO,
    "having a result by name": "select max(event_time) event_time, k, sum(length(s)) t, 6 div sum(length(s)) n from a group by k having t > 0",
    "having a function of all rows": f"select event_time, k, 12 div d n from ({RATIO.replace('6 div ', '')}) where d <> 0",
    "having a function that needs rows": RATIO.replace("sum(length(s))", "count(distinct nullif(s, ''))"),
    "having below a join": f"select b.event_time, b.k, q.d from b join ({RATIO}) q on q.k = b.k",
    "in the condition of a join, of a function": f"""select b.event_time, b.k, q.d from b
        join ({RATIO.split(" having")[0]}) q on q.k = b.k and q.t > 0""",
    "having below an aggregate": f"select max(event_time) event_time, d, count(*) n from ({RATIO}) group by d",
    "having of a rollup": RATIO.replace("group by k", "group by rollup(k)"),
    "having above a union": f"select event_time, d from ({RATIO.split(' having')[0]} union all {RATIO.split(' having')[0]}) where t > 0",
    "having of a window that closes": """select window.start event_time, k, 6 div sum(length(s)) d from a
        group by window(event_time, '1 hour'), k having sum(length(s)) > 0""",
    "a share of what a window gives": """select event_time, k, s, d from (select event_time, k, s, 6 div sum(length(s)) over (partition by k) d,
        sum(length(s)) over (partition by k) t from a) where t > 0""",
}
KEYS = (pa.field("k", pa.int32()), pa.field("s", pa.string()))
BEFORE = {"a": [(A, 0, 1, "7"), (A, 5, 1, "7"), (A, 9, 2, "x"), (A, 9, 3, "")], "b": [(A, 3, 1, "1"), (A, 4, 2, "y")]}
AFTER = {"a": [(R, 5, 1, "7"), (A, HOUR, 2, "8"), (A, HOUR, 1, "z")], "b": [(A, HOUR, 2, "z"), (R, 3, 1, "1")]}


def plain(call: EngineCall, query: str, inputs: list[Input]) -> Counter[Any]:
    """What plain Spark says of the net input."""
    spark = call.session.newSession()
    for one in inputs:
        net = net_rows([(row[1], *row[3:]) for row in one.rows])
        schema = pa.schema(list(one.schema)[3:])
        rows = [dict(zip(schema.names, row, strict=True)) for row in net.elements()]
        # From a file: of rows in the plan itself Spark computes what it can before it moves conditions.
        path = one.folder / f"{one.alias}-net.parquet"
        pq.write_table(pa.Table.from_pylist(rows, schema), path)
        spark.read.schema(spark_schema(schema)).parquet(str(path)).createOrReplaceTempView(one.alias)
    found = spark.sql(query).toArrow()
    return Counter(zip(*(column.to_pylist() for column in found.columns), strict=True))


@pytest.mark.parametrize("planned", ["0b", "1m"], ids=["rows beside the plan", "rows in the plan"])
@pytest.mark.parametrize("query", GUARDED.values(), ids=GUARDED.keys())
def test_what_a_condition_keeps_away_is_not_computed(
    query: str, planned: str, engine_call: EngineCall, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(gate.GATE_CONF, "spark.sql.execution.arrow.localRelationThreshold", planned)
    inputs = [Input(tmp_path, alias, input_schema(*KEYS), number) for number, alias in enumerate("ab", 1)]
    derived = Derivative(query, [one for one in inputs if re.search(rf"\b{one.alias}\b", query)], engine_call)
    records: list[Row] = []
    for rows in (BEFORE, AFTER):
        for one in inputs:
            one.add(rows[one.alias], watermark=10 * HOUR)
        records += derived.pull().records
        net = net_rows(records)
        assert net == plain(engine_call, query, inputs)
        assert net, "rows that pass"


def test_what_no_condition_keeps_away_fails(engine_call: EngineCall, tmp_path: Path) -> None:
    one = Input(tmp_path, "a", input_schema(*KEYS)).add(BEFORE["a"])
    derived = Derivative(TEXT.replace("having s rlike '^[0-9]+$'", "having sum(k) > 0"), [one], engine_call)
    with pytest.raises(InvalidData):
        derived.pull()


CLOCKS = {
    "cast": "select q.event_time, q.k from (select event_time, k, 'now' x from a) q where q.event_time < cast(q.x as timestamp)",
    "compared": "select q.event_time, q.k from (select event_time, k, 'now' x from a) q where q.event_time < q.x",
    "in pieces": "with q as (select *, 'to' x, 'day' y from a) select event_time, k from q where cast(x || y as date) > date'2020-01-01'",
    "beside a join": """select q.event_time, q.k from (select event_time, k, 'now' x from a) q join b on q.k = b.k
        where q.event_time < q.x""",
    "below a group": """select max(event_time) event_time, k, count(*) n from (select event_time, k, 'now' x from a) q
        where event_time < x group by k""",
    "within exists": """select event_time, k from b where exists (
        select 1 from (select k, event_time t, 'now' x from a) q where q.k = b.k and q.t < q.x)""",
    "of a part of a union": """select event_time, k from (select event_time, k, 'x' x from a
        union all select event_time, k, 'now' from b) where event_time < x""",
}


@pytest.mark.parametrize("query", CLOCKS.values(), ids=CLOCKS.keys())
def test_a_constant_from_below_does_not_become_the_time_of_the_run(
    query: str, engine_call: EngineCall, tmp_path: Path
) -> None:
    inputs = [Input(tmp_path, alias, input_schema(*KEYS), number).add([]) for number, alias in enumerate("ab", 1)]
    derived = Derivative(query, [one for one in inputs if re.search(rf"\b{one.alias}\b", query)], engine_call)
    with pytest.raises(InvalidQuery, match="special-time"):
        derived.pull()
