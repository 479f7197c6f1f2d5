"""Rows of Arrow as relations of Spark: all of them, however they are divided."""

from __future__ import annotations

import pyarrow as pa
import pytest

from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.frames.local_rows import local_rows
from odfabric_engine_spark.spark.frames.result_rows import collected

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("sizes", [(0,), (2, 3), (0, 1, 2, 0, 3, 0)])
def test_an_empty_batch_ends_nothing(engine_call: EngineCall, sizes: tuple[int, ...]) -> None:
    schema = pa.schema([("a", pa.int64())])
    batches = [pa.record_batch([pa.array(range(size), pa.int64())], schema=schema) for size in sizes]
    rows = pa.Table.from_batches(batches, schema=schema)
    assert collected(local_rows(engine_call.session, rows)).column("a").to_pylist() == rows.column("a").to_pylist()
