"""Data schemas as Arrow schemas and back, and the legacy form of SetDataSchema."""

from __future__ import annotations

import base64
import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.errors import IncompatibleSchema, InvalidBlock
from odfabric.formats.slices.arrow_schema import (
    arrow_to_data_schema,
    data_schema_to_arrow,
    upgrade_legacy_schema,
    with_explicit_defaults,
)
from odfabric.model.data_schema import (
    DataField,
    DataSchema,
    DataType,
    DataTypeBinary,
    DataTypeBool,
    DataTypeDate,
    DataTypeDecimal,
    DataTypeDuration,
    DataTypeInt8,
    DataTypeInt64,
    DataTypeList,
    DataTypeMap,
    DataTypeOption,
    DataTypeString,
    DataTypeStruct,
    DataTypeTime,
    DataTypeTimestamp,
    ExtraAttributes,
    TimeUnit,
)
from tests.support.chains.arrow_strategies import column_types
from tests.support.vectors import vectors

MS = TimeUnit.MILLISECOND

# Both directions of the table of types; the third member is the hint that leads back to another layout.
SAME_BOTH_WAYS: list[tuple[DataType, pa.DataType]] = [
    (DataTypeString(), pa.string()),
    (DataTypeBinary(), pa.binary()),
    (DataTypeBinary(fixed_length=3), pa.binary(3)),
    (DataTypeDate(), pa.date32()),
    (DataTypeDecimal(precision=38, scale=2), pa.decimal128(38, 2)),
    (DataTypeDecimal(precision=39, scale=2), pa.decimal256(39, 2)),
    (DataTypeDecimal(precision=5, scale=-2), pa.decimal128(5, -2)),
    (DataTypeTime(unit=TimeUnit.SECOND), pa.time32("s")),
    (DataTypeTime(unit=MS), pa.time32("ms")),
    (DataTypeTime(unit=TimeUnit.MICROSECOND), pa.time64("us")),
    (DataTypeTime(unit=TimeUnit.NANOSECOND), pa.time64("ns")),
    (DataTypeTimestamp(unit=MS, timezone="UTC"), pa.timestamp("ms", "UTC")),
    (DataTypeTimestamp(unit=TimeUnit.NANOSECOND, timezone="Europe/Berlin"), pa.timestamp("ns", "Europe/Berlin")),
    (DataTypeDuration(unit=TimeUnit.SECOND), pa.duration("s")),
    (DataTypeList(item_type=DataTypeInt8()), pa.list_(pa.field("item", pa.int8(), False))),
    (DataTypeList(item_type=DataTypeOption(inner=DataTypeInt8())), pa.list_(pa.field("item", pa.int8()))),
    (DataTypeList(item_type=DataTypeInt8(), fixed_length=2), pa.list_(pa.field("item", pa.int8(), False), 2)),
    (
        DataTypeMap(key_type=DataTypeString(), value_type=DataTypeOption(inner=DataTypeInt8()), keys_sorted=True),
        pa.map_(pa.field("keys", pa.string(), False), pa.field("values", pa.int8()), keys_sorted=True),
    ),
    (
        DataTypeStruct(fields=(DataField(name="m", type=DataTypeBool()),)),
        pa.struct([pa.field("m", pa.bool_(), False)]),
    ),
]


def schema_of(data_type: DataType, extra: dict[str, Any] | None = None) -> DataSchema:
    attributes = None if extra is None else ExtraAttributes(entries=json.dumps(extra))
    return DataSchema(fields=(DataField(name="x", type=data_type, extra=attributes),))


class TestTypes:
    @pytest.mark.parametrize(("data_type", "arrow"), SAME_BOTH_WAYS, ids=lambda value: str(value)[:40])
    def test_both_directions(self, data_type: DataType, arrow: pa.DataType) -> None:
        for nullable in (False, True):
            of_field = DataTypeOption(inner=data_type) if nullable else data_type
            arrow_schema = pa.schema([pa.field("x", arrow, nullable=nullable)])
            assert data_schema_to_arrow(schema_of(of_field)).equals(arrow_schema)
            assert arrow_to_data_schema(arrow_schema) == schema_of(of_field)

    @pytest.mark.parametrize(
        ("name", "arrow"),
        [
            ("Bool", pa.bool_()),
            ("Float16", pa.float16()),
            ("Float32", pa.float32()),
            ("Float64", pa.float64()),
            ("Null", pa.null()),
        ],
    )
    def test_plain_types_keep_their_names(self, name: str, arrow: pa.DataType) -> None:
        found = arrow_to_data_schema(pa.schema([pa.field("x", arrow, arrow == pa.null())]))
        assert type(found.fields[0].type).__name__ == f"DataType{name}"
        assert data_schema_to_arrow(found).field(0).type == arrow

    @pytest.mark.parametrize("signed", [True, False])
    @pytest.mark.parametrize("bits", [8, 16, 32, 64])
    def test_integers(self, bits: int, signed: bool) -> None:
        arrow = getattr(pa, f"{'' if signed else 'u'}int{bits}")()
        found = arrow_to_data_schema(pa.schema([pa.field("x", arrow, False)]))
        assert type(found.fields[0].type).__name__ == f"DataType{'' if signed else 'U'}Int{bits}"
        assert data_schema_to_arrow(found).field(0).type == arrow

    def test_absent_members_have_their_defaults(self) -> None:
        for data_type, arrow in (
            (DataTypeTimestamp(), pa.timestamp("ms", "UTC")),
            (DataTypeTime(), pa.time32("ms")),
            (DataTypeDuration(), pa.duration("ms")),
        ):
            assert data_schema_to_arrow(schema_of(data_type)).field(0).type == arrow

    def test_a_naive_timestamp_reads_back_as_utc(self) -> None:
        schema = arrow_to_data_schema(pa.schema([pa.field("x", pa.timestamp("us"), False)]))
        assert schema == schema_of(DataTypeTimestamp(unit=TimeUnit.MICROSECOND))
        assert data_schema_to_arrow(schema).field(0).type == pa.timestamp("us", "UTC")

    @pytest.mark.parametrize(
        ("data_type", "reason"),
        [
            (DataTypeDecimal(precision=77, scale=0), "precision"),
            (DataTypeDecimal(precision=0, scale=0), "precision"),
            (DataTypeOption(inner=DataTypeOption(inner=DataTypeBool())), "Option inside an Option"),
            (DataTypeList(item_type=DataTypeBool(), fixed_length=2**40), ""),
            (DataTypeBinary(fixed_length=2**40), ""),
        ],
    )
    def test_what_arrow_cannot_hold_is_named(self, data_type: DataType, reason: str) -> None:
        nested = schema_of(DataTypeStruct(fields=(DataField(name="m", type=data_type),)))
        with pytest.raises(IncompatibleSchema, match=r"Field `x\.m`") as caught:
            data_schema_to_arrow(nested)
        assert reason in caught.value.message
        assert caught.value.place.field == "x.m"

    @pytest.mark.parametrize(
        "arrow", [pa.month_day_nano_interval(), pa.dense_union([pa.field("a", pa.int8())])], ids=str
    )
    def test_what_the_specification_does_not_have_is_named(self, arrow: pa.DataType) -> None:
        with pytest.raises(IncompatibleSchema, match=r"Field `x\[\]`.*no counterpart"):
            arrow_to_data_schema(pa.schema([("x", pa.list_(arrow))]))

    def test_dictionaries_are_refused(self) -> None:
        with pytest.raises(IncompatibleSchema):
            arrow_to_data_schema(pa.schema([("x", pa.dictionary(pa.int8(), pa.string()))]))


class TestEncodings:
    LAYOUTS = (
        (pa.string(), '{"arrow.apache.org/bufferEncoding":{"kind":"Contiguous","offsetBitWidth":32}}'),
        (pa.large_string(), '{"arrow.apache.org/bufferEncoding":{"kind":"Contiguous","offsetBitWidth":64}}'),
        (pa.string_view(), '{"arrow.apache.org/bufferEncoding":{"kind":"View","offsetBitWidth":32}}'),
        (pa.large_binary(), '{"arrow.apache.org/bufferEncoding":{"kind":"Contiguous","offsetBitWidth":64}}'),
        (pa.binary_view(), '{"arrow.apache.org/bufferEncoding":{"kind":"View","offsetBitWidth":32}}'),
        (pa.date64(), '{"arrow.apache.org/dateEncoding":{"unit":"Millisecond"}}'),
        (pa.decimal32(5, 2), '{"arrow.apache.org/decimalEncoding":{"bitWidth":32}}'),
        (pa.decimal256(5, 2), '{"arrow.apache.org/decimalEncoding":{"bitWidth":256}}'),
        (pa.large_list(pa.field("item", pa.int8())), None),
        (pa.list_view(pa.field("item", pa.int8())), None),
        (pa.large_list_view(pa.field("item", pa.int8())), None),
        (pa.run_end_encoded(pa.int16(), pa.int8()), None),
        (pa.run_end_encoded(pa.int32(), pa.string()), None),
        (pa.run_end_encoded(pa.int64(), pa.int8()), None),
    )

    @pytest.mark.parametrize(("arrow", "entries"), LAYOUTS, ids=str)
    def test_hints_lead_back_to_the_same_layout(self, arrow: pa.DataType, entries: str | None) -> None:
        arrow_schema = pa.schema([pa.field("x", arrow, False)])
        with_hints = arrow_to_data_schema(arrow_schema, encodings=True)
        assert data_schema_to_arrow(with_hints).equals(arrow_schema)
        assert with_hints.fields[0].extra is not None
        if entries is not None:
            assert with_hints.fields[0].extra.entries == entries

    @pytest.mark.parametrize(("arrow", "entries"), LAYOUTS, ids=str)
    def test_without_them_the_usual_layout_is_taken(self, arrow: pa.DataType, entries: str | None) -> None:
        stripped = arrow_to_data_schema(pa.schema([pa.field("x", arrow, False)]))
        assert stripped.fields[0].extra is None
        with_hints = arrow_to_data_schema(pa.schema([pa.field("x", arrow, False)]), encodings=True)
        assert data_schema_to_arrow(with_hints, encodings=False).equals(data_schema_to_arrow(stripped))

    @pytest.mark.parametrize(
        "entries",
        [
            "no json",
            "[1]",
            '{"arrow.apache.org/bufferEncoding": 1}',
            '{"arrow.apache.org/bufferEncoding": {"kind": ["View"], "offsetBitWidth": [64]}}',
            '{"arrow.apache.org/bufferEncoding": {"kind": "Unheard"}}',
        ],
    )
    def test_hints_that_say_nothing_are_passed_over(self, entries: str) -> None:
        field = DataField(name="x", type=DataTypeString(), extra=ExtraAttributes(entries=entries))
        assert data_schema_to_arrow(DataSchema(fields=(field,))).field(0).type == pa.string()

    def test_a_run_end_hint_of_unknown_width(self) -> None:
        hint = {"arrow.apache.org/bufferEncoding": {"kind": "RunEnd", "runEndsBitWidth": [1]}}
        found = data_schema_to_arrow(schema_of(DataTypeInt8(), hint)).field(0).type
        assert found == pa.run_end_encoded(pa.int32(), pa.int8())

    def test_extension_types_are_their_storage(self) -> None:
        schema = arrow_to_data_schema(pa.schema([("u", pa.uuid()), ("j", pa.json_())]))
        inner = [field.type.inner for field in schema.fields if isinstance(field.type, DataTypeOption)]
        assert inner == [DataTypeBinary(fixed_length=16), DataTypeString()]

    @given(st.lists(column_types(), max_size=4))
    def test_every_storable_type_survives_the_way_there_and_back(self, arrow_types: list[pa.DataType]) -> None:
        arrow_schema = pa.schema([pa.field(f"c{index}", each) for index, each in enumerate(arrow_types)])
        schema = arrow_to_data_schema(arrow_schema)
        again = arrow_to_data_schema(data_schema_to_arrow(schema))
        assert with_explicit_defaults(schema) == again
        assert again == with_explicit_defaults(again)


class TestMeaning:
    def test_absent_members_mean_their_defaults(self) -> None:
        def all_kinds(stamp: DataType, time: DataType, duration: DataType, *, keys_sorted: bool | None) -> DataSchema:
            inner = DataTypeStruct(fields=(DataField(name="m", type=DataTypeOption(inner=stamp)),))
            of_map = DataTypeMap(key_type=time, value_type=duration, keys_sorted=keys_sorted)
            return DataSchema(
                fields=(
                    DataField(name="a", type=DataTypeList(item_type=inner)),
                    DataField(name="b", type=of_map, extra=ExtraAttributes(entries='{"any":1}')),
                )
            )

        short = all_kinds(DataTypeTimestamp(), DataTypeTime(), DataTypeDuration(), keys_sorted=None)
        long = all_kinds(
            DataTypeTimestamp(unit=MS, timezone="UTC"),
            DataTypeTime(unit=MS),
            DataTypeDuration(unit=MS),
            keys_sorted=False,
        )
        assert short != long
        assert with_explicit_defaults(short) == long


class TestLegacy:
    RAW = tuple(
        base64.b64decode(vector["block"]["event"]["rawArrowSchema"])
        for section in ("blocks", "ownBlocks")
        for vector in vectors(section)
        if "rawArrowSchema" in vector["block"]["event"]
    )

    def test_the_vectors_are_read(self) -> None:
        assert self.RAW
        expected = (DataField(name="a", type=DataTypeInt64()), DataField(name="b", type=DataTypeBool()))
        for raw in self.RAW:
            assert upgrade_legacy_schema(raw) == DataSchema(fields=expected)

    @given(st.lists(column_types(), max_size=4))
    def test_any_arrow_schema_in_that_form_is_upgraded(self, arrow_types: list[pa.DataType]) -> None:
        arrow_schema = pa.schema([pa.field(f"c{index}", each) for index, each in enumerate(arrow_types)])
        assert upgrade_legacy_schema(_bare_schema(arrow_schema)) == arrow_to_data_schema(arrow_schema)

    @given(st.data())
    def test_damaged_bytes_are_refused_as_such(self, data: st.DataObject) -> None:
        raw = bytearray(data.draw(st.sampled_from(self.RAW)))
        for _ in range(data.draw(st.integers(1, 3))):
            raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
        try:
            upgrade_legacy_schema(bytes(raw[: data.draw(st.integers(0, len(raw)))]))
        except InvalidBlock as error:
            assert error.kind == "MalformedBlock"  # noqa: PT017
        except IncompatibleSchema as error:
            assert error.place.field  # noqa: PT017

    def test_nonsense_is_a_malformed_block(self) -> None:
        for raw in (b"", b"\x01", b"\xff" * 64, bytes(64)):
            with pytest.raises(InvalidBlock) as caught:
                upgrade_legacy_schema(raw)
            assert caught.value.kind == "MalformedBlock"


def _bare_schema(schema: pa.Schema) -> bytes:
    """The Schema FlatBuffer of an IPC message as a buffer with its own root offset."""
    message: bytes = schema.serialize().to_pybytes()[8:]
    root = int.from_bytes(message[:4], "little")
    vtable = root - int.from_bytes(message[root : root + 4], "little", signed=True)
    header_field = root + int.from_bytes(message[vtable + 8 : vtable + 10], "little")
    header = header_field + int.from_bytes(message[header_field : header_field + 4], "little")
    return (header + 8).to_bytes(4, "little") + bytes(4) + message
