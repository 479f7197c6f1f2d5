"""Projections in one call equal PySpark's, whatever signs names have."""

from __future__ import annotations

import pyarrow as pa
import pytest

from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.frames.exact_filters import with_exact_filters
from odfabric_engine_spark.spark.frames.select_columns import quoted, selected

pytestmark = pytest.mark.spark

NAMES = ["a", "a.b", "a`b", "\u0001", "x\u0001\u0002", "\u0002", " ", "'", '"', "é,", "select"]


def test_columns_of_any_names(engine_call: EngineCall) -> None:
    table = pa.table({name: [at, None] for at, name in enumerate(NAMES)})
    frame = engine_call.session.createDataFrame(table)
    found = selected(frame, [quoted(name) for name in reversed(NAMES)])
    assert found.columns == NAMES[::-1]
    assert found.toArrow().to_pylist() == table.select(NAMES[::-1]).to_pylist()


def test_floats_pass_exact_filters_as_they_are(engine_call: EngineCall) -> None:
    table = pa.table({"a.b": [1.5, None, float("inf")], "n": [1, 2, 3], "f": pa.array([0.5, -0.0, None], pa.float32())})
    frame = engine_call.session.createDataFrame(table)
    found = with_exact_filters(frame)
    assert found.schema == frame.schema
    assert found.toArrow().to_pylist() == table.to_pylist()
