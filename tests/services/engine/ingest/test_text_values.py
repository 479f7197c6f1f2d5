"""RFC 3339 in texts on Spark, held to Python."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from odfabric.formats.files.time_formats import timestamp_format
from odfabric_engine_spark.ingest.values.spark_times import spark_timestamp
from odfabric_engine_spark.spark.calls.call import EngineCall
from tests.unit.engine_spark.ingest.test_text_values import time_texts

pytestmark = pytest.mark.spark


def test_spark_reads_times_as_python_does(engine_call: EngineCall) -> None:
    texts = time_texts()
    frame = engine_call.session.createDataFrame(pa.table({"t": texts}))
    found = frame.select(F.unix_millis(spark_timestamp(F.col("t")))).toArrow().column(0).to_pylist()
    assert dict(zip(texts, found, strict=True)) == {text: timestamp_format(None).millis(text) for text in texts}
    assert sum(millis is not None for millis in found) > 20
