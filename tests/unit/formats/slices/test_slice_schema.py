"""What slices may look like, and how rows are fitted to them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from odfabric.errors import IncompatibleSchema, InvalidData
from odfabric.formats.slices.arrow_schema import arrow_to_data_schema
from odfabric.formats.slices.slice_schema import (
    INCOMPATIBLE,
    check_compatible,
    check_readable,
    check_storable,
    fit_to_slice,
    new_slice_schema,
    types_interchangeable,
)
from odfabric.model.vocabulary import DatasetVocabulary


def required(name: str, data_type: pa.DataType) -> pa.Field:
    return pa.field(name, data_type, nullable=False)


class TestShape:
    def test_system_columns_come_first_and_are_required(self) -> None:
        schema = new_slice_schema([pa.field("city", pa.string())], vocabulary=DatasetVocabulary())
        millis = pa.timestamp("ms", "UTC")
        assert schema == pa.schema(
            [
                required("offset", pa.int64()),
                required("op", pa.int32()),
                required("system_time", millis),
                required("event_time", millis),
                pa.field("city", pa.string()),
            ]
        )

    def test_the_vocabulary_names_them(self) -> None:
        vocabulary = DatasetVocabulary(offset="o", operation_type="p", system_time="s", event_time="date")
        schema = new_slice_schema([], vocabulary=vocabulary, event_time_type=pa.date32())
        assert schema.names == ["o", "p", "s", "date"]
        assert schema.field("date").type == pa.date32()


class TestStorable:
    @pytest.mark.parametrize(
        "data_type",
        [
            pa.bool_(),
            pa.int8(),
            pa.uint64(),
            pa.float32(),
            pa.float64(),
            pa.decimal128(38, 2),
            pa.string(),
            pa.binary(3),
            pa.date32(),
            pa.timestamp("ms", "UTC"),
            pa.list_(pa.list_(pa.int8())),
            pa.struct([required("a", pa.int8()), required("b", pa.struct([required("c", pa.string())]))]),
        ],
        ids=str,
    )
    def test_supported(self, data_type: pa.DataType) -> None:
        check_storable(arrow_to_data_schema(pa.schema([("x", data_type)])))

    @pytest.mark.parametrize(
        ("data_type", "path", "reason"),
        [
            (pa.null(), "x", "is a Null"),
            (pa.time64("us"), "x", "is a Time, which is not supported"),
            (pa.duration("s"), "x", "is a Duration"),
            (pa.float16(), "x", "is a Float16"),
            (pa.decimal256(39, 0), "x", "Decimal of 39 digits, at most 38"),
            (pa.map_(pa.string(), pa.int8()), "x", "is a Map, which has no logical hash"),
            (pa.list_(pa.float16()), "x[]", "is a Float16"),
            (pa.list_(pa.struct([("a", pa.int8())])), "x[]", "Struct inside a List"),
            (pa.struct([required("a", pa.duration("s"))]), "x.a", "is a Duration"),
            (pa.struct([required("a", pa.list_(pa.int8(), 2))]), "x.a", "List of fixed length in a nullable struct"),
            (pa.struct([pa.field("a", pa.int8())]), "x.a", "nullable member of a nullable struct"),
            (pa.struct([pa.field("a", pa.list_(pa.int8()))]), "x.a", "nullable member of a nullable struct"),
            (
                pa.struct([required("a", pa.struct([pa.field("b", pa.int8())]))]),
                "x.a.b",
                "nullable member of a nullable struct",
            ),
            (
                pa.struct([pa.field("a", pa.struct([required("b", pa.int8())]))]),
                "x.a",
                "nullable member of a nullable struct",
            ),
        ],
    )
    def test_refused_by_name(self, data_type: pa.DataType, path: str, reason: str) -> None:
        with pytest.raises(IncompatibleSchema, match="Column `") as caught:
            check_storable(arrow_to_data_schema(pa.schema([("ok", pa.int8()), ("x", data_type)])))
        assert reason in caught.value.message
        assert caught.value.place.field == path

    @pytest.mark.parametrize(
        "data_type",
        [
            pa.map_(pa.string(), pa.list_(pa.struct([("a", pa.int8())]))),
            pa.list_(pa.struct([("a", pa.struct([("b", pa.int8())]))])),
            pa.struct([required("a", pa.list_(pa.int8(), 2))]),
        ],
        ids=str,
    )
    def test_a_query_may_read_what_no_slice_holds(self, data_type: pa.DataType) -> None:
        schema = arrow_to_data_schema(pa.schema([("x", data_type)]))
        check_readable(schema)
        with pytest.raises(IncompatibleSchema):
            check_storable(schema)

    @pytest.mark.parametrize(
        ("data_type", "path", "reason"),
        [
            (pa.map_(pa.string(), pa.float16()), "x{value}", "is a Float16"),
            (pa.map_(pa.time64("us"), pa.int8()), "x{key}", "is a Time"),
            (pa.list_(pa.struct([("a", pa.duration("s"))])), "x[].a", "is a Duration"),
            (pa.struct([("a", pa.decimal256(39, 0))]), "x.a", "Decimal of 39 digits, at most 38"),
        ],
    )
    def test_what_no_query_reads_is_refused_by_name(self, data_type: pa.DataType, path: str, reason: str) -> None:
        with pytest.raises(IncompatibleSchema) as caught:
            check_readable(arrow_to_data_schema(pa.schema([("x", data_type)])))
        assert reason in caught.value.message
        assert caught.value.place.field == path

    def test_a_required_struct_may_have_nullable_members(self) -> None:
        check_storable(arrow_to_data_schema(pa.schema([required("x", pa.struct([("a", pa.int8())]))])))


class TestCompatible:
    DATASET = pa.schema([required("offset", pa.int64()), pa.field("city", pa.string()), pa.field("n", pa.int64())])

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            (pa.string(), pa.large_string()),
            (pa.string(), pa.string_view()),
            (pa.binary(), pa.binary_view()),
            (pa.large_binary(), pa.binary()),
            (pa.list_(pa.string()), pa.large_list(pa.large_string())),
            (pa.list_(pa.field("item", pa.int8())), pa.list_(required("element", pa.int8()))),
            (pa.list_(pa.string(), 2), pa.list_(pa.large_string(), 2)),
            (pa.struct([("a", pa.string())]), pa.struct([required("a", pa.large_string())])),
            (pa.map_(pa.string(), pa.binary()), pa.map_(pa.large_string(), pa.large_binary())),
        ],
        ids=str,
    )
    def test_layouts_are_interchangeable(self, one: pa.DataType, other: pa.DataType) -> None:
        assert types_interchangeable(one, other)
        assert types_interchangeable(other, one)

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            (pa.string(), pa.binary()),
            (pa.int32(), pa.int64()),
            (pa.timestamp("ms", "UTC"), pa.timestamp("us", "UTC")),
            (pa.timestamp("ms", "UTC"), pa.timestamp("ms")),
            (pa.list_(pa.int8()), pa.list_(pa.int16())),
            (pa.list_(pa.int8(), 2), pa.list_(pa.int8(), 3)),
            (pa.struct([("a", pa.int8())]), pa.struct([("b", pa.int8())])),
            (pa.struct([("a", pa.int8()), ("b", pa.int8())]), pa.struct([("b", pa.int8()), ("a", pa.int8())])),
            (pa.decimal128(10, 2), pa.decimal128(10, 3)),
            (pa.map_(pa.string(), pa.int8()), pa.map_(pa.string(), pa.int16())),
            (pa.list_(pa.int8()), pa.int8()),
            (pa.map_(pa.string(), pa.int8()), pa.string()),
        ],
        ids=str,
    )
    def test_types_are_not(self, one: pa.DataType, other: pa.DataType) -> None:
        assert not types_interchangeable(one, other)
        assert not types_interchangeable(other, one)

    @pytest.mark.parametrize(
        ("new", "difference"),
        [
            (pa.schema([("offset", pa.int64()), ("city", pa.string())]), "instead of `offset`, `city`, `n`"),
            (
                pa.schema([("offset", pa.int64()), ("n", pa.int64()), ("city", pa.string())]),
                "the columns `offset`, `n`, `city`",
            ),
            (
                pa.schema([("offset", pa.int64()), ("city", pa.string()), ("n", pa.int32())]),
                "column `n` is int32 instead of int64",
            ),
        ],
    )
    def test_differences_are_named(self, new: pa.Schema, difference: str) -> None:
        with pytest.raises(IncompatibleSchema) as caught:
            check_compatible(new, self.DATASET)
        assert caught.value.message.startswith(INCOMPATIBLE)
        assert difference in caught.value.message

    def test_nullability_is_not_judged_by_the_schema(self) -> None:
        check_compatible(pa.schema([field.with_nullable(True) for field in self.DATASET]), self.DATASET)


class TestFitting:
    def test_rows_take_the_layout_and_nullability_of_the_dataset(self) -> None:
        dataset = pa.schema(
            [
                required("n", pa.int64()),
                pa.field("s", pa.string()),
                required("l", pa.list_(required("element", pa.string()))),
                pa.field("st", pa.struct([required("a", pa.int8())])),
                required("req", pa.int64()),
            ]
        )
        batch = pa.record_batch(
            {
                "n": pa.array([1, 2]),
                "s": pa.array(["x", None], pa.large_string()),
                "l": pa.array([["a"], []], pa.large_list(pa.string_view())),
                "st": pa.array([{"a": 1}, None], pa.struct([("a", pa.int8())])),
                "req": pa.array([1, 2]),
            }
        )
        fitted = fit_to_slice(batch, dataset)
        assert fitted.schema.equals(dataset)
        fitted.validate(full=True)
        assert fitted.to_pylist() == batch.to_pylist()

    def test_a_fitting_batch_is_not_copied(self) -> None:
        batch = pa.record_batch({"x": [1]})
        (column,) = fit_to_slice(batch, batch.schema).columns
        assert column.buffers()[1].address == batch.column("x").buffers()[1].address

    @pytest.mark.parametrize(
        ("values", "data_type", "text"),
        [
            ([1, None], pa.int64(), "Column `population` contains 1 null values while none were expected"),
            (
                [[1, None], [None]],
                pa.list_(required("element", pa.int64())),
                "Column `population[]` contains 2 null values while none were expected",
            ),
            (
                [{"a": 1}, {"a": None}],
                pa.struct([required("a", pa.int64())]),
                "Column `population.a` contains 1 null values while none were expected",
            ),
            (
                [[("k", 1), ("l", None)]],
                pa.map_(pa.string(), required("value", pa.int64())),
                "Column `population{value}` contains 1 null values while none were expected",
            ),
        ],
    )
    def test_nulls_where_none_are_expected(self, values: list[object], data_type: pa.DataType, text: str) -> None:
        nullable = {
            pa.list_(required("element", pa.int64())): pa.list_(pa.int64()),
            pa.struct([required("a", pa.int64())]): pa.struct([("a", pa.int64())]),
            pa.map_(pa.string(), required("value", pa.int64())): pa.map_(pa.string(), pa.int64()),
        }.get(data_type, data_type)
        batch = pa.record_batch({"population": pa.array([*values, *values], nullable).slice(len(values))})
        with pytest.raises(InvalidData) as caught:
            fit_to_slice(batch, pa.schema([required("population", data_type)]))
        assert caught.value.message == text
        assert caught.value.place.field == "population"

    def test_members_of_a_null_struct_are_not_missed(self) -> None:
        dataset = pa.schema([pa.field("s", pa.struct([required("a", pa.int64())]))])
        members = pa.array([1, None])
        array = pa.StructArray.from_arrays([members], names=["a"], mask=pa.array([False, True]))
        assert fit_to_slice(pa.record_batch({"s": array}), dataset).to_pylist() == [{"s": {"a": 1}}, {"s": None}]
