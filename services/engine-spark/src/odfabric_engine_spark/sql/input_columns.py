"""Columns of inputs without a dataset, from DDL, and system columns.

Owns how a described input becomes the schema of a dataset. Invariant: a type that datasets do not have is refused by its name,
and whatever is left out of a description is as it would be in a dataset. Types that this node would not write, such as maps, are
read all the same: the datasets of other nodes have them. Source: docs/engine.md#operations; docs/engine.md#types.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import types as spark_types

from odfabric.errors import InvalidQuery, OdfError, Place
from odfabric.formats.slices.arrow_schema import arrow_to_data_schema, data_schema_to_arrow
from odfabric.formats.slices.slice_schema import OFFSET_TYPE, OPERATION_TYPE, TIMESTAMP_TYPE
from odfabric.model.data_schema import DataSchema
from odfabric.model.vocabulary import DatasetVocabulary
from odfabric_engine_spark.spark.frames.spark_types import arrow_schema
from odfabric_engine_spark.spark.settings import EngineSettings
from odfabric_engine_spark.sql.nesting_depth import too_deep
from odfabric_engine_spark.sql.output_column_rules import name_problems
from odfabric_engine_spark.sql.refusal import refusal, shown
from odfabric_engine_spark.sql.spark_errors import spark_refused


def ddl_schema(session: SparkSession, ddl: str, alias: str, *, settings: EngineSettings) -> DataSchema:
    """The schema that DDL describes, as Spark reads it.

    Raises InvalidQuery naming the input, and column and type if known.
    """
    if len(ddl.encode()) > settings.query_bytes_max:
        raise _refused(alias, "its DDL is too long", hint=f"at most {settings.query_bytes_max} bytes")
    deep = too_deep(ddl, settings.query_levels_max)
    if deep is not None:
        raise _refused(alias, "its DDL is nested too deeply", hint=f"at most {settings.query_levels_max} levels")
    try:
        described = _without_lengths(spark_types.StructType.fromDDL(ddl))
    except (PySparkException, Py4JError) as error:
        raise _unreadable(error, alias) from error
    return _as_dataset(described, alias, settings)


def with_system_columns(schema: DataSchema, vocabulary: DatasetVocabulary) -> DataSchema:
    """The schema with the system columns in front, where it lacks them."""
    described = data_schema_to_arrow(schema, encodings=False)
    system = (
        pa.field(vocabulary.offset, OFFSET_TYPE, nullable=False),
        pa.field(vocabulary.operation_type, OPERATION_TYPE, nullable=False),
        pa.field(vocabulary.system_time, TIMESTAMP_TYPE, nullable=False),
        pa.field(vocabulary.event_time, TIMESTAMP_TYPE, nullable=False),
    )
    missing = [field for field in system if field.name not in described.names]
    return schema if not missing else arrow_to_data_schema(pa.schema([*missing, *described]))


def _as_dataset(described: spark_types.StructType, alias: str, settings: EngineSettings) -> DataSchema:
    if len(described.fields) > settings.columns_max:
        raise _refused(alias, f"{len(described.fields)} columns are too many", hint=f"at most {settings.columns_max}")
    problem = next(name_problems(described), None) or next(_foreign_types(described), None)
    if problem is not None:
        raise _refused(alias, problem.message, hint=problem.hint)
    try:
        return arrow_to_data_schema(arrow_schema(described))
    except OdfError as error:
        raise _refused(alias, error.message, hint=error.hint) from None


def _without_lengths(data_type: spark_types.DataType) -> Any:
    """The type with STRING for VARCHAR(n); CHAR(n) stays, since it pads.

    Spark minds the length of VARCHAR when it writes only.
    """
    match data_type:
        case spark_types.VarcharType():
            return spark_types.StringType()
        case spark_types.ArrayType():
            return spark_types.ArrayType(_without_lengths(data_type.elementType), data_type.containsNull)
        case spark_types.MapType():
            key, value = _without_lengths(data_type.keyType), _without_lengths(data_type.valueType)
            return spark_types.MapType(key, value, data_type.valueContainsNull)
        case spark_types.StructType():
            return spark_types.StructType(
                [spark_types.StructField(one.name, _without_lengths(one.dataType), one.nullable) for one in data_type]
            )
        case _:
            return data_type


def _foreign_types(described: spark_types.StructType) -> Iterator[InvalidQuery]:
    for field in described.fields:
        name = _foreign(field.dataType)
        if name is not None:
            text = f"column {shown(field.name)} is of type {name}, which datasets do not have"
            yield refusal("input-schema", text, hint="use a type of datasets, such as TIMESTAMP, STRING or DECIMAL")


def _foreign(data_type: spark_types.DataType) -> str | None:
    """The first part of a type that has no form in datasets, by its name in SQL."""
    match data_type:
        case spark_types.ArrayType():
            return _foreign(data_type.elementType)
        case spark_types.MapType():
            return _foreign(data_type.keyType) or _foreign(data_type.valueType)
        case spark_types.StructType():
            return next((name for field in data_type.fields if (name := _foreign(field.dataType)) is not None), None)
        case spark_types.TimestampNTZType():
            return str(data_type.simpleString()).upper()
        case spark_types.StringType() if data_type != spark_types.StringType():
            return str(data_type.simpleString()).upper()  # rows keep no collation
        case _:
            try:
                arrow_schema(spark_types.StructType([spark_types.StructField("value", data_type)]))
            except OdfError:
                return str(data_type.simpleString()).upper()
            return None


def _unreadable(error: PySparkException | Py4JError, alias: str) -> BaseException:
    known = spark_refused(error)
    problem = known.problems[0] if hasattr(known, "problems") else None
    if problem is None:
        return error
    found = _refused(alias, f"its DDL cannot be read: {problem.message}", hint="write `name TYPE [NOT NULL], ..`")
    found.place = Place(line=problem.place.line, column=problem.place.column, rule="input-schema")
    return found


def _refused(alias: str, message: str, *, hint: str | None) -> InvalidQuery:
    return refusal("input-schema", f"input {shown(alias)}: {message}", hint=hint)
