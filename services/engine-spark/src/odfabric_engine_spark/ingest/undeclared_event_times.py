"""Event times of undeclared columns: which are refused, how others are read.

Owns the refusal. Not here: the rule by which integers and texts become event times (`preprocess`).
"""

from __future__ import annotations

from dataclasses import replace

from pyarrow import types
from pyspark.sql import functions as F

from odfabric.errors import InvalidData
from odfabric.formats.files.time_formats import RFC3339_DATE, RFC3339_TIMESTAMP
from odfabric.formats.files.time_guess import epoch_function
from odfabric.formats.slices.slice_schema import TIMESTAMP_TYPE
from odfabric_engine_spark.ingest.values.text_values import TextFormats
from odfabric_engine_spark.ingest.values.value_hints import value_hint
from odfabric_engine_spark.spark.frames.read_rows import ROW, InputRows, column, shown

_FORMATS = TextFormats(RFC3339_DATE, RFC3339_TIMESTAMP)


def refused_event_time(read: InputRows, name: str, row: int) -> InvalidData:
    """Why a row's event time value is no time, and what to write."""
    found = read.frame.where(F.col(ROW) == row).select(column(name).cast("string")).collect()
    text = str(found[0][0]) if found else ""
    place = replace(read.locate(row), field=name)
    if types.is_integer(read.schema.field(name).type):
        function = epoch_function(text) or "timestamp_millis"
        return InvalidData(
            f"The number {text} of the event time column `{name}` is not a count of seconds in the years 1 to 9999",
            place=place,
            hint=f"write {function}({_quoted(name)}) AS {_quoted(name)} in the preprocess query, if it counts so",
        )
    inferred = "`inferSchema: true`, which takes integers for Unix seconds, or " if epoch_function(text) else ""
    hint = value_hint(text, TIMESTAMP_TYPE, _FORMATS, name=name, null="")
    return InvalidData(
        f"{shown(text)} of the event time column `{name}` is not a timestamp (rfc3339)",
        place=place,
        hint=f"write {inferred}a schema that declares the column as Timestamp, with this: {hint}",
    )


def _quoted(name: str) -> str:
    return name if name.isidentifier() and name.isascii() else "`" + name.replace("`", "``") + "`"
