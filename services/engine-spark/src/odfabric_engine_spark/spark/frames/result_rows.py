"""The rows of a frame as Arrow batches in Python.

Owns the choice between memory and files: what Spark may collect comes at once, what is larger is written to scratch files and
read batch by batch. Invariant: rows keep the order of the frame, and no reader, however slow, holds up Spark. A stream from
Spark would: its scheduler's own thread writes it, and that thread serves every call. Not here: what is written from the rows.
"""

from __future__ import annotations

import logging
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import types as T

from odfabric.errors import InvalidData
from odfabric.formats.parquet.parquet_reading import batches_of as batches_of_file
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.catalyst.plan_nodes import rehomed
from odfabric_engine_spark.spark.failures import as_odf_error, spark_text
from odfabric_engine_spark.spark.frames.read_rows import column

_log = logging.getLogger(__name__)

SCRATCH_OPTIONS = {
    "parquet.block.size": str(16 * 1024 * 1024),
    "parquet.block.size.row.check.min": "4",
    "parquet.enable.dictionary": "false",
}
"""Spark's writer holds a row group in memory for each task, and does not count it; it looks at its size after so many rows.

Without dictionaries a footer says what rows take in memory: with them a thousand rows of one text of a megabyte seem to be small.
"""

_COMPUTES_EARLY = "org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation"
_KEPT_SETTINGS = (
    "spark.sql.autoBroadcastJoinThreshold",
    "spark.sql.defaultSizeInBytes",
    "spark.sql.shuffle.partitions",
)
"""How plans of stages are made."""
_TOO_LARGE = "spark.driver.maxResultSize"
"""What Spark names when a result is larger than may be collected."""


class ResultTooLarge(Exception):
    """A result larger than may be in memory, which Spark does not collect."""


def collected(frame: DataFrame) -> pa.Table:
    """The rows of a frame.

    Raises ResultTooLarge; what else Spark raises passes through.
    """
    try:
        return arrow_of(frame)
    except (PySparkException, Py4JError) as error:
        if _TOO_LARGE in spark_text(error):
            raise ResultTooLarge from error
        raise


def whole(call: EngineCall, frame: DataFrame) -> pa.Table:
    """A frame's rows, unordered, through files if too many. Spark's errors pass."""
    try:
        return collected(frame)
    except ResultTooLarge:
        return pa.Table.from_batches(_through_files(call, frame))


def arrow_of(frame: DataFrame) -> pa.Table:
    """A frame's rows; structs may be null though their members may not.

    PySpark alone does not get that across.

    Raises what Spark raises where the frame has no rows in either way of computing them.
    """
    try:
        return _arrow_of(frame)
    except (PySparkException, Py4JError) as error:
        if not isinstance(as_odf_error(error), InvalidData):
            raise
        _log.info("computed again as over tables: %s", type(error).__name__)
        try:
            return _arrow_of(_as_over_tables(frame))
        except (PySparkException, Py4JError) as again:
            if as_odf_error(again) is None:
                raise error from again  # compiled code gives less of what is wrong
            raise


def _arrow_of(frame: DataFrame) -> pa.Table:
    found = loosened(frame)
    # What fails while Spark plans fails here: in the thread that serves rows it would leave us waiting.
    found._jdf.queryExecution().executedPlan()
    return found.toArrow()


def _as_over_tables(frame: DataFrame) -> DataFrame:
    """The same plan, to be computed as over a table of files.

    Rows in hand are computed while Spark optimises, or by interpreted expressions, in which `a AND b` asks for `b` where `a` is null, and a
    column is made before a condition above it has left its row out. Over a table `b` is not asked then, so a condition guards
    what would fail.
    """
    session = frame.sparkSession.newSession()
    session.conf.set("spark.sql.optimizer.excludedRules", _COMPUTES_EARLY)
    for name in _KEPT_SETTINGS:
        session.conf.set(name, frame.sparkSession.conf.get(name))
    return rehomed(frame, session)


def loosened(frame: DataFrame) -> DataFrame:
    """The frame with nullable struct members, as PySpark needs to transfer rows."""
    known = {field.name: field.dataType for field in frame.schema.fields}
    loose = {name: _loose(data_type) for name, data_type in known.items()}
    if loose == known:
        return frame
    return frame.select(*(column(name).cast(loose[name]).alias(name) for name in known))


def batches_of(
    call: EngineCall, small: Callable[[], DataFrame] | None, written: Callable[[], DataFrame]
) -> Iterator[pa.RecordBatch]:
    """The batches of `small` if they fit into memory, else of `written`; same rows.

    They are functions because the two may need different plans. `small` is None for what is known to be large. What
    Spark raises passes through.
    """
    if small is not None:
        with suppress(ResultTooLarge):
            yield from collected(small()).to_batches()
            return
    yield from _through_files(call, written())


def _through_files(call: EngineCall, frame: DataFrame) -> Iterator[pa.RecordBatch]:
    # Another result may be written while this one is read.
    folder = call.scratch / f"result-{secrets.token_hex(8)}"
    call.progress("sort")
    try:
        frame.write.options(**SCRATCH_OPTIONS).parquet(str(folder))
        # Spark numbers the files by partition, and partitions are ranges of the order.
        for file in sorted(folder.glob("part-*.parquet")):
            with pq.ParquetFile(file, pre_buffer=False) as part:
                yield from batches_of_file(part, bytes_max=call.settings.batch_bytes)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _loose(data_type: T.DataType) -> T.DataType:
    """The type in which every member of a struct may be null."""
    match data_type:
        case T.StructType():
            return T.StructType([T.StructField(member.name, _loose(member.dataType)) for member in data_type.fields])
        case T.ArrayType():
            return T.ArrayType(_loose(data_type.elementType), data_type.containsNull)
        case T.MapType():
            return T.MapType(_loose(data_type.keyType), _loose(data_type.valueType), data_type.valueContainsNull)
        case _:
            return data_type
