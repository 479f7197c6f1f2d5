"""Columns of JSON values made at once are those made value by value."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from odfabric.formats.files.time_formats import date_format, timestamp_format
from odfabric_engine_spark.ingest.json.json_arrays import array_maker
from odfabric_engine_spark.ingest.json.json_values import JsonParser, Misfit, converter
from odfabric_engine_spark.ingest.values.text_values import TextFormats

TYPES = (
    pa.bool_(),
    pa.string(),
    pa.int8(),
    pa.int64(),
    pa.uint8(),
    pa.uint64(),
    pa.float32(),
    pa.float64(),
    pa.decimal128(10, 2),
    pa.date32(),
    pa.timestamp("ms", "UTC"),
    pa.timestamp("us", "UTC"),
    pa.binary(),
    pa.list_(pa.int64()),
)
FORMATS = (
    TextFormats(date_format(None), timestamp_format(None)),
    TextFormats(date_format("%d.%m.%Y"), timestamp_format("%s")),
)
WORDS = [
    "null",
    "true",
    "false",
    "0",
    "-0",
    "-0.0",
    "1",
    "127",
    "128",
    "255",
    "256",
    "1.0",
    "1e3",
    "0.1",
    "1.5",
    "1e400",
    "5e-324",
    "9007199254740992",
    "9007199254740993",
    "9007199254740994",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "18446744073709551615",
    "123456789012345678901234567890",
    "3.4028235e38",
    "3.5e38",
    '""',
    '"a"',
    '"\\u00e9"',
    '"\\ud800"',
    '"\\u0000"',
    '"1"',
    '"1.5"',
    '"NaN"',
    '"-inf"',
    '"00ff"',
    '"2024-02-29"',
    '"2023-02-29"',
    '"01.02.2024"',
    '"1700000000"',
    "1700000000",
    '"2024-02-29T12:00:00Z"',
    '"2024-02-30T12:00:00Z"',
    '"2024-02-29T12:00:00.123456+05:30"',
    '"0001-01-01T00:00:00Z"',
    '"0000-01-01T00:00:00Z"',
    '"1969-12-31T23:59:59.999Z"',
    '"2024-02-29T24:00:00Z"',
    "[]",
    "[1]",
    "[null]",
    "{}",
    '{"a":1}',
]


def one_by_one(values: list[Any], arrow: pa.DataType, formats: TextFormats) -> pa.Array | None:
    convert = converter(arrow, formats, path="a")
    try:
        return pa.array([None if value is None else convert(value) for value in values], arrow)
    except Misfit:
        return None


@given(
    arrow=st.sampled_from(TYPES),
    formats=st.sampled_from(FORMATS),
    words=st.lists(
        st.sampled_from(WORDS) | st.integers().map(str) | st.floats(allow_nan=False, allow_infinity=False).map(str)
    ),
    exact=st.booleans(),
)
@example(pa.float64(), FORMATS[0], ["1.5", "9007199254740994"], False)
@example(pa.float64(), FORMATS[0], ["1.5", "9007199254740993"], False)
@example(pa.float64(), FORMATS[0], ["-0", "-0.0"], False)
@example(pa.int64(), FORMATS[0], ["1", "true"], False)
@example(pa.uint64(), FORMATS[0], ["9223372036854775808"], False)
def test_at_once_is_one_by_one(arrow: pa.DataType, formats: TextFormats, words: list[str], exact: bool) -> None:
    parser = JsonParser(exact_numbers=exact, depth_max=9)
    values = [parser.parse(word) for word in words if word != "1e400" or exact]
    wanted = one_by_one(values, arrow, formats)
    found = array_maker(arrow, converter(arrow, formats, path="a"), formats, marked=False)(values)
    if wanted is None or found is None:
        assert wanted is found
        return
    assert found.type == wanted.type
    assert [str(value) for value in found] == [str(value) for value in wanted]  # distinguishes 0.0 from -0.0


@pytest.mark.parametrize("text", ["1 2", "", "1,", "[1", '{"a":1}}', "nul", "NaN", '"', "\u00a01", "tru", "-", "{]"])
def test_a_text_is_refused_in_the_words_of_the_decoder(text: str) -> None:
    decoder = json.JSONDecoder(parse_constant=JsonParser(exact_numbers=False, depth_max=9)._decoder.parse_constant)
    with pytest.raises(ValueError) as wanted:
        decoder.decode(text)
    with pytest.raises(ValueError) as found:
        JsonParser(exact_numbers=False, depth_max=9).parse(text)
    assert str(found.value) == str(wanted.value)
