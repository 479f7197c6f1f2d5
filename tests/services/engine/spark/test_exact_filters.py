"""Filters over Parquet floats whose statistics and dictionaries contradict SQL."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame

from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.frames.exact_filters import with_exact_filters

pytestmark = pytest.mark.spark

VALUES = [1.0, float("nan"), -0.0, -0.0, None]
CONDITIONS = {
    "v > 5.0D": 1,
    "v >= cast('NaN' AS double)": 1,
    "v = 0.0D": 2,
    "v IN (0.0D, 100.0D)": 2,
    "v <=> 0.0D": 2,
    "v < 0.5D": 2,
    "f = 0.0F": 2,
    "f > 5.0F": 1,
    "m.v = 0.0D": 2,
    "m.v > 5.0D": 1,
    "v IS NULL": 1,
    "v IS NOT NULL AND id > 0": 3,
}
"""How many of the rows SQL finds."""


@pytest.fixture
def stored(engine_call: EngineCall, tmp_path: Path) -> DataFrame:
    table = pa.table(
        {
            "id": pa.array(range(len(VALUES)), pa.int64()),
            "v": pa.array(VALUES, pa.float64()),
            "f": pa.array(VALUES, pa.float32()),
            "m": pa.array([{"v": value} for value in VALUES], pa.struct([pa.field("v", pa.float64())])),
        }
    )
    pq.write_table(table, tmp_path / "file")
    return with_exact_filters(engine_call.session.read.parquet(str(tmp_path / "file")))


@pytest.mark.parametrize("condition", CONDITIONS)
def test_filters_find_what_sql_finds(stored: DataFrame, condition: str) -> None:
    assert stored.filter(condition).count() == CONDITIONS[condition]


def test_values_stay_what_they_are(stored: DataFrame) -> None:
    assert [str(row.v) for row in stored.orderBy("id").collect()] == [str(value) for value in VALUES]


def test_other_columns_still_leave_out_row_groups(stored: DataFrame) -> None:
    plan = stored.filter("id > 100 AND v > 1.0D")._jdf.queryExecution().executedPlan().toString()
    assert "GreaterThan(id,100)" in plan
    assert "GreaterThan(v" not in plan
