"""Texts as typed values, on Spark.

Owns the forms of numbers, truth values and times in texts (cells of CSV, event times that came as strings). Invariant: a text
is one exact value of its type or the job stops: nothing is rounded, wrapped, or read as something near. The one exception
are floats, where a decimal text means the nearest float; it must not be infinite unless it says so. Not here: which text
means null (`csv_reader`), the place of a bad one (`InputRows.explain`).
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from pyarrow import types
from pyspark.sql import Column
from pyspark.sql import functions as F

from odfabric.errors import IncompatibleSchema, Place
from odfabric.formats.time_formats import TimeFormat
from odfabric_engine_spark.read.spark_times import spark_date, spark_timestamp
from odfabric_engine_spark.spark_types import spark_type

_SPECIAL_FLOATS = ("nan", *(f"{sign}{word}" for sign in ("", "+", "-") for word in ("inf", "infinity")))
_UNSIGNED_MAX = {pa.uint8(): 2**8 - 1, pa.uint16(): 2**16 - 1, pa.uint32(): 2**32 - 1, pa.uint64(): 2**63 - 1}

TYPE_WORDS = {
    pa.bool_(): "`true` or `false`",
    pa.uint64(): "an integer of UInt64 up to 2^63-1",
}


@dataclass(frozen=True, slots=True)
class TextFormats:
    """How dates and timestamps look in one input."""

    date: TimeFormat
    timestamp: TimeFormat


def typed(text: Column, arrow: pa.DataType, formats: TextFormats, *, path: str) -> Column:
    """The value of a text; null for null, and for a text that is no value of the type (`bad` tells them apart).

    Raises IncompatibleSchema naming `path` if the type has no form as text.
    """
    if types.is_string(arrow):
        return text
    if types.is_boolean(arrow):
        return F.when(F.lower(text) == "true", F.lit(True)).when(F.lower(text) == "false", F.lit(False))
    if types.is_integer(arrow):
        return _integer(text, arrow, path)
    if types.is_decimal(arrow):
        return F.when(F.rlike(text, F.lit(_decimal_pattern(arrow))), text.try_cast(spark_type(arrow, path)))
    if types.is_floating(arrow):
        return _float(text, arrow, path)
    if types.is_date(arrow):
        return spark_date(formats.date, text)
    if types.is_timestamp(arrow):
        return spark_timestamp(formats.timestamp, text)
    raise IncompatibleSchema(
        f"Column `{path}`: {arrow} has no form as text", place=Place(field=path), hint=_made_of_text(arrow)
    )


def _made_of_text(arrow: pa.DataType) -> str:
    if types.is_binary(arrow):
        way = "unhex(name) where it is hexadecimal, unhex(substring(name, 3)) after \\x, unbase64(name) where it is base64"
    elif types.is_list(arrow):
        way = "from_json(name, 'ARRAY<BIGINT>') for [1,2], split(name, ';') for 1;2"
    else:
        way = "from_json(name, 'STRUCT<a: BIGINT>')"
    return f"declare the column as String, and make the value in the preprocess query: {way}"


def bad(text: Column, value: Column) -> Column:
    """Whether a text that is there is no value."""
    return text.isNotNull() & value.isNull()


def or_stop(text: Column, value: Column, stop: Column) -> Column:
    """The value; where a text that is there has none, `stop`, an expression that ends the job."""
    return F.coalesce(value, F.when(text.isNotNull(), stop))


def type_word(arrow: pa.DataType, formats: TextFormats) -> str:
    """What a text should have been, for messages."""
    if types.is_date(arrow):
        return f"a date ({formats.date.text})"
    if types.is_timestamp(arrow):
        return f"a timestamp ({formats.timestamp.text})"
    if types.is_decimal(arrow):
        return f"a decimal of {arrow.precision} digits, {arrow.scale} of them after the point"
    if types.is_floating(arrow):
        return f"a number of Float{arrow.bit_width}"
    sign = "UInt" if types.is_unsigned_integer(arrow) else "Int"
    return TYPE_WORDS.get(arrow) or f"an integer of {sign}{arrow.bit_width}"


# Spark's casts of numbers are exact but for what these guards keep out: spaces and control characters around them, and for
# floats the suffixes and the hexadecimal form of Java. Comparing one character costs a tenth of a regular expression.


def _integer(text: Column, arrow: pa.DataType, path: str) -> Column:
    plain = _first(text).between("+", "9") & _last(text).between("0", "9")
    exact = text.try_cast(spark_type(arrow, path))
    # Writers with gaps in a column of integers, such as pandas, write 5 as 5.0.
    whole = F.when(F.rlike(text, F.lit(r"^[+-]?[0-9]+\.0+\z")), F.substring_index(text, ".", 1))
    number = F.when(plain, F.coalesce(exact, whole.try_cast(spark_type(arrow, path))))
    maximum = _UNSIGNED_MAX.get(arrow)
    return number if maximum is None else F.when(number.between(F.lit(0), F.lit(maximum)), number)


def _float(text: Column, arrow: pa.DataType, path: str) -> Column:
    plain = _first(text).between("+", "9") & (_last(text).between("0", "9") | (_last(text) == "."))
    plain &= ~F.contains(text, F.lit("x")) & ~F.contains(text, F.lit("X"))
    number = text.try_cast(spark_type(arrow, path))
    finite = F.abs(number) < float("inf")
    return F.when(plain & finite, number).when(F.lower(text).isin(*_SPECIAL_FLOATS), number)


def _first(text: Column) -> Column:
    return F.substring(text, 1, 1)


def _last(text: Column) -> Column:
    return F.substring(text, -1, 1)


def _decimal_pattern(arrow: pa.DataType) -> str:
    """Texts of at most the type's digits; more zeros in front and behind change nothing."""
    whole = rf"0*[0-9]{{0,{arrow.precision - arrow.scale}}}"
    return rf"^[+-]?(?=\.?[0-9]){whole}(?:\.[0-9]{{0,{arrow.scale}}}0*)?\z"
