"""Conditions keep rows away from expressions that fail on them, wherever plain Spark lets them: below aggregates, joins and windows."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odfabric.errors import InvalidData
from odfabric_engine_spark.call import EngineCall
from odfabric_engine_spark.spark_types import spark_schema
from tests.services.engine.law_check import Row, net_rows
from tests.services.engine.transforming import HOUR, A, Derivative, Input, R, input_schema

pytestmark = pytest.mark.spark

TEXT = "select max(event_time) event_time, s, sum(cast(s as int)) n from a group by s having s rlike '^[0-9]+$'"
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


@pytest.mark.parametrize("query", GUARDED.values(), ids=GUARDED.keys())
def test_what_a_condition_keeps_away_is_not_computed(query: str, engine_call: EngineCall, tmp_path: Path) -> None:
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
