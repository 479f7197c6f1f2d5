"""Nested values: equal forms exactly for equal values, whatever nulls cover.

Also whatever is before a slice.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pyarrow as pa
import pytest

from odfabric_persist.canonical import comparable
from odfabric_persist.rows import RowCodec

TEXTS = pa.list_(pa.string())
PAIR = pa.struct([pa.field("a", TEXTS), pa.field("b", pa.float64())])


def form(values: list[Any], kind: pa.DataType) -> list[bytes | None]:
    found: list[bytes | None] = comparable(pa.chunked_array([pa.array(values, kind)])).to_pylist()
    return found


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (TEXTS, [None, [], [""], ["", ""], [None], ["\\N"], ["\\\\N"], ["a", "b"], ["a)(b"], ["a)", "(b"], ["ab"]]),
        (PAIR, [None, *({"a": a, "b": b} for a in (None, [], ["("], [")"]) for b in (None, 0.0, -0.0, 1.0))]),
        (
            pa.list_(TEXTS),
            [
                [],
                [[]],
                [[], []],
                [None],
                [["a"], ["b"]],
                [["a", "b"]],
                [["a)", "b"]],
                [["a"], ["(b"]],
                [["a", ""]],
                [["a"], []],
            ],
        ),
        (pa.map_(pa.string(), pa.string()), [None, [], [("a", None)], [("a", "")], [("a", "b"), ("b", "a")]]),
    ],
    ids=str,
)
def test_different_values_have_different_forms(kind: pa.DataType, values: list[Any]) -> None:
    forms = form(values, kind)
    assert all(one != other for one, other in combinations(forms, 2))
    assert [one is None for one in forms] == [value is None for value in values]


def test_different_codecs_have_different_names() -> None:
    text, number = pa.string(), pa.int64()
    schemas = [
        pa.schema([("a", number), ("b", text)]),
        pa.schema([("a:int64,b", text)]),
        pa.schema([("a", number), ("b", text), ("c", text)]),
        *(
            pa.schema([("a", kind)])
            for kind in (
                pa.struct([("x", number), ("y", text)]),
                pa.struct([("x:int64,y", text)]),
                pa.struct([("x: int64, y", text)]),
                pa.list_(number),
                pa.large_list(number),
                pa.list_(number, 2),
                pa.list_(number, 3),
                pa.map_(text, number),
                pa.timestamp("us"),
                pa.timestamp("us", "UTC"),
            )
        ),
    ]
    names = [RowCodec(schema, ()).name for schema in schemas]
    assert len(set(names)) == len(schemas)
    assert names[0] == "a:int64,b:string|"
    both = pa.schema([("a", text), ("b", text), ("a,b", text)])
    assert RowCodec(both, ("a", "b")).name != RowCodec(both, ("a,b",)).name


def test_bits_of_floats_count_wherever_they_are() -> None:
    nan = float("nan")
    first, second, third = form([[nan, 0.0], [nan, 0.0], [nan, -0.0]], pa.list_(pa.float64()))
    assert first == second != third


def test_what_lies_beneath_a_null_does_not_count() -> None:
    mask = pa.array([False, True, False])
    lists = pa.ListArray.from_arrays([0, 1, 3, 4], ["a", "hidden", "hidden", "b"], mask=mask)
    assert comparable(pa.chunked_array([lists])).to_pylist() == form([["a"], None, ["b"]], TEXTS)
    structs = pa.StructArray.from_arrays([lists, pa.array([1.0, 2.0, 3.0])], fields=list(PAIR), mask=mask)
    wanted = [{"a": ["a"], "b": 1.0}, None, {"a": ["b"], "b": 3.0}]
    assert comparable(pa.chunked_array([structs])).to_pylist() == form(wanted, PAIR)


def test_slices_and_chunks_have_the_same_forms() -> None:
    values = [{"a": ["x", None], "b": 1.0}, None, {"a": [], "b": None}, {"a": None, "b": 2.0}]
    whole = pa.array(values, PAIR)
    parts = pa.chunked_array([whole.slice(0, 1), whole.slice(1, 0), whole.slice(1, 3)])
    assert comparable(parts).to_pylist() == form(values, PAIR)
