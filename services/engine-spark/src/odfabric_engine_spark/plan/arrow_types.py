"""Arrow types of expressions."""

from __future__ import annotations

import pyarrow as pa
from pyspark.errors import PySparkTypeError
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import _parse_datatype_json_string

from odfabric_engine_spark.spark.catalyst.plan_nodes import (
    Expression,
)
from odfabric_engine_spark.sql.refusal import (
    Refused,
    refusal,
    text_of,
)


def arrow_type(expression: Expression) -> pa.DataType:
    """The Arrow type in which Spark hands out an expression.

    Raises Refused for one that has none: a list of nothing, months.
    """
    try:
        return to_arrow_type(_parse_datatype_json_string(expression.dataType().json()), timezone="UTC")
    except (ValueError, PySparkTypeError) as error:
        message = f"{text_of(expression)} is of type {expression.dataType().simpleString()}, which cannot be kept"
        hint = "cast it to a type that can be: cast(array() as array<string>), cast(interval '1' month as int)"
        raise Refused([refusal("kept-type", message, at=expression, hint=hint)]) from error
