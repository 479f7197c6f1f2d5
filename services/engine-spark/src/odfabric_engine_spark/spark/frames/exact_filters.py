"""Filters over floats, which the statistics of a Parquet file must not answer.

Owns keeping such filters out of the scan. Spark hands comparisons of plain columns to the reader of a file, which leaves out whole row
groups by their least and greatest values and by their dictionaries. Writers leave NaN out of the former, though for SQL it is the
greatest value, and both tell -0.0 from 0.0, which for SQL are equal. Invariant: every frame over Parquet on which SQL of a user may
stand passes here; members of structs are kept back by the session (`spark.sql.optimizer.nestedPredicatePushdown..`). Filters over
other types still leave out row groups.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import types as T

from odfabric_engine_spark.spark.frames.select_columns import quoted, selected


def with_exact_filters(frame: DataFrame) -> DataFrame:
    """The same rows; a reader cannot see through the columns of floats."""
    fields = frame.schema.fields
    if not any(_is_float(field) for field in fields):
        return frame
    return selected(frame, [_hidden(field) for field in fields])


def _is_float(field: T.StructField) -> bool:
    return isinstance(field.dataType, T.FloatType | T.DoubleType)


def _hidden(field: T.StructField) -> str:
    value = quoted(field.name)
    # Where the value is NaN it is taken instead of itself, so nothing changes.
    return f"nanvl({value}, {value}) AS {value}" if _is_float(field) else value
