"""Rules about a block alone (A, X9 to X14): one breaks exactly it, one does not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.domain.chain.bounds import check_bounds
from odfabric.errors import InvalidBlock
from odfabric.formats.blocks.block import decode_block
from odfabric.model.data_schema import (
    DataField,
    DataSchema,
    DataType,
    DataTypeBinary,
    DataTypeInt64,
    DataTypeList,
    DataTypeOption,
    DataTypeStruct,
)
from odfabric.model.instant import FIRST_INSTANT, LAST_INSTANT, Instant
from odfabric.model.metadata import (
    AddData,
    AddPushSource,
    DatasetKind,
    DisablePollingSource,
    DisablePushSource,
    MetadataBlock,
    MetadataEvent,
    OffsetInterval,
    Seed,
    SetDataSchema,
    SetInfo,
    SetPollingSource,
    SetVocab,
    SourceState,
    Transform,
    TransformInput,
)
from odfabric.model.offsets import OFFSET_MAX
from odfabric.model.source import FetchStepEthereumLogs, ReadStepCsv
from odfabric.testing.chains import (
    INPUT_IDS,
    ChainBuilder,
    example_checkpoint,
    example_id,
    example_polling_source,
    example_push_source,
    example_schema,
    example_slice,
    example_transform,
)
from odfabric.testing.events import events, instants
from tests.support.chains.chain_rules import (
    OUTPUT,
    STEP,
    Attempt,
    Case,
    CaseBook,
    advanced,
    declared_derivative,
    derivative,
    empty_root,
    first,
    on,
    pair,
    root,
    sql,
    transform_of,
)
from tests.support.chains.legacy_schemas import legacy
from tests.support.vectors import vectors

BOOK = CaseBook()
BLOCK_VECTORS = [*vectors("blocks"), *vectors("ownBlocks")]
case = BOOK.case


# --- A ----------------------------------------------------------------------------------------------------------------


@case("A1", "InvalidEvent", "not supported")
def disabling_a_push_source() -> tuple[Attempt, Attempt]:
    chain = empty_root()
    chain.append(example_push_source("north"))
    return pair(chain, DisablePushSource(source_name="north"), example_push_source("south"))


@case("A1", "InvalidEvent", "not supported")
def disabling_a_polling_source() -> tuple[Attempt, Attempt]:
    chain = empty_root()
    chain.append(example_polling_source())
    return pair(chain, DisablePollingSource(), example_polling_source("https://example.org/other"))


@case("A2", "AppendingSeedBlockToNonEmptyChain", "Attempt to append seed block to a non-empty chain")
def a_seed_that_links_back() -> tuple[Attempt, Attempt]:
    seed = Seed(dataset_id=example_id(), dataset_kind=DatasetKind.ROOT)
    return on(empty_root(), seed), first(seed)


@case("A2", "AppendingSeedBlockToNonEmptyChain", "Attempt to append seed block to a non-empty chain")
def a_second_seed_without_a_link() -> tuple[Attempt, Attempt]:
    seed = Seed(dataset_id=example_id("other"), dataset_kind=DatasetKind.ROOT)
    return on(empty_root(), seed, prev_block_hash=None, sequence_number=0), first(seed)


@case("A3", "FirstBlockMustBeSeed", "First block has to be a seed, perhaps new block does not link to the previous")
def a_first_block_that_is_no_seed() -> tuple[Attempt, Attempt]:
    return first(SetInfo()), on(empty_root(), SetInfo())


@case("A3", "FirstBlockMustBeSeed", "First block has to be a seed, perhaps new block does not link to the previous")
def a_later_block_that_does_not_link_back() -> tuple[Attempt, Attempt]:
    chain = empty_root()
    return on(chain, SetInfo(), prev_block_hash=None), on(chain, SetInfo())


@case("A4", "SequenceIntegrity", "Block sequence has to start with zero, not 1")
def a_seed_that_is_not_number_zero() -> tuple[Attempt, Attempt]:
    seed = Seed(dataset_id=example_id(), dataset_kind=DatasetKind.ROOT)
    return first(seed, sequence_number=1), first(seed)


@case("A5", "NoOpEvent", "Event is empty")
def add_data_of_attributes_only() -> tuple[Attempt, Attempt]:
    chain = empty_root()
    state = SourceState(source_name="default", kind="odf/etag", value="x")
    return pair(chain, AddData(), AddData(new_source_state=state))


@case("A6", "NoOpEvent", "Event is empty")
def a_transaction_that_only_advances_inputs() -> tuple[Attempt, Attempt]:
    chain = declared_derivative()
    event = advanced(chain, "one", 4)
    return pair(chain, event, replace(event, new_checkpoint=example_checkpoint("one")))


@case("A7", "OffsetsAreNotSequential", "Expected offset interval to start at 0 but got 1")
def first_records_that_do_not_start_at_zero() -> tuple[Attempt, Attempt]:
    chain = empty_root()
    chain.append(SetDataSchema(schema=example_schema()))
    return pair(chain, AddData(new_data=example_slice(1, 3)), AddData(new_data=example_slice(0, 3)))


@case("A7", "OffsetsAreNotSequential", "Expected offset interval to start at 10 but got 9")
def records_that_overlap_the_last_ones() -> tuple[Attempt, Attempt]:
    chain = root()
    good = chain.next_add_data(5)
    return pair(chain, replace(good, new_data=example_slice(9, 6)), good)


@case("A8", "InvalidEvent", "Invalid offset interval")
def an_interval_that_ends_before_it_starts() -> tuple[Attempt, Attempt]:
    chain = root()
    good = chain.next_add_data(1)
    empty = replace(example_slice(10, 1), offset_interval=OffsetInterval(start=10, end=9))
    return pair(chain, replace(good, new_data=empty), good)


@case("A8", "InvalidEvent", "Invalid offset interval")
def a_transaction_whose_interval_ends_before_it_starts() -> tuple[Attempt, Attempt]:
    chain = derivative()
    good = advanced(chain, "two", 9, rows=1)
    empty = replace(example_slice(5, 1), offset_interval=OffsetInterval(start=5, end=4))
    return pair(chain, replace(good, new_data=empty), good)


def preprocessed(transform: Transform) -> tuple[AddPushSource, SetPollingSource]:
    return replace(example_push_source(), preprocess=transform), replace(example_polling_source(), preprocess=transform)


@case("A9", "InvalidEvent", "Transform queries must be normalized")
def a_push_source_with_a_shorthand_query() -> tuple[Attempt, Attempt]:
    return pair(empty_root(), preprocessed(sql(query="select 1"))[0], preprocessed(sql(OUTPUT))[0])


@case("A9", "InvalidEvent", "Transform must have at least one query")
def a_polling_source_with_no_query() -> tuple[Attempt, Attempt]:
    return pair(empty_root(), preprocessed(sql())[1], preprocessed(sql(OUTPUT))[1])


@case("A9", "InvalidEvent", "Cannot specify both DDL and ODF schemas at once")
def a_push_source_with_two_schemas() -> tuple[Attempt, Attempt]:
    good = replace(example_push_source(), read=ReadStepCsv(ddl_schema=("city STRING",)))
    bad = replace(good, read=ReadStepCsv(ddl_schema=("city STRING",), schema=example_schema()))
    return pair(empty_root(), bad, good)


@case("A9", "InvalidEvent", "Cannot specify both DDL and ODF schemas at once")
def a_polling_source_with_two_schemas() -> tuple[Attempt, Attempt]:
    good = replace(example_polling_source(), read=ReadStepCsv(schema=example_schema()))
    bad = replace(good, read=ReadStepCsv(ddl_schema=(), schema=example_schema()))
    return pair(empty_root(), bad, good)


@case("A10", "InvalidEvent", "Eth source must specify chainId or nodeUrl")
def ethereum_logs_of_nowhere() -> tuple[Attempt, Attempt]:
    good = replace(example_polling_source(), fetch=FetchStepEthereumLogs(chain_id=0))
    return pair(empty_root(), replace(good, fetch=FetchStepEthereumLogs()), good)


@case("A11", "InvalidEvent", "Transform must have at least one input")
def a_transform_without_inputs() -> tuple[Attempt, Attempt]:
    good = example_transform()
    return pair(ChainBuilder(DatasetKind.DERIVATIVE), replace(good, inputs=()), good)


@case("A11", "InvalidEvent", f"Transform contains duplicate inputs: {INPUT_IDS[0]}")
def a_transform_that_reads_an_input_twice() -> tuple[Attempt, Attempt]:
    chain = ChainBuilder(DatasetKind.DERIVATIVE)
    return pair(chain, example_transform(INPUT_IDS[0], INPUT_IDS[0]), example_transform(*INPUT_IDS[:2]))


@case("A11", "InvalidEvent", "Transform inputs must be resolved to dataset IDs and specify aliases")
def a_transform_that_names_an_input() -> tuple[Attempt, Attempt]:
    good = example_transform()
    bad = replace(good, inputs=(TransformInput(dataset_ref="alice/flights", alias="flights"),))
    return pair(ChainBuilder(DatasetKind.DERIVATIVE), bad, good)


@case("A11", "InvalidEvent", "Transform inputs must be resolved to dataset IDs and specify aliases")
def a_transform_with_an_input_without_alias() -> tuple[Attempt, Attempt]:
    good = example_transform()
    bad = replace(good, inputs=(replace(good.inputs[0], alias=None),))
    return pair(ChainBuilder(DatasetKind.DERIVATIVE), bad, good)


@case("A12", "InvalidEvent", "Transform queries must be normalized")
def a_transform_in_shorthand() -> tuple[Attempt, Attempt]:
    chain = ChainBuilder(DatasetKind.DERIVATIVE)
    return pair(chain, transform_of(sql(query="select 1")), transform_of(sql(OUTPUT)))


@case("A12", "InvalidEvent", "Transform must have at least one query")
def a_transform_without_queries() -> tuple[Attempt, Attempt]:
    chain = ChainBuilder(DatasetKind.DERIVATIVE)
    return pair(chain, transform_of(sql()), transform_of(sql(STEP, OUTPUT)))


@case("A12", "InvalidEvent", "Last query in a transform must have no alias an will be treated as an output")
def a_transform_whose_output_has_an_alias() -> tuple[Attempt, Attempt]:
    chain = ChainBuilder(DatasetKind.DERIVATIVE)
    return pair(chain, transform_of(sql(OUTPUT, STEP)), transform_of(sql(STEP, OUTPUT)))


@case("A12", "InvalidEvent", "In a transform all queries except the last one must have aliases")
def a_transform_with_a_nameless_step() -> tuple[Attempt, Attempt]:
    chain = ChainBuilder(DatasetKind.DERIVATIVE)
    return pair(chain, transform_of(sql(OUTPUT, OUTPUT)), transform_of(sql(STEP, OUTPUT)))


@case("X9", "InvalidEvent", "Exactly one of the two forms of a schema has to be present")
def a_schema_in_no_form() -> tuple[Attempt, Attempt]:
    return pair(empty_root(), SetDataSchema(), SetDataSchema(schema=example_schema()))


@case("X9", "InvalidEvent", "Exactly one of the two forms of a schema has to be present")
def a_schema_in_both_forms() -> tuple[Attempt, Attempt]:
    both = SetDataSchema(schema=example_schema(), raw_arrow_schema=b"\0")
    return pair(empty_root(), both, SetDataSchema(schema=example_schema()))


def data_of(chain: ChainBuilder, **members: object) -> AddData:
    event = chain.next_add_data(1)
    assert event.new_data is not None
    return replace(event, new_data=replace(event.new_data, **members))  # type: ignore[arg-type]


@case("X10", "InvalidEvent", f"new_data.offset_interval.end is {OFFSET_MAX + 1}, at most {OFFSET_MAX} is possible")
def an_offset_that_no_signed_integer_holds() -> tuple[Attempt, Attempt]:
    chain = root()
    bad, good = (data_of(chain, offset_interval=OffsetInterval(start=10, end=OFFSET_MAX + more)) for more in (1, 0))
    return pair(chain, bad, good)


@case("X10", "InvalidEvent", "new_data.size is 9223372036854775808")
def a_size_that_no_signed_integer_holds() -> tuple[Attempt, Attempt]:
    chain = root()
    return pair(chain, data_of(chain, size=2**63), data_of(chain, size=2**63 - 1))


@case("X10", "InvalidEvent", "new_checkpoint.size is 18446744073709551615")
def a_checkpoint_of_the_largest_size() -> tuple[Attempt, Attempt]:
    chain = derivative()
    good = advanced(chain, "two", 9, new_checkpoint=example_checkpoint("two"))
    return pair(chain, replace(good, new_checkpoint=replace(example_checkpoint("two"), size=2**64 - 1)), good)


@case("X10", "InvalidEvent", "query_inputs[0].new_offset is 18446744073709551615")
def an_input_with_the_largest_offset() -> tuple[Attempt, Attempt]:
    chain = derivative()
    return pair(chain, advanced(chain, "two", 2**64 - 1, rows=1), advanced(chain, "two", OFFSET_MAX, rows=1))


@case("X11", "TimeOutOfRange", "system_time is 0000-12-31T23:59:59.999999999Z, times between 0001-01-01T00:00:00Z and")
def a_seed_before_all_calendars() -> tuple[Attempt, Attempt]:
    seed = Seed(dataset_id=example_id(), dataset_kind=DatasetKind.ROOT)
    before = Instant(FIRST_INSTANT.epoch_ns - 1)
    return first(seed, system_time=before), first(seed, system_time=FIRST_INSTANT)


@case("X11", "TimeOutOfRange", "system_time is +10000-01-01T00:00:00Z")
def a_time_after_all_calendars() -> tuple[Attempt, Attempt]:
    chain = empty_root()
    after = Instant(LAST_INSTANT.epoch_ns + 1)
    return on(chain, SetInfo(), system_time=after), on(chain, SetInfo(), system_time=LAST_INSTANT)


@case("X11", "TimeOutOfRange", "new_watermark is +2147483647-01-01T00:00:00Z")
def a_watermark_after_all_calendars() -> tuple[Attempt, Attempt]:
    chain = root()
    far = Instant.parse("+2147483647-01-01T00:00:00Z")
    return pair(chain, chain.next_add_data(0, new_watermark=far), chain.next_add_data(0, new_watermark=LAST_INSTANT))


@case("X11", "TimeOutOfRange", "new_watermark is -2147483648-01-01T00:00:00Z")
def a_transaction_with_a_watermark_before_all_calendars() -> tuple[Attempt, Attempt]:
    chain = declared_derivative()
    far = Instant.parse("-2147483648-01-01T00:00:00Z")
    return pair(
        chain,
        advanced(chain, "one", 4, rows=1, new_watermark=far),
        advanced(chain, "one", 4, rows=1, new_watermark=FIRST_INSTANT),
    )


@case("X12", "InvalidEvent", "Two system columns are named `x`")
def a_column_with_two_roles() -> tuple[Attempt, Attempt]:
    bad = SetVocab(offset_column="x", event_time_column="X")
    return pair(empty_root(), bad, SetVocab(offset_column="x", event_time_column="y"))


@case("X12", "InvalidEvent", "Two system columns are named `offset`")
def a_column_that_another_one_is_by_default() -> tuple[Attempt, Attempt]:
    bad = SetVocab(event_time_column="offset")
    return pair(empty_root(), bad, SetVocab(event_time_column="offset", offset_column="event_time"))


@case("X12", "InvalidEvent", "A system column has an empty name")
def a_column_without_a_name() -> tuple[Attempt, Attempt]:
    return pair(empty_root(), SetVocab(event_time_column=""), SetVocab())


@case("X13", "InvalidEvent", "The schema cannot be used: SetDataSchema carries bytes that are not an Arrow schema")
def a_schema_that_does_not_decode() -> tuple[Attempt, Attempt]:
    return pair(empty_root(), SetDataSchema(raw_arrow_schema=b"\x07"), legacy(pa.field("a", pa.int64())))


@case("X13", "InvalidEvent", "The schema cannot be used: Field `a`: Arrow type month_day_nano_interval")
def a_schema_with_a_type_that_is_none_here() -> tuple[Attempt, Attempt]:
    return pair(empty_root(), legacy(pa.field("a", pa.month_day_nano_interval())), legacy(pa.field("a", pa.date64())))


def schema_of(*types: DataType) -> SetDataSchema:
    return SetDataSchema(schema=DataSchema(fields=tuple(DataField(name="a", type=each) for each in types)))


@case("X13", "InvalidEvent", "The schema cannot be used: Field `a`: an Option inside an Option means nothing")
def a_schema_that_arrow_cannot_hold() -> tuple[Attempt, Attempt]:
    optional = DataTypeOption(inner=DataTypeInt64())
    return pair(empty_root(), schema_of(DataTypeOption(inner=optional)), schema_of(optional))


@case("X13", "InvalidEvent", "The schema cannot be used: Field `a`: ")
def a_schema_with_values_of_a_length_that_is_none() -> tuple[Attempt, Attempt]:
    bad, good = (DataTypeBinary(fixed_length=length) for length in (2**64 - 1, 32))
    return pair(empty_root(), schema_of(bad), schema_of(good))


@case("X13", "InvalidEvent", "The schema has several fields `a`")
def a_schema_with_a_field_twice() -> tuple[Attempt, Attempt]:
    return pair(empty_root(), schema_of(DataTypeInt64(), DataTypeInt64()), schema_of(DataTypeInt64()))


@case("X13", "InvalidEvent", "The schema has several fields `a[].x`")
def a_schema_with_a_member_twice() -> tuple[Attempt, Attempt]:
    twice, once = (
        DataTypeList(
            item_type=DataTypeOption(inner=DataTypeStruct(fields=(DataField(name="x", type=DataTypeInt64()),) * n))
        )
        for n in (2, 1)
    )
    return pair(empty_root(), schema_of(twice), schema_of(once))


@case("X14", "InvalidEvent", f"Input {INPUT_IDS[0]} goes back from offset 4 to 3")
def an_input_that_goes_back() -> tuple[Attempt, Attempt]:
    chain = derivative()
    return pair(chain, advanced(chain, "two", 3, rows=1), advanced(chain, "two", 5, rows=1))


# --- all of them ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("found", BOOK.cases, ids=str)
def test_a_block_that_breaks_a_rule_is_refused_and_its_neighbour_is_not(found: Case) -> None:
    found.check()


def test_every_rule_has_a_case() -> None:
    assert BOOK.rules == {f"A{number}" for number in range(1, 13)} | {f"X{number}" for number in range(9, 15)}


@pytest.mark.parametrize("vector", BLOCK_VECTORS, ids=lambda vector: str(vector["id"]))
def test_no_block_of_the_reference_is_out_of_bounds(vector: dict[str, str]) -> None:
    check_bounds(decode_block(bytes.fromhex(vector["producedHex"])))


def broken_rule(judge: Callable[[], None]) -> str | None:
    """The rule by which something is refused, None if it is not."""
    try:
        judge()
    except InvalidBlock as refusal:
        return refusal.place.rule or "no rule"
    return None


@given(st.binary(max_size=200))
def test_law_any_bytes_of_a_schema_pass_or_are_refused_by_the_rule(data: bytes) -> None:
    attempt = on(empty_root(), SetDataSchema(raw_arrow_schema=data))
    assert broken_rule(attempt.judge) in (None, "X13")


@given(st.data())
def test_law_a_broken_byte_of_a_schema_passes_or_is_refused_by_the_rule(data: st.DataObject) -> None:
    members = [pa.field("x", pa.decimal128(9, 2)), pa.field("y", pa.timestamp("ms", "UTC"))]
    whole = legacy(pa.field("a", pa.list_(pa.struct(members)))).raw_arrow_schema
    assert whole is not None
    position = data.draw(st.integers(0, len(whole) - 1))
    changed = whole[position] ^ data.draw(st.integers(1, 255))
    attempt = on(
        empty_root(),
        SetDataSchema(raw_arrow_schema=whole[:position] + bytes([changed]) + whole[position + 1 :]),
    )
    assert broken_rule(attempt.judge) in (None, "X13")


@given(events(), instants())
def test_law_every_well_formed_event_passes_or_is_refused_by_a_rule(event: MetadataEvent, at: Instant) -> None:
    block = MetadataBlock(system_time=at, sequence_number=0, event=event)
    assert broken_rule(lambda: check_bounds(block)) in (None, "X10", "X11", "X12", "X13", "X14")
