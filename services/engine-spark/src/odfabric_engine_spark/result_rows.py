"""The rows of a frame as Arrow batches in Python.

Owns the choice between memory and files: what Spark may collect comes at once, what is larger is written to scratch files and
read batch by batch. Invariant: rows keep the order of the frame, and no reader, however slow, holds up Spark. A stream from
Spark would: its scheduler's own thread writes it, and that thread serves every call. Not here: what is written from the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from odfabric_engine_spark.call import EngineCall
from odfabric_engine_spark.failures import spark_text

SCRATCH_OPTIONS = {"parquet.block.size": str(16 * 1024 * 1024)}
"""Spark's writer holds a row group in memory for each task, and does not count it."""

_TOO_LARGE = "spark.driver.maxResultSize"
"""What Spark names when a result is larger than may be collected."""


def batches_of(
    call: EngineCall, collected: Callable[[], DataFrame] | None, written: Callable[[], DataFrame]
) -> Iterator[pa.RecordBatch]:
    """The batches of `collected` if that fits into memory, otherwise of `written`: the same rows in the same order.

    They are functions because the two may need different plans. `collected` is None for what is known to be large. What
    Spark raises passes through.
    """
    if collected is not None:
        try:
            table = collected().toArrow()
        except (PySparkException, Py4JError) as error:
            if _TOO_LARGE not in spark_text(error):
                raise
        else:
            yield from table.to_batches()
            return
    yield from _through_files(call, written())


def _through_files(call: EngineCall, frame: DataFrame) -> Iterator[pa.RecordBatch]:
    folder = call.scratch / "result"
    call.progress("sort")
    frame.write.options(**SCRATCH_OPTIONS).mode("overwrite").parquet(str(folder))
    # Spark numbers the files by partition, and partitions are ranges of the order.
    for file in sorted(folder.glob("part-*.parquet")):
        with pq.ParquetFile(file, pre_buffer=False) as part:
            yield from part.iter_batches(call.settings.batch_rows)
