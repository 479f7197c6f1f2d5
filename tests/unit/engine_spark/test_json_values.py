"""Strict JSON: every text is a value or a refusal."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from odfabric_engine_spark.read.json_values import JsonParser
from tests.support.turns import examples

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


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
