"""Strict JSON: every text is a value or a refusal; values have texts."""

from __future__ import annotations

import json
import math
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odfabric.formats.files.time_formats import date_format, timestamp_format
from odfabric_engine_spark.ingest.json.json_values import (
    JsonParser,
    Misfit,
    converter,
    json_text,
    member_converter,
    open_brackets,
)
from odfabric_engine_spark.ingest.values.text_values import TextFormats
from tests.support.turns import examples

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
FORMATS = TextFormats(date_format(None), timestamp_format(None))
NUMBERS = st.from_regex(r"-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,3})?", fullmatch=True)


@settings(max_examples=examples(200))
@given(value=JSON)
def test_parsing_is_the_inverse_of_writing(value: object) -> None:
    parser = JsonParser(exact_numbers=False, depth_max=100)
    assert parser.parse(json.dumps(value)) == value


@settings(max_examples=examples(300))
@given(text=st.text(alphabet='{}[]",:0123e.-nultrfas\\ ', max_size=40))
def test_any_text_is_a_value_or_a_refusal(text: str) -> None:
    parser = JsonParser(exact_numbers=False, depth_max=100)
    try:
        value = parser.parse(text)
    except ValueError:
        return
    assert parser.parse(json.dumps(value)) == value


@settings(max_examples=examples(200))
@given(value=JSON, exact=st.booleans())
def test_the_text_of_a_value_is_compact_and_reads_as_the_same_value(value: object, exact: bool) -> None:
    parsed = JsonParser(exact_numbers=exact, depth_max=100).parse(json.dumps(value, indent=2))
    text = json_text(parsed)
    text.encode()
    assert json.loads(text) == value
    assert json.dumps(json.loads(text), separators=(",", ":"), ensure_ascii=False).count(" ") == text.count(" ")


@settings(max_examples=examples(200))
@given(number=NUMBERS)
def test_the_text_of_a_number_is_the_one_that_was_written(number: str) -> None:
    text = json_text(JsonParser(exact_numbers=True, depth_max=100).parse(f"[{number}]"))
    assert text == f"[{number}]" or (text, number) == ("[0]", "-0")


@pytest.mark.parametrize("digits", ["1e99999999999999999999", "1" * 5000, "1e400"])
def test_numbers_beyond_any_type_are_refused_or_kept(digits: str) -> None:
    for exact in (True, False):
        try:
            value = JsonParser(exact_numbers=exact, depth_max=100).parse(digits)
        except ValueError:
            continue
        assert json_text(value) == digits


@pytest.mark.parametrize("word", ["NaN", "nan", "Infinity", "-Infinity", "inf", "+inf", "-INF"])
def test_floats_that_are_no_numbers_come_as_texts(word: str) -> None:
    for kind in (pa.float32(), pa.float64()):
        found = converter(kind, FORMATS, path="v")(word)
        assert repr(found) == repr(float(word))
    for other in (pa.int64(), pa.decimal128(9, 2)):
        with pytest.raises(Misfit):
            converter(other, FORMATS, path="v")(word)


@pytest.mark.parametrize("token", ["NaN", "Infinity", "-Infinity"])
def test_the_bare_tokens_are_refused_with_the_text_to_write(token: str) -> None:
    with pytest.raises(ValueError, match=f"{token} is not a JSON value") as refused:
        JsonParser(exact_numbers=False, depth_max=9).parse(f'{{"v": [{token}]}}')
    assert f'"{token}"' in getattr(refused.value, "hint", "")
    assert "null" in getattr(refused.value, "hint", "")


@settings(max_examples=examples(200))
@given(value=st.integers() | st.integers(-(2**70), 2**70).map(float).filter(math.isfinite))
def test_integers_are_exact_or_refused(value: float) -> None:
    convert = converter(pa.int64(), FORMATS, path="v")
    try:
        found = convert(JsonParser(exact_numbers=False, depth_max=9).parse(json.dumps(value)))
    except Misfit:
        assert not -(2**53) <= value <= 2**53
        return
    assert found == value


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (2138, ["the number 2138 is not a text", "in quotes", "get_json_object", "preprocess"]),
        (Decimal("2138.0"), ["the number 2138.0", "in quotes"]),
        (True, ["true or false is not a text", "in quotes"]),
        ({"type": "Point"}, ["an object is not a text", "GeoJson", "Struct", "from_json", "odfabric.dev/type"]),
        ([1], ["an array is not a text", "List"]),
    ],
)
def test_other_values_of_a_text_column_are_refused_with_the_ways(value: object, words: list[str]) -> None:
    with pytest.raises(Misfit) as refused:
        converter(pa.string(), FORMATS, path="v")(value)
    said = f"{refused.value.message} ({refused.value.hint})"
    assert [word for word in words if word not in said] == []


def test_marked_columns_and_members_keep_any_value_as_its_text() -> None:
    kind = pa.list_(pa.struct([("raw", pa.string()), ("plain", pa.string())]))
    convert = member_converter(pa.field("v", kind), FORMATS, path="v", marked={"v": {"raw": None}})
    given = [{"raw": {"b": [1, None], "a": "x"}, "plain": "x"}, {"raw": "x", "plain": None}, {"raw": None}]
    assert convert(given) == [
        {"raw": '{"b":[1,null],"a":"x"}', "plain": "x"},
        {"raw": '"x"', "plain": None},
        {"raw": None, "plain": None},
    ]
    with pytest.raises(Misfit) as refused:
        convert([{"plain": {}}])
    assert refused.value.path == "[0].plain"


@pytest.mark.parametrize(("text", "count"), [("[", 1), ('{"a": [', 2), ('{"a": "[{"}', 0), ("}", -1), ('"\\"["', 0)])
def test_brackets_without_an_end(text: str, count: int) -> None:
    assert open_brackets(text) == count


@pytest.mark.parametrize("arrow", [pa.int64(), pa.float64(), pa.bool_(), pa.date32(), pa.timestamp("ms", "UTC")])
def test_an_object_for_a_value_names_the_member_to_take(arrow: pa.DataType) -> None:
    with pytest.raises(Misfit) as caught:
        converter(arrow, FORMATS, path="at")({"$date": "2024-01-02T03:04:05Z"})
    assert "name.`$date`" in (caught.value.hint or "")


def test_a_null_member_and_a_fraction_have_a_way_out() -> None:
    with pytest.raises(Misfit) as null:
        converter(pa.struct([pa.field("id", pa.int64(), nullable=False)]), FORMATS, path="data")({})
    assert "Option" in (null.value.hint or "")
    with pytest.raises(Misfit) as fraction:
        converter(pa.int64(), FORMATS, path="id")(2.5)
    assert "Float64" in (fraction.value.hint or "")
