"""Texts that are no values: which way out is named.

That the queries work is held by `tests/services/engine`.
"""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.formats.files.time_formats import date_format, timestamp_format
from odfabric_engine_spark.ingest.json.json_values import Misfit, converter
from odfabric_engine_spark.ingest.values.text_values import TextFormats
from odfabric_engine_spark.ingest.values.value_hints import value_hint

FORMATS = TextFormats(date_format(None), timestamp_format(None))
TYPES = {
    "int": pa.int64(),
    "float": pa.float64(),
    "decimal": pa.decimal128(10, 2),
    "bool": pa.bool_(),
    "date": pa.date32(),
    "time": pa.timestamp("ms", "UTC"),
}


@pytest.mark.parametrize(
    ("text", "kind", "hint"),
    [
        (
            "3,9432",
            "float",
            "decimal comma: declare the column as String, and write CAST(replace(x, ',', '.') AS DOUBLE)",
        ),
        ("1,5", "int", "CAST(replace(x, ',', '.') AS DECIMAL(18, 4))"),
        ("1,234", "int", "if the comma separates thousands"),
        ("2,102,650", "int", "CAST(replace(x, ',', '') AS BIGINT)"),
        ("1.234,56", "decimal", "CAST(replace(replace(x, '.', ''), ',', '.') AS DECIMAL(10,2))"),
        ("1 234 567", "int", "CAST(replace(x, ' ', '') AS BIGINT)"),
        ("$1,234.50", "decimal", "regexp_replace(x, '[^0-9.-]', '')"),
        ("12 km", "float", "more than a number"),
        (" 1", "int", "CAST(trim(x) AS BIGINT)"),
        ("1\t", "int", "trim(BOTH '\\u0009' FROM x)"),
        ("5.5", "int", "declare it as Float64 or Decimal"),
        ("1e3", "int", "declare it as Float64 or Decimal"),
        ("99999999999999999999", "int", "out of range"),
        ("1.234", "decimal", "Decimal of precision 11 and scale 3"),
        ("1e999", "float", "too large"),
        ("-", "float", "nullValue: '-'"),
        ("\\N", "int", "nullValue: '\\N'"),
        ("N/A", "date", "try_cast(x AS DATE)"),
        ("t", "bool", "CAST(x AS BOOLEAN)"),
        ("ja", "bool", "CASE x WHEN 'ja' THEN true"),
        ("kod ISO", "date", "WHERE try_cast(x AS DATE) IS NOT NULL"),
        ("2024-03-31 02:30", "time", "timestampFormat: '%Y-%m-%d %H:%M'"),
        ("01/02/2024", "date", "'%d/%m/%Y', or '%m/%d/%Y'"),
        ("1704103200", "time", "timestampFormat: '%s'"),
        ("1704103200000", "time", "timestamp_millis(CAST(x AS BIGINT))"),
        ("45292.4375", "time", "spreadsheets"),
        ("2024-02-30", "date", "no such time"),
        ("2024-01-01 10:00:00", "date", "time of day"),
        ("10 o'clock", "time", "timestampFormat"),
        ("1,234 km", "int", "if the comma separates thousands"),
        ("####", "float", "too narrow"),
        ("25:10:00", "time", "declare the column as String"),
        ("2024-01-02 03:04 PM", "time", "%I:%M %p"),
    ],
)
def test_the_way_out(text: str, kind: str, hint: str) -> None:
    assert hint in value_hint(text, TYPES[kind], FORMATS, name="x", null="")


def test_names_are_quoted_and_a_second_null_is_not_a_null_value() -> None:
    assert "trim(`a b``c`)" in value_hint(" 1", pa.int64(), FORMATS, name="a b`c", null="")
    second = value_hint("-", pa.float64(), FORMATS, name="v", null="NA")
    assert "only one text means null" in second
    assert "try_cast(v AS DOUBLE)" in second


@given(st.text(max_size=20) | st.text("0123456789.,-+eE$ %:/TZ", max_size=20), st.sampled_from(list(TYPES.values())))
def test_every_text_has_a_way_out(text: str, arrow: pa.DataType) -> None:
    hint = value_hint(text, arrow, FORMATS, name="x", null="")
    assert any(word in hint for word in ("declare", "Format", "nullValue", "export the file again"))


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        (1_767_225_600_000, "timestamp_millis(a.b)"),
        (1_767_225_600, "timestamp_seconds(a.b)"),
        (1_767_225_600.5, "timestamp_seconds(CAST(a.b AS BIGINT))"),
        (Decimal("1767225600000.5"), "timestamp_millis(CAST(a.b AS BIGINT))"),
        ("2024-03-31 02:30", "%Y-%m-%d %H:%M"),
    ],
)
def test_json_values_that_are_no_times(value: object, hint: str) -> None:
    for arrow in (pa.timestamp("ms", "UTC"), pa.date32()):
        with pytest.raises(Misfit) as caught:
            converter(arrow, FORMATS, path="a.b")(value)
        wanted = hint if pa.types.is_timestamp(arrow) or "%" not in hint else "Timestamp"
        assert wanted in str(caught.value.hint)


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        (20_240_131, "to_date(CAST(a AS STRING), 'yyyyMMdd')"),
        (2024, "make_date(a, 1, 1)"),
        (19_723, "date_from_unix_date(CAST(a AS INT))"),
        (1_767_225_600, "timestamp_seconds(a)"),
    ],
)
def test_numbers_in_columns_of_dates(value: int, hint: str) -> None:
    with pytest.raises(Misfit) as caught:
        converter(pa.date32(), FORMATS, path="a")(value)
    assert hint in str(caught.value.hint)


def test_a_format_of_seconds_reads_numbers() -> None:
    seconds = TextFormats(FORMATS.date, timestamp_format("%s"))
    read = converter(pa.timestamp("ms", "UTC"), seconds, path="a")
    assert read(1_704_103_200) == read("1704103200") == read(1_704_103_200.0) == 1_704_103_200_000
    for value in (1.5, True, 10**13, "1.5"):
        with pytest.raises(Misfit):
            read(value)
