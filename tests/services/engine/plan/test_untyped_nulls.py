"""An untyped NULL column in a set operation matches, as SQL says.

Spark 4.3 matches none of its nulls, which is the reported difference.
"""

from __future__ import annotations

import pyarrow as pa
import pytest

from odfabric_engine_spark.spark.calls.call import EngineCall
from tests.services.engine.plain_spark import plain_rows
from tests.services.engine.transforming import A, Derivative, Input, input_schema

pytestmark = pytest.mark.spark

SCHEMA = input_schema(pa.field("k", pa.int32()), pa.field("n", pa.int32()))
ROWS = [(0, None, 2), (0, None, 3), (0, 1, 1)]


@pytest.mark.parametrize(("operation", "left"), [("except", [1]), ("intersect", [None])])
def test_nulls_match_in_set_operations(engine_call: EngineCall, operation: str, left: list[int | None]) -> None:
    branch = "select event_time, k, {} v from a"
    query = "select event_time, k, cast(v as string) c from ({} {} {} where n > 1)"
    untyped, typed = (
        query.format(branch.format(null), operation, branch.format(null)) for null in ("null", "cast(null as int)")
    )
    source = Input(engine_call.exchange.root, "a", SCHEMA).add([(A, *row) for row in ROWS])
    found = Derivative(untyped, [source], engine_call).pull()
    assert found.table["k"].to_pylist() == left
    assert sorted(row[1] or 0 for row in plain_rows(typed, SCHEMA, ROWS, engine_call)) == [each or 0 for each in left]
