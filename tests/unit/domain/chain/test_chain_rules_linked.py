"""Rules about a block and its chain (B, C, X1 to X8), and the order of checks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from odfabric.domain.chain.state import ChainState, apply
from odfabric.domain.chain.validate import validate_append
from odfabric.errors import InvalidBlock
from odfabric.model.data_schema import DataField, DataSchema, DataTypeInt64, DataTypeOption
from odfabric.model.instant import Instant
from odfabric.model.metadata import (
    AddData,
    DatasetKind,
    DisablePushSource,
    ExecuteTransform,
    MetadataBlock,
    SetDataSchema,
    SetInfo,
    SetVocab,
)
from odfabric.testing.chains import (
    INPUT_IDS,
    START,
    ChainBuilder,
    example_checkpoint,
    example_polling_source,
    example_push_source,
    example_schema,
    example_slice,
    example_transform,
    physical_hash,
)
from tests.support.chains.chain_rules import (
    LATER,
    NOON,
    Attempt,
    Case,
    CaseBook,
    advanced,
    declared_derivative,
    derivative,
    empty_root,
    on,
    pair,
    root,
    with_input,
)

BOOK = CaseBook()
case = BOOK.case


# --- B ----------------------------------------------------------------------------------------------------------------


@case("B0", "PrevBlockNotFound", "Invalid previous block")
def a_block_on_an_unknown_block() -> tuple[Attempt, Attempt]:
    chain = root()
    return on(chain, SetInfo(), prev_block_hash=physical_hash("elsewhere")), on(chain, SetInfo())


@case("B0", "PrevBlockNotFound", "Invalid previous block")
def a_linked_block_on_an_empty_chain() -> tuple[Attempt, Attempt]:
    good = on(empty_root(), SetInfo())
    return Attempt(ChainState.empty(), good.block), good


@case("B1", "SequenceIntegrity", "with sequence number 2 cannot be followed by block with sequence number 4")
def a_gap_in_the_numbers() -> tuple[Attempt, Attempt]:
    chain = root()
    return on(chain, SetInfo(), sequence_number=4), on(chain, SetInfo())


@case("B1", "SequenceIntegrity", "with sequence number 2 cannot be followed by block with sequence number 0")
def number_zero_on_top_of_another_block() -> tuple[Attempt, Attempt]:
    chain = root()
    return on(chain, SetInfo(), sequence_number=0), on(chain, SetInfo())


@case("B2", "SystemTimeIsNotMonotonic", "System time has to be monotonically non-decreasing")
def a_time_before_the_previous_block() -> tuple[Attempt, Attempt]:
    chain = root()
    assert chain.state.system_time is not None
    earlier = Instant(chain.state.system_time.epoch_ns - 1)
    return on(chain, SetInfo(), system_time=earlier), on(chain, SetInfo(), system_time=chain.state.system_time)


@case("B3", "WatermarkIsNotMonotonic", "Watermark has to be monotonically increasing")
def a_watermark_that_goes_back() -> tuple[Attempt, Attempt]:
    chain = root()
    good = chain.next_add_data(1)
    return pair(chain, replace(good, new_watermark=Instant(NOON.epoch_ns - 1)), good)


@case("B3", "WatermarkIsNotMonotonic", "Watermark has to be monotonically increasing")
def a_watermark_that_disappears() -> tuple[Attempt, Attempt]:
    chain = root()
    good = chain.next_add_data(1)
    return pair(chain, replace(good, new_watermark=None), good)


@case("B3", "WatermarkIsNotMonotonic", "Watermark has to be monotonically increasing")
def a_watermark_below_one_that_is_hidden_by_other_blocks() -> tuple[Attempt, Attempt]:
    chain = root()
    chain.append(SetInfo(description="between"))
    good = chain.next_add_data(0, new_watermark=LATER)
    return pair(chain, replace(good, new_watermark=START), good)


@case("B3", "WatermarkIsNotMonotonic", "Watermark has to be monotonically increasing")
def a_transaction_whose_watermark_disappears() -> tuple[Attempt, Attempt]:
    chain = derivative()
    good = advanced(chain, "two", 9, rows=1)
    return pair(chain, replace(good, new_watermark=None), good)


@case("B4", "InvalidEvent", "Carried prev offset does not correspond to the last offset in the chain")
def an_offset_that_is_not_carried() -> tuple[Attempt, Attempt]:
    chain = root()
    good = chain.next_add_data(0, new_watermark=LATER)
    return pair(chain, replace(good, prev_offset=None), good)


@case("B4", "InvalidEvent", "Carried prev offset does not correspond to the last offset in the chain")
def an_offset_that_leaves_a_gap() -> tuple[Attempt, Attempt]:
    chain = root()
    good = chain.next_add_data(3)
    return pair(chain, replace(good, prev_offset=12, new_data=example_slice(13, 3)), good)


@case("B4", "InvalidEvent", "Carried prev offset does not correspond to the last offset in the chain")
def an_offset_that_is_not_carried_over_a_block_without_data() -> tuple[Attempt, Attempt]:
    chain = root()
    chain.append(chain.next_add_data(0, new_watermark=LATER))
    good = chain.next_add_data(3)
    return pair(chain, replace(good, prev_offset=None, new_data=example_slice(0, 3)), good)


@case("B5", "NoOpEvent", "New push source is identical to existing")
def the_same_push_source_again() -> tuple[Attempt, Attempt]:
    chain = empty_root()
    chain.append(example_push_source("north"))
    chain.append(example_push_source("south"))
    return pair(chain, example_push_source("north"), example_push_source("north", header=False))


@case("B5", "InvalidEvent", "Cannot add a push source while polling source is still active")
def a_push_source_beside_a_polling_one() -> tuple[Attempt, Attempt]:
    chain = empty_root()
    chain.append(example_polling_source())
    return on(chain, example_push_source()), on(empty_root(), example_push_source())


@case("B5", "InvalidEvent", "Source evolution is not yet fully supported")
def a_push_source_after_a_disabled_one() -> tuple[Attempt, Attempt]:
    chain = empty_root()
    chain.append(example_push_source("north"))
    good = on(chain, example_push_source("north", header=False))
    hidden = replace(good.block, event=DisablePushSource(source_name="north"))
    state = apply(chain.state, physical_hash("disabled"), hidden)
    block = replace(good.block, prev_block_hash=physical_hash("disabled"), sequence_number=3)
    return Attempt(state, block), good


@case("B6", "InvalidEvent", "Cannot add a polling source while some push sources are still active")
def a_polling_source_beside_a_push_one() -> tuple[Attempt, Attempt]:
    chain = empty_root()
    chain.append(example_push_source())
    polled = empty_root()
    polled.append(example_polling_source())
    return on(chain, example_polling_source()), on(polled, example_polling_source())


# --- C ----------------------------------------------------------------------------------------------------------------


@case("C1", "InvalidEvent", "SetDataSchema event must be present before adding data")
def records_without_a_schema() -> tuple[Attempt, Attempt]:
    chain = empty_root()
    event = AddData(new_data=example_slice(0, 1), new_watermark=NOON)
    return pair(chain, event, replace(event, new_data=None))


@case("C1", "InvalidEvent", "SetDataSchema event must be present before adding data")
def a_transaction_with_records_without_a_schema() -> tuple[Attempt, Attempt]:
    chain = ChainBuilder(DatasetKind.DERIVATIVE)
    chain.append(example_transform())
    event = advanced(chain, "one", 4, rows=1, new_checkpoint=example_checkpoint("one"))
    return pair(chain, event, replace(event, new_data=None))


@case("C2", "InvalidEvent", "Input checkpoint does not correspond to the last checkpoint in the chain")
def a_checkpoint_that_is_not_the_last_one() -> tuple[Attempt, Attempt]:
    chain = root()
    good = chain.next_add_data(1)
    return pair(chain, replace(good, prev_checkpoint=physical_hash("other")), good)


@case("C2", "InvalidEvent", "Input checkpoint does not correspond to the last checkpoint in the chain")
def a_checkpoint_that_the_nearest_add_data_has_dropped() -> tuple[Attempt, Attempt]:
    chain = root()
    chain.append(chain.next_add_data(1, new_checkpoint=None))
    good = chain.next_add_data(1)
    return pair(chain, replace(good, prev_checkpoint=example_checkpoint("one").physical_hash), good)


@case("C2", "InvalidEvent", "Input checkpoint does not correspond to the last checkpoint in the chain")
def a_checkpoint_before_the_first_add_data() -> tuple[Attempt, Attempt]:
    chain = empty_root()
    good = AddData(new_checkpoint=example_checkpoint("one"))
    return pair(chain, replace(good, prev_checkpoint=physical_hash("other")), good)


@case("C3", "NoOpEvent", "Event neither has data nor it advances checkpoint, watermark, or source state")
def add_data_that_repeats_everything() -> tuple[Attempt, Attempt]:
    chain = root()
    return pair(chain, chain.next_add_data(), chain.next_add_data(0, new_watermark=LATER))


@case("C3", "NoOpEvent", "Event neither has data nor it advances checkpoint, watermark, or source state")
def add_data_that_repeats_everything_but_drops_its_source_state() -> tuple[Attempt, Attempt]:
    chain = root()
    return pair(chain, chain.next_add_data(), chain.next_add_data(0, new_source_state=None))


@case("C3", "NoOpEvent", "Event neither has data nor it advances checkpoint, watermark, or source state")
def add_data_that_repeats_everything_but_renews_its_checkpoint() -> tuple[Attempt, Attempt]:
    chain = root()
    return pair(chain, chain.next_add_data(), chain.next_add_data(0, new_checkpoint=example_checkpoint("two")))


@case("C4", "InvalidEvent", "Inputs must be listed in same order as initially declared in SetTransform event")
def inputs_in_another_order() -> tuple[Attempt, Attempt]:
    chain = declared_derivative(2)
    good = advanced(chain, "one", 4, rows=1)
    return pair(chain, replace(good, query_inputs=good.query_inputs[::-1]), good)


@case("C4", "InvalidEvent", "Inputs must be listed in same order as initially declared in SetTransform event")
def an_input_left_out() -> tuple[Attempt, Attempt]:
    chain = derivative(2)
    good = advanced(chain, "two", 9, rows=1)
    return pair(chain, replace(good, query_inputs=good.query_inputs[:1]), good)


@case("C5", "InvalidEvent", "ExecuteTransform must be preceded by SetTransform event")
def a_transaction_without_a_transform() -> tuple[Attempt, Attempt]:
    declared = declared_derivative()
    event = advanced(declared, "one", 4, new_checkpoint=example_checkpoint("one"))
    return on(ChainBuilder(DatasetKind.DERIVATIVE), event), on(declared, event)


@case("C6", "InvalidEvent", "Invalid input block interval")
def an_input_that_advances_to_the_same_block() -> tuple[Attempt, Attempt]:
    chain = derivative()
    good = advanced(chain, "two", None, rows=1)
    return pair(chain, with_input(good, new_block_hash=physical_hash("one")), good)


@case("C7", "InvalidEvent", "Invalid input offset interval")
def an_input_that_advances_to_the_same_offset() -> tuple[Attempt, Attempt]:
    chain = derivative()
    good = advanced(chain, "two", 5, rows=1)
    return pair(chain, with_input(good, new_offset=4), good)


@case("C8", "InvalidEvent", "Input prevBlockHash does not correspond to the last block included in the previous query")
def an_input_that_starts_at_another_block() -> tuple[Attempt, Attempt]:
    chain = derivative()
    good = advanced(chain, "two", 9, rows=1)
    return pair(chain, with_input(good, prev_block_hash=physical_hash("other")), good)


@case(
    "C9", "InvalidEvent", "Input prevOffset hash does not correspond to the last offset included in the previous query"
)
def an_input_that_starts_at_another_offset() -> tuple[Attempt, Attempt]:
    chain = derivative()
    chain.append(advanced(chain, "two", None, new_watermark=LATER))
    good = advanced(chain, "three", 9, rows=1)
    return pair(chain, with_input(good, prev_offset=3), good)


@case("C10", "InvalidEvent", "Input specifies a non-empty offset interval, but its block interval is empty")
def an_input_with_records_but_no_blocks() -> tuple[Attempt, Attempt]:
    chain = derivative()
    good = advanced(chain, "two", 9, rows=1)
    return pair(chain, with_input(good, new_block_hash=None), good)


@case("C11", "InvalidEvent", "Input checkpoint does not correspond to the last checkpoint in the chain")
def a_transaction_from_another_checkpoint() -> tuple[Attempt, Attempt]:
    chain = derivative()
    good = advanced(chain, "two", 9, rows=1)
    return pair(chain, replace(good, prev_checkpoint=None), good)


@case("C12", "NoOpEvent", "Event neither has data nor it advances inputs, checkpoint, or watermark")
def a_transaction_that_repeats_everything() -> tuple[Attempt, Attempt]:
    chain = derivative()
    return pair(chain, chain.next_execute_transform(), advanced(chain, "two", None))


def extended(*fields: DataField) -> SetDataSchema:
    current = example_schema()
    return SetDataSchema(schema=DataSchema(fields=(*current.fields, *fields)))


OPTIONAL = DataField(name="x", type=DataTypeOption(inner=DataTypeInt64()))
REQUIRED = DataField(name="x", type=DataTypeInt64())


@case("C13", "NoOpEvent", "New schema is identical to the current")
def the_same_schema_again() -> tuple[Attempt, Attempt]:
    return pair(root(), extended(), extended(OPTIONAL))


@case("C13", "InvalidEvent", "New schema is not compatible with the current schema.")
def a_schema_with_a_new_required_field() -> tuple[Attempt, Attempt]:
    return pair(root(), extended(REQUIRED), extended(OPTIONAL))


# --- X ----------------------------------------------------------------------------------------------------------------


@case("X1", "InvalidEvent", "AddData event is only allowed on root datasets")
def add_data_in_a_derivative_dataset() -> tuple[Attempt, Attempt]:
    event = AddData(new_watermark=NOON)
    return on(ChainBuilder(DatasetKind.DERIVATIVE), event), on(empty_root(), event)


@case("X2", "InvalidEvent", "ExecuteTransform is only allowed on derivative datasets")
def a_transaction_in_a_root_dataset() -> tuple[Attempt, Attempt]:
    good = on(derivative(), advanced(derivative(), "two", 9, rows=1))
    seed = replace(good.state.seed.event, dataset_kind=DatasetKind.ROOT) if good.state.seed else None
    assert good.state.seed is not None
    assert seed is not None
    return Attempt(replace(good.state, seed=replace(good.state.seed, event=seed)), good.block), good


@case("X3", "InvalidEvent", "SetTransform is only allowed on derivative datasets")
def a_transform_in_a_root_dataset() -> tuple[Attempt, Attempt]:
    return on(empty_root(), example_transform()), on(ChainBuilder(DatasetKind.DERIVATIVE), example_transform())


@case("X4", "InvalidEvent", "AddPushSource event is only allowed on root datasets")
def a_push_source_in_a_derivative_dataset() -> tuple[Attempt, Attempt]:
    return on(ChainBuilder(DatasetKind.DERIVATIVE), example_push_source()), on(empty_root(), example_push_source())


@case("X4", "InvalidEvent", "SetPollingSource event is only allowed on root datasets")
def a_polling_source_in_a_derivative_dataset() -> tuple[Attempt, Attempt]:
    return on(ChainBuilder(DatasetKind.DERIVATIVE), example_polling_source()), on(
        empty_root(), example_polling_source()
    )


@case("X5", "InvalidEvent", "Carried prev offset does not correspond to the last offset in the chain")
def a_chain_that_starts_at_offset_ten() -> tuple[Attempt, Attempt]:
    chain = empty_root()
    chain.append(SetDataSchema(schema=example_schema()))
    good = AddData(new_data=example_slice(0, 2))
    return pair(chain, AddData(prev_offset=9, new_data=example_slice(10, 2)), good)


@case("X6", "InvalidEvent", "Input prevBlockHash does not correspond to the last block included in the previous query")
def a_first_transaction_that_skips_blocks() -> tuple[Attempt, Attempt]:
    chain = declared_derivative()
    good = advanced(chain, "one", 4, rows=1)
    return pair(chain, with_input(good, prev_block_hash=physical_hash("zero")), good)


@case(
    "X6", "InvalidEvent", "Input prevOffset hash does not correspond to the last offset included in the previous query"
)
def a_first_transaction_that_skips_records() -> tuple[Attempt, Attempt]:
    chain = declared_derivative()
    good = advanced(chain, "one", 4, rows=1)
    return pair(chain, with_input(good, prev_offset=2), good)


@case("X7", "SystemTimeIsInFuture", "System time is 300 s ahead, which is more than 300 s")
def a_time_more_than_five_minutes_ahead() -> tuple[Attempt, Attempt]:
    chain = empty_root()
    limit = Instant(START.epoch_ns + 300 * 1_000_000_000)
    late = Instant(limit.epoch_ns + 1)
    return on(chain, SetInfo(), now=START, system_time=late), on(chain, SetInfo(), now=START, system_time=limit)


@case("X8", "InvalidEvent", "Names of system columns cannot change once there are records")
def other_column_names_for_records_that_exist() -> tuple[Attempt, Attempt]:
    return pair(root(), SetVocab(event_time_column="date"), SetVocab(event_time_column="event_time"))


# --- all of them ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("found", BOOK.cases, ids=str)
def test_a_block_that_breaks_a_rule_is_refused_and_its_neighbour_is_not(found: Case) -> None:
    found.check()


def test_every_rule_has_a_case() -> None:
    assert BOOK.rules == {f"B{n}" for n in range(7)} | {f"C{n}" for n in range(1, 14)} | {f"X{n}" for n in range(1, 9)}


# --- order and what is allowed ----------------------------------------------------------------------------------------


def rule_of(attempt: Attempt) -> str | None:
    with pytest.raises(InvalidBlock) as refusal:
        attempt.judge()
    return refusal.value.place.rule


def test_checks_on_the_block_come_before_those_on_the_chain() -> None:
    chain = root()
    block = on(chain, AddData(prev_offset=3, new_data=example_slice(9, 1)), sequence_number=9, system_time=START)
    assert rule_of(block) == "A7"
    assert rule_of(on(chain, SetInfo(), sequence_number=9, system_time=Instant(0))) == "B1"


def test_checks_of_the_reference_come_before_ours() -> None:
    chain = ChainBuilder(DatasetKind.DERIVATIVE)
    assert rule_of(on(chain, AddData(new_data=example_slice(0, 1)))) == "C1"
    assert rule_of(on(empty_root(), ExecuteTransform(query_inputs=(), new_watermark=NOON))) == "C5"


def test_a_chain_that_was_read_without_its_seed_takes_no_block() -> None:
    block = MetadataBlock(system_time=START, sequence_number=4, prev_block_hash=physical_hash("3"), event=SetInfo())
    state = apply(ChainState.empty(), physical_hash("4"), block)
    on_top = replace(block, sequence_number=5, prev_block_hash=physical_hash("4"))
    assert rule_of(Attempt(state, on_top)) == "A3"


def test_without_a_clock_any_time_is_accepted() -> None:
    on(empty_root(), SetInfo(), system_time=Instant.parse("2999-01-01T00:00:00Z")).judge()


def test_the_limit_of_time_ahead_is_the_callers() -> None:
    attempt = on(empty_root(), SetInfo(), system_time=Instant(START.epoch_ns + 1_000_000_001))
    validate_append(attempt.state, attempt.block, now=START, ahead_s_max=2)
    with pytest.raises(InvalidBlock, match="more than 1 s"):
        validate_append(attempt.state, attempt.block, now=START, ahead_s_max=1)


def test_a_time_beyond_all_calendars_is_refused_in_words() -> None:
    far = on(empty_root(), SetInfo(), now=START, system_time=Instant(10**24))
    assert rule_of(far) == "X7"


def test_repeating_words_is_allowed() -> None:
    chain = root()
    chain.append(SetInfo(description="same"))
    on(chain, SetInfo(description="same")).judge()


def test_a_transform_may_be_set_again_with_the_same_inputs() -> None:
    chain = derivative()
    chain.append(example_transform(INPUT_IDS[0], sql="select 2"))
    on(chain, advanced(chain, "two", 9, rows=1)).judge()


def test_an_input_added_later_starts_at_its_beginning() -> None:
    chain = derivative()
    chain.append(example_transform(*INPUT_IDS[:2]))
    last = advanced(chain, "two", 9, rows=1)
    added = replace(last.query_inputs[0], dataset_id=INPUT_IDS[1], prev_block_hash=None, prev_offset=None)
    on(chain, replace(last, query_inputs=(*last.query_inputs, added))).judge()
    skipping = replace(added, prev_offset=1)
    assert rule_of(on(chain, replace(last, query_inputs=(*last.query_inputs, skipping)))) == "X6"


def test_a_message_names_rule_and_event() -> None:
    with pytest.raises(InvalidBlock) as refusal:
        on(empty_root(), AddData()).judge()
    assert str(refusal.value) == "rule A5: No-op event: Event is empty: AddData"
