"""Rules about a block alone (A, X9): one block that breaks exactly it, and its neighbour that does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from odfabric.model.metadata import (
    AddData,
    AddPushSource,
    DatasetKind,
    DisablePollingSource,
    DisablePushSource,
    OffsetInterval,
    Seed,
    SetDataSchema,
    SetInfo,
    SetPollingSource,
    SourceState,
    Transform,
    TransformInput,
)
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
from tests.support.chain_rules import (
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

BOOK = CaseBook()
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


# --- all of them ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("found", BOOK.cases, ids=str)
def test_a_block_that_breaks_a_rule_is_refused_and_its_neighbour_is_not(found: Case) -> None:
    found.check()


def test_every_rule_has_a_case() -> None:
    assert BOOK.rules == {f"A{number}" for number in range(1, 13)} | {"X9"}
