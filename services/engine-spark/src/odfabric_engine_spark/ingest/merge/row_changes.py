"""When two values are different, and what a key is.

Owns comparison on Spark. Values are compared as the logical hash sees them: null equals null, NaN equals NaN, 0.0 and -0.0
differ (docs/engine.md#when-rows-are-equal). Keys are compared null-safe with NaN and -0.0 normalised, which Spark does by itself in joins and windows.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

# Texts in which no two values of a nested type look the same.
_NESTED_TEXT = {"ignoreNullFields": "false", "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}


def changed(one: Column, other: Column, data_type: T.DataType) -> Column:
    """Whether two values of a type differ; never null."""
    match data_type:
        case T.FloatType() | T.DoubleType():
            # Equal numbers of different sign are both zero.
            return ~one.eqNullSafe(other) | ((one == 0) & (one.cast("string") != other.cast("string"))).eqNullSafe(True)
        case T.ArrayType() | T.StructType() | T.MapType():
            texts = (F.to_json(F.struct(value.alias("value")), _NESTED_TEXT) for value in (one, other))
            return ~next(texts).eqNullSafe(next(texts))
        case _:
            return ~one.eqNullSafe(other)


def any_of(conditions: Iterable[Column]) -> Column:
    """Whether one of the conditions holds; false if there is none."""
    return reduce(lambda one, other: one | other, conditions, F.lit(False))
