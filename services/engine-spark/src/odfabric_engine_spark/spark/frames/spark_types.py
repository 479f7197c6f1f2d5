"""Arrow types as Spark types and back.

Owns the two tables. Invariant: a value that passes Spark in the type given here comes back as the same value: unsigned
integers are widened, timestamps are microseconds, and a type that Spark would change is refused by name. Not
here: which types a slice may hold (`odfabric.formats.slices.slice_schema`).
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
from pyarrow import types
from pyspark.sql import types as T

from odfabric.errors import IncompatibleSchema, Place
from odfabric.formats.slices.arrow_schema import DECIMAL_128_DIGITS_MAX
from odfabric.formats.slices.slice_schema import TIMESTAMP_TYPE

_PLAIN = {
    pa.bool_(): T.BooleanType(),
    pa.int8(): T.ByteType(),
    pa.int16(): T.ShortType(),
    pa.int32(): T.IntegerType(),
    pa.int64(): T.LongType(),
    pa.uint8(): T.ShortType(),
    pa.uint16(): T.IntegerType(),
    pa.uint32(): T.LongType(),
    pa.uint64(): T.LongType(),
    pa.float32(): T.FloatType(),
    pa.float64(): T.DoubleType(),
    pa.date32(): T.DateType(),
}
_PLAIN_BACK = {
    T.BooleanType: pa.bool_(),
    T.ByteType: pa.int8(),
    T.ShortType: pa.int16(),
    T.IntegerType: pa.int32(),
    T.LongType: pa.int64(),
    T.FloatType: pa.float32(),
    T.DoubleType: pa.float64(),
    T.DateType: pa.date32(),
    T.StringType: pa.string(),
    T.BinaryType: pa.binary(),
    T.TimestampType: TIMESTAMP_TYPE,
    T.TimestampNTZType: TIMESTAMP_TYPE,
}


def spark_schema(schema: Iterable[pa.Field]) -> T.StructType:
    """Columns as Spark reads them; all nullable, as Spark takes files.

    Raises IncompatibleSchema naming the field.
    """
    return T.StructType([T.StructField(field.name, spark_type(field.type, field.name), True) for field in schema])


def spark_type(arrow: pa.DataType, path: str) -> T.DataType:
    """The Spark type that holds every value of an Arrow type.

    Raises IncompatibleSchema naming `path`.
    """
    plain = _PLAIN.get(arrow)
    if plain is not None:
        return plain
    if types.is_timestamp(arrow):
        return T.TimestampType()
    if types.is_string(arrow) or types.is_large_string(arrow) or types.is_string_view(arrow):
        return T.StringType()
    if types.is_binary(arrow) or types.is_large_binary(arrow) or types.is_fixed_size_binary(arrow):
        return T.BinaryType()
    if types.is_decimal(arrow) and arrow.precision <= DECIMAL_128_DIGITS_MAX and arrow.scale >= 0:
        return T.DecimalType(arrow.precision, arrow.scale)
    if types.is_list(arrow) or types.is_large_list(arrow) or types.is_fixed_size_list(arrow):
        return T.ArrayType(spark_type(arrow.value_type, f"{path}[]"), True)
    if types.is_struct(arrow):
        members = (T.StructField(field.name, spark_type(field.type, f"{path}.{field.name}"), True) for field in arrow)
        return T.StructType(list(members))
    if types.is_map(arrow):
        return T.MapType(spark_type(arrow.key_type, f"{path}{{}}"), spark_type(arrow.item_type, f"{path}{{}}"), True)
    raise _unsupported(path, str(arrow))


def arrow_schema(schema: T.StructType) -> pa.Schema:
    """What columns computed by Spark mean; timestamps become those of slices.

    Raises IncompatibleSchema naming the field.
    """
    return pa.schema([_arrow_field(field, field.name) for field in schema.fields])


def _arrow_field(field: T.StructField, path: str) -> pa.Field:
    return pa.field(field.name, _arrow_type(field.dataType, path), nullable=field.nullable)


def _arrow_type(spark: T.DataType, path: str) -> pa.DataType:
    plain = _PLAIN_BACK.get(type(spark))
    if plain is not None:
        return plain
    match spark:
        case T.DecimalType():
            return pa.decimal128(spark.precision, spark.scale)
        case T.ArrayType():
            item = pa.field("item", _arrow_type(spark.elementType, f"{path}[]"), nullable=spark.containsNull)
            return pa.list_(item)
        case T.StructType():
            return pa.struct([_arrow_field(field, f"{path}.{field.name}") for field in spark.fields])
        case T.MapType():
            value = pa.field("values", _arrow_type(spark.valueType, f"{path}{{}}"), nullable=spark.valueContainsNull)
            return pa.map_(pa.field("keys", _arrow_type(spark.keyType, f"{path}{{}}"), nullable=False), value)
        case _:
            raise _unsupported(path, spark.simpleString())


def _unsupported(path: str, type_name: str) -> IncompatibleSchema:
    return IncompatibleSchema(
        f"Column `{path}` is of type {type_name}, which this engine does not support",
        place=Place(field=path),
        hint="cast it",
    )
