"""Block codec: laws over all events, another FlatBuffers runtime, refusals."""

from __future__ import annotations

import random
import struct
import time
from dataclasses import replace
from typing import cast

import flatbuffers
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.errors import InvalidBlock, LimitExceeded
from odfabric.formats.blocks.block import (
    BLOCK_DEPTH_MAX,
    block_hash,
    decode_block,
    encode_block,
    encode_block_of_version,
    read_block_header,
)
from odfabric.formats.blocks.block_tables import METADATA_EVENT, TABLES, Manifest
from odfabric.formats.blocks.engine_contract_tables import ENGINE_TABLES
from odfabric.formats.blocks.flatbuffer_layout import SHAPES
from odfabric.formats.blocks.flatbuffer_writer import FlatBufferWriter
from odfabric.model.data_schema import (
    DataField,
    DataSchema,
    DataType,
    DataTypeInt8,
    DataTypeList,
    DataTypeOption,
    ExtraAttributes,
)
from odfabric.model.instant import Instant
from odfabric.model.metadata import (
    AddData,
    MetadataBlock,
    MetadataEvent,
    SetDataSchema,
    SetInfo,
    SetTransform,
    SetVocab,
    TransformInput,
    TransformSql,
)
from odfabric.testing.events import blocks, events, nouns
from tests.support.chains.runtime_flatbuffers import build_block

NOON = Instant.parse("2020-01-01T12:00:00.123456789Z")
VERSIONS = st.sampled_from([2, 3])


def block_of(event: MetadataEvent, *, system_time: Instant = NOON) -> MetadataBlock:
    return MetadataBlock(system_time=system_time, prev_block_hash=None, sequence_number=1, event=event)


def refused(data: bytes, kind: str = "MalformedBlock") -> str:
    with pytest.raises(InvalidBlock) as caught:
        decode_block(data)
    assert caught.value.kind == kind
    return str(caught.value)


def stored(content: bytes, *, kind: int = 0x400000, version: int = 3) -> bytes:
    return FlatBufferWriter(depth_max=1).finish(Manifest(kind=kind, version=version, content=content))


def content_of(block: MetadataBlock) -> bytes:
    return FlatBufferWriter(depth_max=BLOCK_DEPTH_MAX).finish(block)


def block_content(builder: flatbuffers.Builder, event: int, *, event_type: int) -> bytes:
    """A block around an event that another runtime has built."""
    builder.StartObject(5)
    builder.Prep(4, 16)
    builder.head -= 16
    builder.Bytes[builder.head : builder.head + 16] = struct.pack("<iHHII", 2020, 1, 0, 0, 0)
    builder.PrependStructSlot(0, builder.Offset(), 0)
    builder.PrependUint8Slot(3, event_type, 0)
    builder.PrependUOffsetTRelativeSlot(4, event, 0)
    builder.Finish(builder.EndObject())
    return bytes(builder.Output())


class TestLaws:
    @given(blocks(), VERSIONS)
    def test_decoding_gives_back_what_was_encoded(self, block: MetadataBlock, version: int) -> None:
        data = encode_block_of_version(block, manifest_version=version)
        assert decode_block(data) == block
        header = read_block_header(data)
        assert (header.system_time, header.prev_block_hash, header.sequence_number, header.event_type) == (
            block.system_time,
            block.prev_block_hash,
            block.sequence_number,
            type(block.event).__name__,
        )
        assert header.manifest_version == version

    @pytest.mark.parametrize("event_type", METADATA_EVENT.members, ids=lambda member: member.__name__)
    @given(st.data())
    def test_every_event_is_laid_out_as_another_runtime_does_it(self, event_type: type, data: st.DataObject) -> None:
        block = block_of(data.draw(nouns(event_type)))
        for version in (2, 3):
            ours = encode_block_of_version(block, manifest_version=version)
            assert ours == build_block(block, manifest_version=version)

    @given(events(), events())
    def test_different_events_have_different_hashes(self, one: MetadataEvent, other: MetadataEvent) -> None:
        same_hash = block_hash(encode_block(block_of(one))) == block_hash(encode_block(block_of(other)))
        assert same_hash == (one == other)

    @given(st.integers(-(2**31) * 31_556_000 * 10**9, 2**31 * 31_556_000 * 10**9))
    def test_times_keep_their_nanoseconds_in_all_years(self, epoch_ns: int) -> None:
        block = block_of(AddData(new_watermark=Instant(epoch_ns)), system_time=Instant(epoch_ns))
        assert decode_block(encode_block(block)) == block


class TestAbsence:
    def test_absent_empty_and_default_are_three_encodings(self) -> None:
        three = [SetInfo(), SetInfo(keywords=()), SetInfo(description="")]
        assert len({encode_block(block_of(event)) for event in three}) == 3

    def test_an_offset_of_zero_is_written(self) -> None:
        assert decode_block(encode_block(block_of(AddData(prev_offset=0)))).event == AddData(prev_offset=0)


class TestVersions:
    @pytest.mark.parametrize(
        ("version", "kind", "text"),
        [
            (-1, "ObsoleteVersion", "Obsolete version: manifest has version -1 while minimum supported version is 2"),
            (0, "ObsoleteVersion", "Obsolete version: manifest has version 0 while minimum supported version is 2"),
            (1, "ObsoleteVersion", "Obsolete version: manifest has version 1 while minimum supported version is 2"),
            (
                4,
                "UnsupportedVersion",
                "Unsupported version: manifest has version 4 while maximum supported version is 3",
            ),
        ],
    )
    def test_other_versions_are_refused_by_name(self, version: int, kind: str, text: str) -> None:
        data = stored(content_of(block_of(SetInfo())), version=version)
        assert text in refused(data, kind)
        with pytest.raises(InvalidBlock, match=text):
            read_block_header(data)

    def test_the_layout_of_the_other_version_is_refused(self) -> None:
        watermark = block_of(AddData(prev_offset=1, new_watermark=NOON))
        old, new = (encode_block_of_version(watermark, manifest_version=version) for version in (2, 3))
        assert len(old) == len(new)
        swapped = old.replace(struct.pack("<i", 2), struct.pack("<i", 3), 1)
        assert swapped != new
        assert "canonical" in refused(swapped)

    def test_other_kinds_of_manifests_are_refused(self) -> None:
        assert "0x400001" in refused(stored(content_of(block_of(SetInfo())), kind=0x400001))


class TestNewerWriters:
    def test_an_unknown_field_is_named(self) -> None:
        builder = flatbuffers.Builder()
        builder.StartObject(10)
        builder.PrependUint8Slot(8, 1, 0)
        message = refused(stored(block_content(builder, builder.EndObject(), event_type=1)))
        assert message.startswith("AddData: slot 8 is unknown here")
        assert "newer version" in message

    def test_room_for_unknown_fields_is_not_canonical(self) -> None:
        builder = flatbuffers.Builder()
        builder.StartObject(1)
        builder.PrependUint64Slot(0, 1, None)
        event = builder.EndObject()
        assert "AddData" in refused(stored(block_content(builder, event, event_type=1)))

    def test_an_unknown_event_is_named(self) -> None:
        data = encode_block(block_of(SetInfo()))
        at = data.index(b"\0\0\0\x08")
        message = refused(data[:at] + b"\0\0\0\x0e" + data[at + 4 :])
        assert "MetadataEvent has no member 14" in message
        assert "newer version" in message


class TestHostileBytes:
    @given(st.binary(max_size=200))
    def test_random_bytes_are_refused(self, data: bytes) -> None:
        refused(data)

    @given(blocks(), VERSIONS, st.data())
    def test_changed_bytes_are_refused_or_are_another_block(
        self, block: MetadataBlock, version: int, draw: st.DataObject
    ) -> None:
        """Whatever is accepted writes itself again: no value has two encodings."""
        data = bytearray(encode_block_of_version(block, manifest_version=version))
        for _ in range(draw.draw(st.integers(1, 3))):
            data[draw.draw(st.integers(0, len(data) - 1))] = draw.draw(st.integers(0, 255))
        try:
            found = decode_block(bytes(data))
        except InvalidBlock:
            return
        read_version = read_block_header(bytes(data)).manifest_version
        assert encode_block_of_version(found, manifest_version=read_version) == data

    @given(blocks(), st.data())
    def test_cut_and_extended_blocks_are_refused(self, block: MetadataBlock, draw: st.DataObject) -> None:
        data = encode_block(block)
        refused(data[: draw.draw(st.integers(0, len(data) - 1))])
        refused(data + b"\0" * draw.draw(st.integers(1, 9)))

    def test_padding_and_terminators_must_be_zero(self) -> None:
        data = encode_block(block_of(SetInfo(description="abc", keywords=("d",))))
        for place in (data.index(b"abc\0") + 3, data.index(b"d\0") + 2, 4):
            assert data[place] == 0
            assert "canonical" in refused(data[:place] + b"\1" + data[place + 1 :])

    def test_a_required_field_must_be_there(self) -> None:
        builder = flatbuffers.Builder()
        text = builder.CreateString("x")
        builder.StartObject(4)
        builder.PrependUOffsetTRelativeSlot(0, text, 0)
        message = refused(stored(block_content(builder, builder.EndObject(), event_type=9)))
        assert message == "SetLicense.name: a required field is missing"

    @pytest.mark.parametrize("half", ["tag", "value"])
    def test_a_union_has_a_tag_and_a_value(self, half: str) -> None:
        """An AddPushSource that is whole but for its preprocess step."""
        builder = flatbuffers.Builder()
        name = builder.CreateString("x")
        builder.StartObject(0)
        empty = builder.EndObject()
        builder.StartObject(7)
        builder.PrependUOffsetTRelativeSlot(0, name, 0)
        builder.PrependUint8Slot(1, 4, 0)
        builder.PrependUOffsetTRelativeSlot(2, empty, 0)
        if half == "tag":
            builder.PrependUint8Slot(3, 1, 0)
        else:
            builder.PrependUOffsetTRelativeSlot(4, empty, 0)
        builder.PrependUint8Slot(5, 1, 0)
        builder.PrependUOffsetTRelativeSlot(6, empty, 0)
        message = refused(stored(block_content(builder, builder.EndObject(), event_type=11)))
        assert message == "AddPushSource.preprocess: a union has its tag or its value, not both"

    def test_a_vtable_lies_inside(self) -> None:
        data = encode_block(block_of(SetInfo()))
        [root] = struct.unpack_from("<I", data)
        assert "vtable lies outside" in refused(data[:root] + struct.pack("<i", root + 1) + data[root + 4 :])

    def test_a_text_ends_inside(self) -> None:
        data = encode_block(block_of(SetInfo(description="text")))
        at = data.index(b"\4\0\0\0text")
        assert "100 bytes are declared" in refused(data[:at] + b"\x64" + data[at + 1 :])

    @pytest.mark.parametrize(
        ("moment", "problem"),
        [
            ((2020, 0, 0, 0, 0), "day 0"),
            ((2021, 366, 0, 0, 0), "day 366"),
            ((2020, 367, 0, 0, 0), "day 367"),
            ((2020, 1, 0, 86_400, 0), "second 86400"),
            ((2020, 1, 0, 0, 10**9), "1000000000 ns"),
            ((2020, 1, 1, 0, 0), "not a timestamp"),
        ],
    )
    def test_times_have_one_form(self, moment: tuple[int, ...], problem: str) -> None:
        good = struct.pack("<iHHII", 2020, 1, 0, 43_200, 123_456_789)
        data = encode_block(block_of(SetInfo())).replace(good, struct.pack("<iHHII", *moment))
        assert problem in refused(data)
        with pytest.raises(InvalidBlock, match=r"MetadataBlock\.system_time: not a timestamp"):
            read_block_header(data)

    @pytest.mark.parametrize(
        ("event", "old", "new", "problem"),
        [
            (SetInfo(description="text"), b"text", b"te\xfft", "SetInfo.description: text is not UTF-8"),
            (AddData(extra=ExtraAttributes(entries='{"a":1}')), b'{"a":1}', b'{"a":1,', "extra|entries"),
            (AddData(extra=ExtraAttributes(entries='{"a":1}')), b'{"a":1}', b'["a",1]', "expected an object"),
            (SetDataSchema(raw_arrow_schema=b"\x07"), b"\x06\0\x08\0\x04\0", b"\x04\0\x04\0\0\0", "SetDataSchema"),
        ],
    )
    def test_contents_are_checked(self, event: MetadataEvent, old: bytes, new: bytes, problem: str) -> None:
        data = encode_block(block_of(event))
        assert old in data
        with pytest.raises(InvalidBlock, match=problem):
            decode_block(data.replace(old, new, 1))

    @pytest.mark.parametrize("reference", ["", "a b", "did:odf:z6Mk", "repo/account/name"])
    def test_references_are_references(self, reference: str) -> None:
        inputs = (TransformInput(dataset_ref=reference, alias="x"),)
        data = encode_block(block_of(SetTransform(inputs=inputs, transform=TransformSql(engine="spark"))))
        assert "TransformInput.dataset_ref" in refused(data)

    def test_identities_are_spelled_canonically(self) -> None:
        reference = "did:odf:z6MkmgVreHBu2ABaD59Jq1J2JneXwzpsUWwEWXS4kLhjb4V4"
        inputs = (TransformInput(dataset_ref=reference, alias="x"),)
        data = encode_block(block_of(SetTransform(inputs=inputs, transform=TransformSql(engine="spark"))))
        assert "canonical spelling" in refused(data)


def nested(depth: int) -> MetadataBlock:
    found: DataType = DataTypeInt8()
    for _ in range(depth):
        found = DataTypeList(item_type=DataTypeOption(inner=found))
    return block_of(SetDataSchema(schema=DataSchema(fields=(DataField(name="a", type=found),))))


class TestBounds:
    def test_nesting_ends_at_the_limit_on_both_sides(self) -> None:
        """Block, event, schema, field and innermost type take five levels."""
        deepest = nested((BLOCK_DEPTH_MAX - 5) // 2)
        assert decode_block(encode_block(deepest)) == deepest
        with pytest.raises(InvalidBlock, match="nested too deeply"):
            encode_block(nested((BLOCK_DEPTH_MAX - 5) // 2 + 1))
        content = FlatBufferWriter(depth_max=500).finish(nested(60))
        assert "nested too deeply" in refused(stored(content))

    def test_very_deep_nesting_is_refused_without_exhausting_the_stack(self) -> None:
        builder = flatbuffers.Builder()
        name = builder.CreateString("")
        builder.StartObject(0)
        held, tag = builder.EndObject(), 9
        for _ in range(5000):
            builder.StartObject(3)
            builder.PrependUint8Slot(0, tag, 0)
            builder.PrependUOffsetTRelativeSlot(1, held, 0)
            held, tag = builder.EndObject(), 17
        builder.StartObject(4)
        builder.PrependUOffsetTRelativeSlot(0, name, 0)
        builder.PrependUint8Slot(1, tag, 0)
        builder.PrependUOffsetTRelativeSlot(2, held, 0)
        field = builder.EndObject()
        builder.StartVector(4, 1, 4)
        builder.PrependUOffsetTRelative(field)
        fields = builder.EndVector()
        builder.StartObject(2)
        builder.PrependUOffsetTRelativeSlot(0, fields, 0)
        schema = builder.EndObject()
        builder.StartObject(2)
        builder.PrependUOffsetTRelativeSlot(1, schema, 0)
        content = block_content(builder, builder.EndObject(), event_type=10)
        assert refused(stored(content)) == "DataTypeList: nested too deeply"

    def test_size_ends_at_the_limit_on_both_sides(self) -> None:
        block = block_of(SetInfo(description="x" * 1000))
        data = encode_block(block)
        assert decode_block(data, block_bytes_max=len(data)) == block
        with pytest.raises(InvalidBlock, match="block_bytes_max"):
            decode_block(data, block_bytes_max=len(data) - 1)
        with pytest.raises(LimitExceeded):
            encode_block_of_version(block, manifest_version=3, block_bytes_max=len(data) - 1)

    def test_shared_parts_are_refused_at_once(self) -> None:
        """A struct of two identical fields, 30 times: 2^30 visits unless counted."""
        builder = flatbuffers.Builder()
        name = builder.CreateString("")
        builder.StartObject(0)
        held, held_tag = builder.EndObject(), 9
        for _ in range(30):
            builder.StartObject(3)
            builder.PrependUOffsetTRelativeSlot(0, name, 0)
            builder.PrependUint8Slot(1, held_tag, 0)
            builder.PrependUOffsetTRelativeSlot(2, held, 0)
            field = builder.EndObject()
            builder.StartVector(4, 2, 4)
            builder.PrependUOffsetTRelative(field)
            builder.PrependUOffsetTRelative(field)
            fields = builder.EndVector()
            builder.StartObject(1)
            builder.PrependUOffsetTRelativeSlot(0, fields, 0)
            held, held_tag = builder.EndObject(), 21
        builder.StartObject(2)
        builder.PrependUOffsetTRelativeSlot(1, held, 0)
        event = builder.EndObject()
        started = time.monotonic()
        assert "overlap" in refused(stored(block_content(builder, event, event_type=10)))
        assert time.monotonic() - started < 5

    def test_large_hostile_blocks_take_linear_time(self) -> None:
        chance = random.Random(7)
        data = bytearray(encode_block(block_of(SetInfo(keywords=tuple("k" * 8 for _ in range(50_000))))))
        started = time.monotonic()
        for _ in range(20):
            spoiled = bytearray(data)
            for _ in range(50):
                spoiled[chance.randrange(64, len(spoiled))] = chance.randrange(256)
            refused(bytes(spoiled))
        assert time.monotonic() - started < 20


class TestUnencodable:
    @pytest.mark.parametrize(
        ("block", "problem"),
        [
            (replace(block_of(SetInfo()), sequence_number=-1), "MetadataBlock"),
            (replace(block_of(SetInfo()), sequence_number=2**64), "MetadataBlock"),
            (block_of(AddData(prev_offset=2**64)), "AddData"),
            (block_of(SetInfo(description="\ud800")), "SetInfo.description"),
            (block_of(SetVocab(), system_time=Instant(2**31 * 366 * 86_400 * 10**9)), "MetadataBlock.system_time"),
            (replace(block_of(SetInfo()), event=cast("MetadataEvent", None)), "required"),
        ],
    )
    def test_values_without_a_binary_form_are_refused(self, block: MetadataBlock, problem: str) -> None:
        with pytest.raises(InvalidBlock, match=problem) as caught:
            encode_block(block)
        assert caught.value.kind == "MalformedBlock"

    def test_other_versions_are_not_written(self) -> None:
        with pytest.raises(InvalidBlock, match="Unsupported version"):
            encode_block_of_version(block_of(SetInfo()), manifest_version=4)


def test_every_noun_of_the_model_has_a_shape() -> None:
    assert SHAPES.keys() == (TABLES | ENGINE_TABLES).keys()
