"""Rows as JSON values."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.errors import IncompatibleSchema, InvalidData, InvalidRequest
from odfabric.formats.json_values.json_rows import DataFormat, parse_data_format, rows_document, rows_to_json
from tests.support.chains.arrow_strategies import tables

UNION = pa.UnionArray.from_dense(pa.array([0], pa.int8()), pa.array([0], pa.int32()), [pa.array([1], pa.int8())])


def column_json(array: pa.Array) -> Any:
    return rows_to_json(pa.table({"x": array}), DataFormat.JSON_SOA)["x"]  # type: ignore[index, call-overload]


class TestTypes:
    @pytest.mark.parametrize(
        ("array", "expected"),
        [
            (pa.array([1, None, -(2**63)], pa.int64()), [1, None, -(2**63)]),
            (pa.array([2**64 - 1], pa.uint64()), [2**64 - 1]),
            (pa.array([True, None, False]), [True, None, False]),
            (pa.array([1.5, None, 1e300, 0.1]), [1.5, None, 1e300, 0.1]),
            (pa.array([float("nan"), float("inf"), float("-inf")]), [None, None, None]),
            (pa.array([0.1, 16777216.0, float("nan"), None], pa.float32()), [0.1, 16777216.0, None, None]),
            (pa.array([0.1, 65504, None], pa.float16()), [0.1, 65500.0, None]),
            (pa.array([Decimal("1.20"), None], pa.decimal128(10, 2)), ["1.20", None]),
            (pa.array([Decimal("-1E+3")], pa.decimal128(5, -2)), ["-1000"]),
            (pa.array([Decimal("1E-10")], pa.decimal128(38, 10)), ["0.0000000001"]),
            (pa.array([Decimal("0")], pa.decimal256(60, 12)), ["0.000000000000"]),
            (pa.array(["é", None, ""]), ["é", None, ""]),
            (pa.array(["é", None, ""], pa.string_view()), ["é", None, ""]),
            (pa.array(["a", None, "a"]).dictionary_encode(), ["a", None, "a"]),
            (pa.array([b"\x00\xff", None, b""]), ["00ff", None, ""]),
            (pa.array([b"\x0a"], pa.binary_view()), ["0a"]),
            (pa.array([b"ab"], pa.binary(2)), ["6162"]),
            (
                pa.array([0, 1, 500, None], pa.timestamp("ms", "UTC")),
                [
                    "1970-01-01T00:00:00Z",
                    "1970-01-01T00:00:00.001Z",
                    "1970-01-01T00:00:00.500Z",
                    None,
                ],
            ),
            (pa.array([1577880000000001], pa.timestamp("us", "UTC")), ["2020-01-01T12:00:00.000001Z"]),
            (pa.array([1], pa.timestamp("ns")), ["1970-01-01T00:00:00.000000001Z"]),
            (pa.array([-1], pa.timestamp("s", "Europe/Berlin")), ["1969-12-31T23:59:59Z"]),
            (pa.array([0, -1, 18262, None], pa.date32()), ["1970-01-01", "1969-12-31", "2020-01-01", None]),
            (pa.array([86_400_000], pa.date64()), ["1970-01-02"]),
            (pa.array([0, 86_399], pa.time32("s")), ["00:00:00", "23:59:59"]),
            (pa.array([1, None], pa.time64("us")), ["00:00:00.000001", None]),
            (pa.array([1500, -60_000, 0, None], pa.duration("ms")), ["PT1.5S", "-PT60S", "PT0S", None]),
            (pa.array([[1, None], None, []], pa.list_(pa.int32())), [[1, None], None, []]),
            (pa.array([[[0.5], None], None], pa.large_list(pa.list_(pa.float32()))), [[[0.5], None], None]),
            (pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int8(), 2)), [[1, 2], None, [3, 4]]),
            (pa.array([{"a": 1, "b": b"\x01"}, None]), [{"a": 1, "b": "01"}, None]),
            (
                pa.array([[{"a": 1}], None, []], pa.list_(pa.struct([("a", pa.date32())]))),
                [
                    [{"a": "1970-01-02"}],
                    None,
                    [],
                ],
            ),
            (
                pa.array([[("k", 1), ("l", None)], None, []], pa.map_(pa.string(), pa.int8())),
                [
                    {"k": 1, "l": None},
                    None,
                    {},
                ],
            ),
            (pa.array([[(1, b"\x01")]], pa.map_(pa.int8(), pa.binary())), [{"1": "01"}]),
            (pa.nulls(2), [None, None]),
            (pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0" * 16], pa.binary(16))), ["30" * 16]),
        ],
        ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
    )
    def test_values(self, array: pa.Array, expected: list[Any]) -> None:
        assert column_json(array) == expected
        twice = pa.concat_arrays([array, array])
        assert column_json(twice.slice(1, len(array))) == [*expected, *expected][1 : len(array) + 1]
        json.dumps(expected, allow_nan=False)

    def test_years_beyond_four_digits_have_a_text(self) -> None:
        assert column_json(pa.array([2**53], pa.timestamp("ms", "UTC"))) == ["+287396-10-12T08:59:00.992Z"]

    @pytest.mark.parametrize("array", [pa.nulls(1, pa.month_day_nano_interval()), UNION], ids=["interval", "union"])
    def test_types_without_a_form_are_named(self, array: pa.Array) -> None:
        with pytest.raises(IncompatibleSchema, match=r"Column `bad` is .* no JSON form") as caught:
            rows_to_json(pa.table({"bad": array}), DataFormat.JSON_AOS)
        assert caught.value.place.field == "bad"

    def test_text_that_is_not_utf8_is_the_files_fault(self) -> None:
        array = pa.array([b"\xff"]).view(pa.string())
        with pytest.raises(InvalidData, match="Column `x` has text that is not UTF-8"):
            column_json(array)


class TestShapes:
    TABLE = pa.table({"offset": [0, 1], "city": ["A", None]})

    def test_the_three_shapes(self) -> None:
        aos = [{"offset": 0, "city": "A"}, {"offset": 1, "city": None}]
        assert rows_to_json(self.TABLE, DataFormat.JSON_AOS) == aos
        assert rows_to_json(self.TABLE, DataFormat.JSON_SOA) == {"offset": [0, 1], "city": ["A", None]}
        assert rows_to_json(self.TABLE, DataFormat.JSON_AOA) == [[0, "A"], [1, None]]

    def test_no_rows_and_no_columns(self) -> None:
        empty = self.TABLE.slice(0, 0)
        assert rows_to_json(empty, DataFormat.JSON_AOS) == []
        assert rows_to_json(empty, DataFormat.JSON_AOA) == []
        assert rows_to_json(empty, DataFormat.JSON_SOA) == {"offset": [], "city": []}
        none = pa.table({})
        assert rows_to_json(none, DataFormat.JSON_AOS) == rows_to_json(none, DataFormat.JSON_AOA) == []
        bare = self.TABLE.select([])
        assert rows_to_json(bare, DataFormat.JSON_AOS) == [{}, {}]
        assert rows_to_json(bare, DataFormat.JSON_AOA) == [[], []]

    def test_columns_of_one_name_need_a_shape_without_names(self) -> None:
        twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["x", "x"])
        assert rows_to_json(twice, DataFormat.JSON_AOA) == [[1, 2]]
        for shape in (DataFormat.JSON_AOS, DataFormat.JSON_SOA):
            with pytest.raises(InvalidRequest, match="Two columns are named `x`"):
                rows_to_json(twice, shape)

    @given(tables(), st.integers(1, 5))
    def test_shapes_agree_and_are_strict_json(self, table: pa.Table, batch_rows: int) -> None:
        table = pa.Table.from_batches(table.to_batches(batch_rows), schema=table.schema)
        aos: Any = rows_to_json(table, DataFormat.JSON_AOS)
        aoa: Any = rows_to_json(table, DataFormat.JSON_AOA)
        soa: Any = rows_to_json(table, DataFormat.JSON_SOA)
        text = json.dumps([aos, aoa, soa], allow_nan=False)
        assert json.loads(text) == [aos, aoa, soa]
        assert [list(row.values()) for row in aos] == aoa
        assert [list(row) for row in zip(*soa.values(), strict=True)] == aoa
        assert len(aos) == table.num_rows

    @pytest.mark.parametrize("shape", list(DataFormat))
    def test_spellings(self, shape: DataFormat) -> None:
        kebab = {"JsonAoS": "json-aos", "JsonSoA": "json-soa", "JsonAoA": "json-aoa"}[shape.value]
        for text in (shape.value, shape.value.lower(), kebab):
            assert parse_data_format(text) is shape

    @pytest.mark.parametrize("text", ["", "csv", "JSONAOS", "Json-AoS"])
    def test_other_texts_are_refused(self, text: str) -> None:
        with pytest.raises(InvalidRequest, match=f"Unknown data format '{text}'") as caught:
            parse_data_format(text)
        assert caught.value.place.field == "dataFormat"
        assert caught.value.hint == "one of JsonAoS, JsonSoA, JsonAoA"


def holds_floats(data_type: pa.DataType) -> bool:
    """Whether innermost items are floating: Python cannot show each of their dates."""
    while data_type.num_fields:
        data_type = data_type.field(0).type
    return bool(pa.types.is_floating(data_type))


def non_finite(value: object) -> bool:
    """Whether a value of Python is, or has within, NaN or an infinity."""
    match value:
        case float():
            return not math.isfinite(value)
        case dict():
            return any(non_finite(each) for each in value.values())
        case list() | tuple():
            return any(non_finite(each) for each in value)
        case _:
            return False


@given(tables())
def test_columns_in_which_nulls_stand_for_other_values_are_told(table: pa.Table) -> None:
    document = rows_document(table, DataFormat.JSON_AOA)
    assert document["data"] == rows_to_json(table, DataFormat.JSON_AOA)
    floats = {field.name: table[field.name].to_pylist() for field in table.schema if holds_floats(field.type)}
    told = [name for name, values in floats.items() if non_finite(values)]
    assert document.get("nonFiniteColumns", []) == told
    assert ("nonFiniteColumns" in document) == bool(told)


@pytest.mark.parametrize(
    "array",
    [
        pa.array([{"a": {"b": math.inf}}]),
        pa.array([[("k", math.nan)]], pa.map_(pa.string(), pa.float64())),
        pa.array([[-math.inf, 1.0]], pa.list_(pa.float64(), 2)),
        pa.array([math.nan, math.nan]).dictionary_encode(),
        pa.array([{"a": 1.0}, {"a": math.nan}]),
    ],
)
def test_also_within_others(array: pa.Array) -> None:
    assert rows_document(pa.table({"x": array}), DataFormat.JSON_AOS)["nonFiniteColumns"] == ["x"]


def test_what_is_within_null_is_not_shown() -> None:
    hidden = pa.StructArray.from_arrays([pa.array([math.nan])], ["a"], mask=pa.array([True]))
    assert "nonFiniteColumns" not in rows_document(pa.table({"x": hidden}), DataFormat.JSON_AOS)
