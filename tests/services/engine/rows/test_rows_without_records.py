"""Queries over rows without their records: answered, or not run at all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odfabric.errors import InvalidQuery
from odfabric.model.engine import QueryInput, QueryRequest
from odfabric.model.table_function import Projection, TableCall
from odfabric_engine_spark.ingest.raw_query import run_query
from odfabric_engine_spark.spark.calls.call import EngineCall
from tests.services.engine.ingest.test_raw_query import as_query_input, query
from tests.services.engine.transforming import A, Input, R, input_schema

pytestmark = pytest.mark.spark

SCHEMA = input_schema(pa.field("k", pa.string()), pa.field("v", pa.float64()), pa.field("late", pa.string()))
CALL = TableCall("to_table", ("acc/data",))


@pytest.fixture
def tables(engine_call: EngineCall, tmp_path: Path) -> tuple[QueryInput, ...]:
    """`to_table('acc/data')` as rows, and the records that leave them as "acc/data"."""
    one = Input(tmp_path, "acc/data", SCHEMA)
    one.add([(A, 0, "x", 1.0, None), (A, 1, "y", float("nan"), None), (A, 2, "z", 3.0, None)])
    one.add([(R, 2, "z", 3.0, None)])
    columns = pa.schema([field for field in SCHEMA if field.name not in ("offset", "op", "system_time")])
    times = pa.array([0, 1], pa.int64()).cast(columns.field(0).type)
    found = pa.table([times, ["x", "y"], [1.0, float("nan")], [None, None]], schema=columns)
    pq.write_table(found, engine_call.exchange.root / "rows")
    records = as_query_input(one)
    projection = Projection(keys=("k",), rows_path="rows")
    return (records, replace(records, slices=(), call=CALL, projection=projection))


ANSWERED = [
    ("SELECT k, v, late FROM to_table('acc/data') ORDER BY k", 2),
    ("SELECT count(*) AS n FROM to_table('acc/data')", 1),
    ("SELECT k FROM to_table('acc/data') WHERE v > 2.0", 1),
    ("SELECT k FROM (SELECT * FROM to_table('acc/data'))", 2),
    ("SELECT * EXCEPT (offset, op, system_time) FROM to_table('acc/data')", 2),
    ("WITH w AS (SELECT * FROM to_table('acc/data')) SELECT a.k FROM w a JOIN w b ON a.k = b.k", 2),
    ("SELECT h.k, d.op FROM to_table('acc/data') h JOIN \"acc/data\" d ON h.k = d.k", 2),
    ("SELECT k FROM \"acc/data\" WHERE k NOT IN (SELECT k FROM to_table('acc/data'))", 2),
]
NOT_RUN = [
    "SELECT * FROM to_table('acc/data')",
    "SELECT k FROM to_table('acc/data') WHERE op = 0",
    "SELECT k FROM to_table('acc/data') ORDER BY offset",
    "SELECT count(system_time) AS n FROM to_table('acc/data')",
    "SELECT k FROM to_table('acc/data') NATURAL JOIN \"acc/data\"",
    "SELECT a FROM to_table('acc/data') AS t(a, b, c, d, e, f, g)",
    "SELECT k FROM \"acc/data\" WHERE v < (SELECT max(offset) FROM to_table('acc/data'))",
    "SELECT k FROM \"acc/data\" d WHERE EXISTS (SELECT 1 FROM to_table('acc/data') h WHERE h.offset = d.offset)",
    "SELECT k, row_number() OVER (PARTITION BY k ORDER BY offset) AS n FROM to_table('acc/data')",
    "WITH w AS (SELECT *, op + 1 AS r FROM to_table('acc/data')) SELECT a.k FROM w a JOIN w b ON a.r = b.r",
    "SELECT k FROM to_table('acc/data') WHERE (offset, k) IN (SELECT offset, k FROM \"acc/data\")",
    "SELECT DISTINCT struct(t.offset).offset AS o FROM to_table('acc/data') t",
]


def projected(tables: tuple[QueryInput, ...]) -> tuple[QueryInput, ...]:
    """The same tables, the rows of which are found from records."""
    records, rows = tables
    return (records, replace(rows, slices=records.slices, projection=Projection(keys=("k",))))


@pytest.mark.parametrize(("sql", "rows"), ANSWERED, ids=range(len(ANSWERED)))
def test_rows_suffice(engine_call: EngineCall, tables: tuple[QueryInput, ...], sql: str, rows: int) -> None:
    result, found = query(engine_call, tables, sql)
    _, expected = query(engine_call, projected(tables), sql)
    assert (result.wants_records, len(found)) == ((), rows)
    assert sorted(map(repr, found)) == sorted(map(repr, expected))


@pytest.mark.parametrize("sql", NOT_RUN, ids=range(len(NOT_RUN)))
def test_rows_do_not_suffice(engine_call: EngineCall, tables: tuple[QueryInput, ...], sql: str) -> None:
    limits: dict[str, Any] = {"skip": 0, "limit": 100, "bytes_max": 1 << 20, "wall_ms_max": 60_000}
    result = run_query(QueryRequest(sql=sql, inputs=tables, output_path="nothing", **limits), engine_call)
    assert (result.rows, result.wants_records) == (0, (1,))
    assert not (engine_call.exchange.root / "nothing").exists()


def test_what_is_wrong_is_said_in_the_same_way(engine_call: EngineCall, tables: tuple[QueryInput, ...]) -> None:
    problems = []
    for inputs in (tables, projected(tables)):
        with pytest.raises(InvalidQuery) as refused:
            query(engine_call, inputs, "SELECT k, nothing FROM to_table('acc/data')")
        problems.append(str(refused.value))
    assert problems[0] == problems[1]
    assert "__odf" not in problems[0]
