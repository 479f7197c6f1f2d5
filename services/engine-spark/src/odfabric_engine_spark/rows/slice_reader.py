"""Read data slices into Spark.

Owns how slice files of anybody's making become a frame under the schema of their dataset: columns are found by name, optional
ones that an older slice lacks are null, and any integer width of offset and op is accepted (docs/engine.md#types). Invariant: a damaged
slice is Corrupt with its name, never a wrong row: the coordinator has checked its hash, and its pages carry checksums.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from odfabric.errors import Corrupt
from odfabric.model.engine import SliceFile
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.frames.exact_filters import with_exact_filters
from odfabric_engine_spark.spark.frames.read_rows import column
from odfabric_engine_spark.spark.frames.spark_path import spark_path
from odfabric_engine_spark.spark.frames.spark_types import spark_schema

_UINT64_AS_READ = T.DecimalType(20, 0)


def read_slices(call: EngineCall, slices: Sequence[SliceFile], schema: pa.Schema) -> DataFrame:
    """All rows of the slices, unordered, with the columns of the dataset's `schema`.

    Raises Corrupt naming a file that is not a slice of this schema.
    """
    groups: dict[tuple[tuple[str, pa.DataType], ...], list[Path]] = {}
    for item in slices:
        file = call.exchange.input(item.path)
        groups.setdefault(columns_in_file(file, schema), []).append(file)
    frames = [_read(call, dict(found), files, schema) for found, files in groups.items()]
    empty = call.session.createDataFrame([], spark_schema(schema))
    return reduce(DataFrame.unionByName, frames) if frames else empty


def columns_in_file(file: Path, schema: pa.Schema) -> tuple[tuple[str, pa.DataType], ...]:
    """Names and types of those columns of the schema that the file has.

    Slices of one dataset share few such lists. Raises Corrupt.
    """
    try:
        found = pq.read_schema(file)
    except (pa.ArrowException, OSError) as error:
        raise Corrupt(f"A data slice is not readable: {error}", object_name=file.name) from None
    return tuple((name, found.field(name).type) for name in schema.names if found.get_field_index(name) >= 0)


def _read(call: EngineCall, found: dict[str, pa.DataType], files: list[Path], schema: pa.Schema) -> DataFrame:
    missing = [field.name for field in schema if field.name not in found and not field.nullable]
    if missing:
        raise Corrupt(f"A data slice has no column `{missing[0]}`", object_name=files[0].name)
    as_read = T.StructType([T.StructField(name, type_as_read(name, kind), True) for name, kind in found.items()])
    frame = with_exact_filters(call.session.read.schema(as_read).parquet(*map(spark_path, files)))
    wanted = spark_schema(schema).fields
    return frame.select(
        *(
            (column(item.name) if item.name in found else F.lit(None)).cast(item.dataType).alias(item.name)
            for item in wanted
        )
    )


def type_as_read(name: str, arrow: pa.DataType) -> T.DataType:
    """The type in which Spark can read a Parquet column.

    Unsigned 64-bit integers are decimals to it.
    """
    if pa.types.is_uint64(arrow):
        return _UINT64_AS_READ
    if pa.types.is_dictionary(arrow):
        return type_as_read(name, arrow.value_type)
    if pa.types.is_date64(arrow):
        return T.DateType()
    return spark_schema([pa.field(name, arrow)]).fields[0].dataType
