"""The one text of a JSON value: rules, laws, refusals."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.formats.json_values.canonical_json import (
    JSON_DEPTH_MAX,
    JsonValue,
    canonical_json,
    check_json_value,
    float_text,
    parse_json_object,
)
from odfabric.testing.events import json_objects


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (1.5, "1.5"),
        (-123.456, "-123.456"),
        (0.1, "0.1"),
        (1e-05, "0.00001"),
        (1.25e-05, "0.0000125"),
        (1e-06, "1e-6"),
        (1.5e-07, "1.5e-7"),
        (1e15, "1000000000000000.0"),
        (1234567890123456.0, "1234567890123456.0"),
        (1e16, "1e16"),
        (1.7976931348623157e308, "1.7976931348623157e308"),
        (5e-324, "5e-324"),
    ],
)
def test_floats_have_the_shortest_digits_and_one_spelling(number: float, text: str) -> None:
    assert float_text(number) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats_come_back_and_are_json(number: float) -> None:
    assert repr(json.loads(float_text(number))) == repr(number)


def test_spelling() -> None:
    value: JsonValue = {"é": [1, True, None], "a": {"z": '"\\\b\t\n\f\r\x01/\x7f', "B": {}}, "\ue000": [], "😀": -1}
    assert canonical_json(value) == (
        '{"a":{"B":{},"z":"\\"\\\\\\b\\t\\n\\f\\r\\u0001/\x7f"},"é":[1,true,null],"\ue000":[],"😀":-1}'
    )


@given(json_objects())
def test_values_come_back_and_the_text_is_a_fixed_point(value: dict[str, JsonValue]) -> None:
    text = canonical_json(value)
    assert parse_json_object(text) == value
    assert canonical_json(parse_json_object(text)) == text
    assert canonical_json(dict(reversed(value.items()))) == text


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "Expecting value"),
        ("[]", "expected an object"),
        ("{} {}", "and nothing else"),
        (' {"a":1}', "Expecting value"),
        ('{"a":1,"a":1}', "occurs twice"),
        ('{"a":NaN}', "NaN"),
        ('{"a":1e999}', "too large"),
        ('{"a":18446744073709551616}', "outside of"),
        ('{"a":' + "1" * 5000 + "}", "digits|outside"),
        ('{"a":' + "[" * 65 + "]" * 65 + "}", "nested deeper than 64"),
        ('{"a":' + "[" * 100_000 + "]" * 100_000 + "}", "nested deeper than 64"),
    ],
)
def test_what_is_not_an_object_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        parse_json_object(text)


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), 2**64, -(2**63) - 1, "\ud800", {"\ud800": 1}, {1: 2}, b"x", (1,)]
)
def test_what_json_cannot_hold_is_refused(value: JsonValue) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        canonical_json({"a": value})
    assert isinstance(caught.value, ValueError)


def test_the_depth_ends_at_the_limit_on_both_sides() -> None:
    value: JsonValue = 1
    for _ in range(JSON_DEPTH_MAX):
        value = [value]
    assert canonical_json(value)
    check_json_value(value, depth_max=JSON_DEPTH_MAX)
    with pytest.raises(ValueError, match="nested deeper"):
        canonical_json([value])
    with pytest.raises(ValueError, match="nested deeper"):
        check_json_value([value], depth_max=JSON_DEPTH_MAX)


def test_the_number_of_values_ends_at_the_limit_on_both_sides() -> None:
    check_json_value([1, 2, 3], depth_max=9, nodes_max=4)
    with pytest.raises(ValueError, match="more than 3 values"):
        check_json_value([1, 2, 3], depth_max=9, nodes_max=3)
