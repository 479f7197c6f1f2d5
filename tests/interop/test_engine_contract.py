"""Wire messages of `engine.Engine`: by hand from tables, by a runtime, malformed."""

from __future__ import annotations

import struct
from typing import Any

import flatbuffers
import pytest
from google.protobuf.wrappers_pb2 import BytesValue
from hypothesis import given, settings
from hypothesis import strategies as st

from odfabric.errors import InvalidRequest
from odfabric.formats.blocks.engine_contract import (
    decode_message,
    encode_message,
    vocabulary_from_contract,
    vocabulary_to_contract,
)
from odfabric.formats.blocks.engine_contract_tables import ENGINE_TABLES
from odfabric.model import engine_contract as contract
from odfabric.model.identity import DatasetId
from odfabric.model.instant import Instant
from odfabric.model.metadata import OffsetInterval, SqlQueryStep, TemporalTable, TransformSql
from odfabric.model.vocabulary import DatasetVocabulary
from odfabric.testing.events import nouns
from tests.support.chains.runtime_flatbuffers import build_message
from tests.support.turns import examples

OUT, IN = DatasetId(b"\x01" * 32), DatasetId(b"\x02" * 32)
REQUEST = contract.TransformRequest(
    dataset_id=OUT,
    dataset_alias="kamu/out",
    system_time=Instant.parse("2050-01-02T12:00:00.123456789Z"),
    vocab=contract.DatasetVocabulary(event_time_column="t"),
    transform=TransformSql(
        engine="spark",
        queries=(SqlQueryStep(alias="a", query="SELECT 1"), SqlQueryStep(query="SELECT 2")),
        temporal_tables=(TemporalTable(name="v", primary_key=("k",)),),
    ),
    query_inputs=(
        contract.TransformRequestInput(
            dataset_id=IN,
            dataset_alias="in",
            query_alias="żółw",
            vocab=contract.DatasetVocabulary(
                offset_column="o", operation_type_column="p", system_time_column="s", event_time_column="e"
            ),
            offset_interval=OffsetInterval(start=0, end=9),
            data_paths=("/opt/engine/in/f1620aa",),
            schema_file="/opt/engine/in/schema.parquet",
            explicit_watermarks=(
                contract.Watermark(
                    system_time=Instant.parse("2050-01-01T12:00:00Z"), event_time=Instant.parse("1969-12-31T23:59:59Z")
                ),
            ),
        ),
    ),
    next_offset=7,
    prev_checkpoint_path="/opt/engine/in/checkpoint",
    new_checkpoint_path="/opt/engine/out/checkpoint",
    new_data_path="/opt/engine/out/data",
)
ROOTS = (
    contract.RawQueryRequest,
    contract.RawQueryResponseRoot,
    contract.TransformRequest,
    contract.TransformResponseRoot,
)


def in_envelope(buffer: bytes) -> bytes:
    """Field 1, of kind bytes, written by hand."""
    size, length = len(buffer), b""
    while size > 0x7F:
        length += bytes([size & 0x7F | 0x80])
        size >>= 7
    return b"\x0a" + length + bytes([size]) + buffer


class ByHand:
    """The request above, slot by slot by the contract's tables, by a foreign builder."""

    def __init__(self) -> None:
        self.builder = flatbuffers.Builder()

    def texts(self, values: list[str]) -> int:
        return self.offsets([self.builder.CreateString(value) for value in values])

    def offsets(self, positions: list[int]) -> int:
        self.builder.StartVector(4, len(positions), 4)
        for position in reversed(positions):
            self.builder.PrependUOffsetTRelative(position)
        return int(self.builder.EndVector())

    def moment(self, slot: int, *fields: int) -> None:
        self.builder.Prep(4, 16)
        self.builder.head -= 16
        self.builder.Bytes[self.builder.head : self.builder.head + 16] = struct.pack("<iH2xII", *fields)
        self.builder.PrependStructSlot(slot, self.builder.Offset(), 0)

    def table(self, slots: int, **placed: int) -> int:
        """A table of offsets; names are `s` and the slot."""
        self.builder.StartObject(slots)
        for name, position in placed.items():
            self.builder.PrependUOffsetTRelativeSlot(int(name[1:]), position, 0)
        return int(self.builder.EndObject())

    def transform(self) -> int:
        text = self.builder.CreateString
        engine = text("spark")
        first = self.table(2, s0=text("a"), s1=text("SELECT 1"))
        second = self.table(2, s1=text("SELECT 2"))
        queries = self.offsets([first, second])
        temporal = self.table(2, s0=text("v"), s1=self.texts(["k"]))
        return self.table(5, s0=engine, s3=queries, s4=self.offsets([temporal]))

    def input(self) -> int:
        text, builder = self.builder.CreateString, self.builder
        identity = builder.CreateByteVector(b"\xed\x01" + b"\x02" * 32)
        alias, query_alias = text("in"), text("żółw")
        vocab = self.table(4, s0=text("o"), s1=text("p"), s2=text("s"), s3=text("e"))
        builder.StartObject(2)
        builder.PrependUint64Slot(1, 9, 0)
        interval = int(builder.EndObject())
        paths, schema = self.texts(["/opt/engine/in/f1620aa"]), text("/opt/engine/in/schema.parquet")
        builder.StartObject(2)
        self.moment(0, 2050, 1, 43_200, 0)
        self.moment(1, 1969, 365, 86_399, 0)
        marks = self.offsets([int(builder.EndObject())])
        return self.table(
            8, s0=identity, s1=alias, s2=query_alias, s3=vocab, s4=interval, s5=paths, s6=schema, s7=marks
        )

    def request(self) -> bytes:
        text, builder = self.builder.CreateString, self.builder
        identity = builder.CreateByteVector(b"\xed\x01" + b"\x01" * 32)
        alias, vocab = text("kamu/out"), self.table(4, s3=text("t"))
        transform, inputs = self.transform(), self.offsets([self.input()])
        before = text("/opt/engine/in/checkpoint")
        checkpoint, data = text("/opt/engine/out/checkpoint"), text("/opt/engine/out/data")
        builder.StartObject(11)
        builder.PrependUOffsetTRelativeSlot(0, identity, 0)
        builder.PrependUOffsetTRelativeSlot(1, alias, 0)
        self.moment(2, 2050, 2, 43_200, 123_456_789)
        builder.PrependUOffsetTRelativeSlot(3, vocab, 0)
        builder.PrependUint8Slot(4, 1, 0)
        builder.PrependUOffsetTRelativeSlot(5, transform, 0)
        builder.PrependUOffsetTRelativeSlot(6, inputs, 0)
        builder.PrependUint64Slot(7, 7, 0)
        builder.PrependUOffsetTRelativeSlot(8, before, 0)
        builder.PrependUOffsetTRelativeSlot(9, checkpoint, 0)
        builder.PrependUOffsetTRelativeSlot(10, data, 0)
        builder.Finish(builder.EndObject())
        return bytes(builder.Output())


def test_a_request_has_the_bytes_that_the_tables_say() -> None:
    expected = in_envelope(ByHand().request())
    assert encode_message(REQUEST) == expected
    assert decode_message(contract.TransformRequest, expected) == REQUEST


@pytest.mark.parametrize(
    ("root", "tag", "fields"),
    [
        (contract.TransformResponseRoot(value=contract.TransformResponseProgress()), 1, {}),
        (
            contract.TransformResponseRoot(
                value=contract.TransformResponseSuccess(new_offset_interval=None, new_watermark=None)
            ),
            2,
            {},
        ),
        (contract.TransformResponseRoot(value=contract.TransformResponseInvalidQuery(message="m")), 3, {0: "m"}),
        (
            contract.TransformResponseRoot(value=contract.TransformResponseInternalError(message="m", backtrace="b")),
            4,
            {0: "m", 1: "b"},
        ),
        (contract.RawQueryResponseRoot(value=contract.RawQueryResponseProgress()), 1, {}),
        (contract.RawQueryResponseRoot(value=contract.RawQueryResponseSuccess(num_records=0)), 2, {}),
        (contract.RawQueryResponseRoot(value=contract.RawQueryResponseInvalidQuery(message="m")), 3, {0: "m"}),
        (contract.RawQueryResponseRoot(value=contract.RawQueryResponseInternalError(message="m")), 4, {0: "m"}),
    ],
)
def test_responses_stand_in_a_root_around_the_union(root: object, tag: int, fields: dict[int, str]) -> None:
    builder = flatbuffers.Builder()
    placed = {slot: builder.CreateString(text) for slot, text in fields.items()}
    builder.StartObject(2)
    for slot, position in placed.items():
        builder.PrependUOffsetTRelativeSlot(slot, position, 0)
    member = builder.EndObject()
    builder.StartObject(2)
    builder.PrependUint8Slot(0, tag, 0)
    builder.PrependUOffsetTRelativeSlot(1, member, 0)
    builder.Finish(builder.EndObject())
    message = in_envelope(bytes(builder.Output()))
    assert encode_message(root) == message
    assert decode_message(type(root), message) == root


@pytest.mark.parametrize("root", ROOTS, ids=lambda root: root.__name__)
@given(st.data())
def test_every_message_is_laid_out_as_another_runtime_does_it(root: type, data: st.DataObject) -> None:
    noun = data.draw(nouns(root))
    message = encode_message(noun)
    assert message == in_envelope(build_message(noun))
    assert decode_message(root, message) == noun


def test_fields_in_another_order_and_zeros_that_are_written_mean_the_same() -> None:
    # Writers of other languages place large fields first, and may write defaults.
    builder = flatbuffers.Builder()
    builder.ForceDefaults(True)
    paths = ByHand()
    paths.builder = builder
    engine, query = builder.CreateString("spark"), builder.CreateString("SELECT 1")
    builder.StartObject(5)
    builder.PrependUOffsetTRelativeSlot(2, query, 0)
    builder.PrependUOffsetTRelativeSlot(0, engine, 0)
    transform = builder.EndObject()
    files, output = paths.texts(["in"]), builder.CreateString("out")
    builder.StartObject(4)
    builder.PrependUint8Slot(1, 1, 0)
    builder.PrependUOffsetTRelativeSlot(3, output, 0)
    builder.PrependUOffsetTRelativeSlot(0, files, 0)
    builder.PrependUOffsetTRelativeSlot(2, transform, 0)
    builder.Finish(builder.EndObject())
    found = decode_message(contract.RawQueryRequest, in_envelope(bytes(builder.Output())))
    assert found == contract.RawQueryRequest(
        input_data_paths=("in",), transform=TransformSql(engine="spark", query="SELECT 1"), output_data_path="out"
    )
    builder = flatbuffers.Builder()
    builder.ForceDefaults(True)
    builder.StartObject(1)
    builder.PrependUint64Slot(0, 0, 0)
    success = builder.EndObject()
    builder.StartObject(2)
    builder.PrependUint8Slot(0, 2, 0)
    builder.PrependUOffsetTRelativeSlot(1, success, 0)
    builder.Finish(builder.EndObject())
    root = decode_message(contract.RawQueryResponseRoot, in_envelope(bytes(builder.Output())))
    assert root.value == contract.RawQueryResponseSuccess(num_records=0)


def test_a_message_cut_short_is_refused() -> None:
    buffer = ByHand().request()
    message = in_envelope(buffer)
    for end in range(len(message)):
        with pytest.raises(InvalidRequest):
            decode_message(contract.TransformRequest, message[:end])
    for end in range(len(buffer) - 8):  # the last bytes may be padding
        with pytest.raises(InvalidRequest):
            decode_message(contract.TransformRequest, in_envelope(buffer[:end]))


@pytest.mark.parametrize("root", ROOTS, ids=lambda root: root.__name__)
@given(st.data())
@settings(max_examples=examples(300))
def test_any_bytes_give_a_message_or_a_refusal(root: type, data: st.DataObject) -> None:
    valid = bytearray(build_message(data.draw(nouns(root))))
    for _ in range(data.draw(st.integers(0, 4))):
        position = data.draw(st.integers(0, len(valid) - 1))
        width = data.draw(st.sampled_from([1, 2, 4, 8]))
        valid[position : position + width] = data.draw(st.binary(min_size=width, max_size=width))
    arbitrary = data.draw(st.binary(max_size=64))
    for message in (in_envelope(bytes(valid)), in_envelope(arbitrary), arbitrary):
        try:
            found: Any = decode_message(root, message)
        except InvalidRequest:
            continue
        assert isinstance(found, root)


def error_message(*, vtable: tuple[int, ...]) -> bytes:
    """An InternalError whose vtable is written by hand.

    Its object has 12 bytes: two strings behind the offset of the vtable.
    """
    builder = flatbuffers.Builder()
    texts = [builder.CreateString("m"), builder.CreateString("b")]
    builder.StartObject(2)
    for slot, position in enumerate(texts):
        builder.PrependUOffsetTRelativeSlot(slot, position, 0)
    member = builder.EndObject()
    builder.StartObject(2)
    builder.PrependUint8Slot(0, 4, 0)
    builder.PrependUOffsetTRelativeSlot(1, member, 0)
    builder.Finish(builder.EndObject())
    built = bytes(builder.Output())
    own = struct.pack("<4H", 8, 12, 8, 4)
    assert built.count(own) == 1
    return in_envelope(built.replace(own, struct.pack("<4H", *vtable)))


def test_fields_that_overlap_or_leave_their_table_are_refused() -> None:
    root = contract.TransformResponseRoot
    expected = contract.TransformResponseInternalError(message="m", backtrace="b")
    assert decode_message(root, error_message(vtable=(8, 12, 8, 4))).value == expected
    for vtable in ((8, 12, 4, 4), (8, 12, 6, 4), (8, 12, 8, 2), (8, 10, 8, 4), (8, 4, 8, 4), (8, 12, 9, 4)):
        with pytest.raises(InvalidRequest, match="vtable"):
            decode_message(root, error_message(vtable=vtable))


def test_many_references_to_one_table_are_refused_before_they_are_read() -> None:
    # A small message that unfolds to a large value: a vector whose entries all point at one table.
    hand = ByHand()
    one = hand.input()
    hand.builder.StartVector(4, 10_000, 4)
    for _ in range(10_000):
        hand.builder.PrependUOffsetTRelative(one)
    inputs = hand.builder.EndVector()
    hand.builder.StartObject(11)
    hand.builder.PrependUOffsetTRelativeSlot(6, inputs, 0)
    hand.builder.Finish(hand.builder.EndObject())
    with pytest.raises(InvalidRequest, match="required field is missing"):
        decode_message(contract.TransformRequest, in_envelope(bytes(hand.builder.Output())))
    hand = ByHand()
    text, builder = hand.builder.CreateString, hand.builder
    one, path = hand.transform(), text("p" * 1000)
    builder.StartVector(4, 1000, 4)
    for _ in range(1000):
        builder.PrependUOffsetTRelative(path)
    paths = builder.EndVector()
    builder.StartObject(4)
    builder.PrependUOffsetTRelativeSlot(0, paths, 0)
    builder.PrependUint8Slot(1, 1, 0)
    builder.PrependUOffsetTRelativeSlot(2, one, 0)
    builder.PrependUOffsetTRelativeSlot(3, path, 0)
    builder.Finish(builder.EndObject())
    with pytest.raises(InvalidRequest, match="overlap"):
        decode_message(contract.RawQueryRequest, in_envelope(bytes(builder.Output())))


def test_fields_of_a_newer_version_are_refused_by_name() -> None:
    builder = flatbuffers.Builder()
    text = builder.CreateString("m")
    builder.StartObject(3)
    builder.PrependUOffsetTRelativeSlot(0, text, 0)
    builder.PrependUOffsetTRelativeSlot(2, text, 0)
    member = builder.EndObject()
    builder.StartObject(2)
    builder.PrependUint8Slot(0, 4, 0)
    builder.PrependUOffsetTRelativeSlot(1, member, 0)
    builder.Finish(builder.EndObject())
    with pytest.raises(InvalidRequest, match="slot 2 is unknown"):
        decode_message(contract.TransformResponseRoot, in_envelope(bytes(builder.Output())))


def test_the_envelope_is_a_message_with_one_field() -> None:
    buffer = build_message(REQUEST)
    assert encode_message(REQUEST) == in_envelope(buffer)
    unknown = b"\x10\x05"  # field 2 of a newer contract, which protobuf passes over
    assert decode_message(contract.TransformRequest, in_envelope(buffer) + unknown) == REQUEST
    for message in (b"", BytesValue().SerializeToString(), b"\x0a\xff\xff\xff\xff\x7f", b"\xff"):
        with pytest.raises(InvalidRequest):
            decode_message(contract.TransformRequest, message)


def test_values_without_a_form_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="no binary form"):
        encode_message(
            contract.RawQueryResponseRoot(value=contract.RawQueryResponseInvalidQuery(message="half \ud800"))
        )


def test_absent_names_are_the_defaults() -> None:
    assert vocabulary_from_contract(contract.DatasetVocabulary()) == DatasetVocabulary()
    given_names = DatasetVocabulary(offset="a", operation_type="b", system_time="c", event_time="d")
    assert vocabulary_from_contract(vocabulary_to_contract(given_names)) == given_names
    assert set(ENGINE_TABLES) >= set(ROOTS)
