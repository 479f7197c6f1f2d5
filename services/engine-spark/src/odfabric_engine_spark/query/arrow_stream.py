"""A result of Spark as a stream of Arrow batches.

Owns taking batches as they come instead of collecting them first. Invariant: rows keep the order of the result, and whoever
stops early leaves no job running. Not here: which queries run (`run`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

import pyarrow as pa
from pyspark.errors.exceptions.captured import unwrap_spark_exception
from pyspark.serializers import UTF8Deserializer, read_int
from pyspark.sql import DataFrame
from pyspark.sql.pandas.serializers import ArrowStreamSerializer
from pyspark.util import _load_from_socket

_FAILED = -1


def batches_of(frame: DataFrame) -> Iterator[pa.RecordBatch]:
    """The batches of a result in one partition, such as that of a LIMIT. What Spark raises passes through."""
    port, secret, server = frame._jdf.collectAsArrowToPython()
    finished = False
    try:
        with _load_from_socket((port, secret), _AsTheyCome()) as batches:
            yield from batches
        finished = True
    finally:
        if not finished:
            frame.sparkSession.sparkContext.cancelJobGroup(_job_group(frame))
        with unwrap_spark_exception():
            server.getResult()


def _job_group(frame: DataFrame) -> str:
    group = frame.sparkSession.sparkContext.getLocalProperty("spark.jobGroup.id")
    return group or ""


class _AsTheyCome:
    """Reads batches, then the numbers that say in which order the JVM means them."""

    def load_stream(self, stream: IO[bytes]) -> Iterator[pa.RecordBatch]:
        """The batches of one partition."""
        yield from ArrowStreamSerializer().load_stream(stream)
        count = read_int(stream)
        if count == _FAILED:
            raise RuntimeError(UTF8Deserializer().loads(stream))
        order = [read_int(stream) for _ in range(count)]
        if order != sorted(order):
            raise ValueError("the result has more than one partition")
