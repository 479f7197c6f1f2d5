"""Types of columns from the first rows of an input.

Owns how texts and JSON values without a schema get types: Bool, Int64, Float64, Date, Timestamp, String. Invariant: no type is
inferred that would change a value: digits with leading zeros stay text, integers beyond 64 bits too. Rows after the sample
must fit, or the ingest fails and says so. All inferred columns are nullable. Source: specification, "Data Ingestion".
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from odfabric.formats.slices.slice_schema import TIMESTAMP_TYPE
from odfabric_engine_spark.ingest.values.text_values import TextFormats

_INTEGER = re.compile(r"[+-]?(?:0|[1-9][0-9]*)", re.ASCII)
_FLOAT = re.compile(r"[+-]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", re.ASCII)
INT64 = range(-(2**63), 2**63)
_DIGITS_OF_INT64 = 19


def infer_text_type(texts: Iterable[str | None], formats: TextFormats) -> pa.DataType:
    """The narrowest type that every text of a column has.

    String if they differ or there is none.
    """
    kinds: set[pa.DataType] = set()
    for text in filter(None, texts):
        kinds.add(_kind(text, formats))
        if pa.string() in kinds:
            break  # whatever follows
    if kinds == {pa.int64(), pa.float64()}:
        return pa.float64()
    return kinds.pop() if len(kinds) == 1 else pa.string()


def infer_column_type(texts: pa.ChunkedArray, formats: TextFormats) -> pa.DataType:
    """As `infer_text_type`, of a whole column."""
    some = pc.drop_null(texts)
    some = some.filter(pc.not_equal(some, ""))
    if len(some):
        whole = pc.match_substring_regex(some, _whole_text(_INTEGER))
        is_number = pc.or_(whole, pc.match_substring_regex(some, _whole_text(_FLOAT)))
        long = pc.greater_equal(pc.binary_length(some), _DIGITS_OF_INT64)
        if pc.all(is_number).as_py() and not pc.any(pc.and_(whole, long)).as_py():
            return pa.int64() if pc.all(whole).as_py() else pa.float64()
    return infer_text_type(pc.unique(some).to_pylist(), formats)


def _whole_text(pattern: re.Pattern[str]) -> str:
    return rf"\A(?:{pattern.pattern})\z"


def _kind(text: str, formats: TextFormats) -> pa.DataType:
    if text.lower() in ("true", "false"):
        return pa.bool_()
    if _INTEGER.fullmatch(text):
        return pa.int64() if len(text) < 20 and int(text) in INT64 else pa.string()
    if _FLOAT.fullmatch(text):
        return pa.float64()
    if formats.date.days(text) is not None:
        return pa.date32()
    return TIMESTAMP_TYPE if formats.timestamp.millis(text) is not None else pa.string()
