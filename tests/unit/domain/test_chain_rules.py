"""Every rule of a chain: one block that breaks exactly it, and its neighbour that does not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from odfabric.domain.chain.state import ChainState, apply
from odfabric.domain.chain.validate import validate_append
from odfabric.errors import InvalidBlock
from odfabric.model.data_schema import DataField, DataSchema, DataTypeInt64, DataTypeOption
from odfabric.model.instant import Instant
from odfabric.model.metadata import (
    AddData,
    AddPushSource,
    DatasetKind,
    DisablePollingSource,
    DisablePushSource,
    ExecuteTransform,
    MetadataBlock,
    MetadataEvent,
    OffsetInterval,
    Seed,
    SetDataSchema,
    SetInfo,
    SetPollingSource,
    SetTransform,
    SetVocab,
    SourceState,
    SqlQueryStep,
    Transform,
    TransformInput,
    TransformSql,
)
from odfabric.model.source import FetchStepEthereumLogs, ReadStepCsv
from odfabric.testing.chains import (
    INPUT_IDS,
    START,
    ChainBuilder,
    example_checkpoint,
    example_id,
    example_polling_source,
    example_push_source,
    example_schema,
    example_slice,
    example_transform,
    physical_hash,
)

NOON = Instant.parse("2024-01-01T12:00:00Z")
LATER = Instant.parse("2024-01-01T13:00:00Z")
RULES = {f"A{n}" for n in range(1, 13)} | {f"B{n}" for n in range(7)} | {f"C{n}" for n in range(1, 14)}
STRICTER = {f"X{n}" for n in range(1, 10)}


@dataclass(frozen=True)
class Attempt:
    """A block on top of a state; `now` as `validate_append` takes it."""

    state: ChainState
    block: MetadataBlock
    now: Instant | None = None

    def judge(self) -> None:
        validate_append(self.state, self.block, now=self.now)


@dataclass(frozen=True)
class Case:
    rule: str
    kind: str
    text: str
    attempts: Callable[[], tuple[Attempt, Attempt]]
    name: str


CASES: list[Case] = []
Attempts = Callable[[], tuple[Attempt, Attempt]]


def case(rule: str, kind: str, text: str) -> Callable[[Attempts], Attempts]:
    """Registers a function that returns the attempt which breaks the rule, and its neighbour that passes."""

    def register(attempts: Attempts) -> Attempts:
        CASES.append(Case(rule, kind, text, attempts, attempts.__name__))
        return attempts

    return register


@pytest.mark.parametrize("found", CASES, ids=lambda found: f"{found.rule}-{found.name}")
def test_a_block_that_breaks_a_rule_is_refused_and_its_neighbour_is_not(found: Case) -> None:
    bad, good = found.attempts()
    good.judge()
    with pytest.raises(InvalidBlock) as refusal:
        bad.judge()
    assert (refusal.value.place.rule, refusal.value.kind) == (found.rule, found.kind)
    assert found.text in refusal.value.message


def test_every_rule_has_a_case() -> None:
    assert {found.rule for found in CASES} == RULES | STRICTER


# --- material ---------------------------------------------------------------------------------------------------------


def on(chain: ChainBuilder, event: MetadataEvent, *, now: Instant | None = None, **header: object) -> Attempt:
    """The next block of the chain, with members of the header overridden."""
    assert chain.state.system_time is not None
    assert chain.state.sequence_number is not None
    block = MetadataBlock(
        system_time=chain.state.system_time,
        prev_block_hash=chain.head,
        sequence_number=chain.state.sequence_number + 1,
        event=event,
    )
    return Attempt(chain.state, replace(block, **header), now)  # type: ignore[arg-type]


def first(event: MetadataEvent, **header: object) -> Attempt:
    """The first block of a chain."""
    block = MetadataBlock(system_time=START, sequence_number=0, event=event)
    return Attempt(ChainState.empty(), replace(block, **header))  # type: ignore[arg-type]


def pair(chain: ChainBuilder, bad: MetadataEvent, good: MetadataEvent) -> tuple[Attempt, Attempt]:
    return on(chain, bad), on(chain, good)


def empty_root() -> ChainBuilder:
    return ChainBuilder(DatasetKind.ROOT)


def root() -> ChainBuilder:
    """A root dataset with a schema and ten records, watermark noon, a checkpoint and a source state."""
    chain = empty_root()
    chain.append(SetDataSchema(schema=example_schema()))
    state = SourceState(source_name="default", kind="odf/etag", value="one")
    chain.append(
        chain.next_add_data(10, new_watermark=NOON, new_checkpoint=example_checkpoint("one"), new_source_state=state)
    )
    return chain


def declared_derivative(inputs: int = 1) -> ChainBuilder:
    """A derivative dataset with transform and schema."""
    chain = ChainBuilder(DatasetKind.DERIVATIVE)
    chain.append(example_transform(*INPUT_IDS[:inputs]))
    chain.append(SetDataSchema(schema=example_schema()))
    return chain


def derivative(inputs: int = 1) -> ChainBuilder:
    """A derivative dataset that has consumed five records up to block `one` of each input, and has a checkpoint."""
    chain = declared_derivative(inputs)
    chain.append(advanced(chain, "one", 4, rows=5, new_checkpoint=example_checkpoint("one"), new_watermark=NOON))
    return chain


def advanced(
    chain: ChainBuilder, block: str, offset: int | None, *, rows: int = 0, **members: object
) -> ExecuteTransform:
    """The next transaction, which consumes all inputs up to a block and an offset."""
    event = chain.next_execute_transform(rows)
    inputs = tuple(
        replace(progress, new_block_hash=physical_hash(block), new_offset=offset) for progress in event.query_inputs
    )
    return replace(event, query_inputs=inputs, **members)  # type: ignore[arg-type]


def with_input(event: ExecuteTransform, **members: object) -> ExecuteTransform:
    """The event with members of its first input overridden."""
    head, *rest = event.query_inputs
    return replace(event, query_inputs=(replace(head, **members), *rest))  # type: ignore[arg-type]


def sql(*steps: SqlQueryStep, query: str | None = None) -> Transform:
    return TransformSql(engine="spark", queries=steps or None, query=query)


def transform_of(transform: Transform) -> SetTransform:
    return replace(example_transform(), transform=transform)


OUTPUT = SqlQueryStep(query="select 1")
STEP = SqlQueryStep(alias="step", query="select 1")


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


@case("X7", "SystemTimeIsInFuture", "is more than 300 s ahead")
def a_time_more_than_five_minutes_ahead() -> tuple[Attempt, Attempt]:
    chain = empty_root()
    limit = Instant(START.epoch_ns + 300 * 1_000_000_000)
    late = Instant(limit.epoch_ns + 1)
    return on(chain, SetInfo(), now=START, system_time=late), on(chain, SetInfo(), now=START, system_time=limit)


@case("X8", "InvalidEvent", "Names of system columns cannot change once there are records")
def other_column_names_for_records_that_exist() -> tuple[Attempt, Attempt]:
    return pair(root(), SetVocab(event_time_column="date"), SetVocab(event_time_column="event_time"))


@case("X9", "InvalidEvent", "Exactly one of the two forms of a schema has to be present")
def a_schema_in_no_form() -> tuple[Attempt, Attempt]:
    return pair(empty_root(), SetDataSchema(), SetDataSchema(schema=example_schema()))


@case("X9", "InvalidEvent", "Exactly one of the two forms of a schema has to be present")
def a_schema_in_both_forms() -> tuple[Attempt, Attempt]:
    both = SetDataSchema(schema=example_schema(), raw_arrow_schema=b"\0")
    return pair(empty_root(), both, SetDataSchema(schema=example_schema()))


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
    with pytest.raises(InvalidBlock, match="more than 1 s ahead"):
        validate_append(attempt.state, attempt.block, now=START, ahead_s_max=1)


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
