"""What plain Spark makes of rows."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.frames.spark_types import spark_schema


def plain_rows(
    query: str, schema: pa.Schema, rows: Sequence[tuple[Any, ...]], call: EngineCall
) -> list[tuple[Any, ...]]:
    """Rows of a query over the net rows of input `a`; `schema` is that of slices.

    Event times are in milliseconds.
    """
    own = pa.schema([pa.field("event_time", pa.timestamp("us", "UTC")), *list(schema)[4:]])
    columns = list(zip(*((dt.datetime.fromtimestamp(row[0] / 1000, dt.UTC), *row[1:]) for row in rows), strict=True))
    arrays = [pa.array(list(values), each.type) for values, each in zip(columns or [()] * len(own), own, strict=True)]
    session = call.session.newSession()
    frame = session.createDataFrame(pa.Table.from_arrays(arrays, schema=own))
    frame.to(spark_schema(own)).createTempView("a")
    found = session.sql(query).toArrow()
    return list(zip(*(column.to_pylist() for column in found.columns), strict=True))
