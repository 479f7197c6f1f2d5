"""Planning transactions over half-open intervals, and replaying them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.domain.chain.state import ChainState, apply
from odfabric.domain.chain.walk import read_state
from odfabric.domain.transform.transform_plan import (
    InputChain,
    InputNeverPulled,
    TransformPlan,
    executed,
    plan_execute_transform,
    plan_replay,
    plan_transform,
    replay_inputs,
    transform_inputs,
)
from odfabric.errors import ChainsDiverged, IncompatibleSchema, InvalidRequest, LimitExceeded
from odfabric.model.data_schema import DataSchema
from odfabric.model.engine import TransformStep
from odfabric.model.identity import DatasetAlias, DatasetHandle, DatasetId, Name
from odfabric.model.instant import Instant
from odfabric.model.metadata import (
    AddData,
    DatasetKind,
    DataSlice,
    ExecuteTransform,
    ExecuteTransformInput,
    SetDataSchema,
    SetInfo,
    SetVocab,
    TransformInput,
)
from odfabric.model.multihash import Multihash
from odfabric.model.offsets import OffsetRange
from odfabric.testing.chains import (
    INPUT_IDS,
    START,
    ChainBuilder,
    example_checkpoint,
    example_schema,
    example_slice,
    example_transform,
    physical_hash,
    random_add_data,
)

NOW = Instant.parse("2024-02-01T00:00:00Z")


def at(second: int) -> Instant:
    return Instant.from_millis(START.millis + 1000 * second)


def source(number: int = 0) -> ChainBuilder:
    """An input: a root dataset with a schema."""
    chain = ChainBuilder(dataset_id=INPUT_IDS[number])
    chain.append(SetDataSchema(schema=example_schema()))
    return chain


def derivative(inputs: int = 1) -> ChainBuilder:
    chain = ChainBuilder(DatasetKind.DERIVATIVE)
    chain.append(example_transform(*INPUT_IDS[:inputs]))
    return chain


def views(
    chains: Iterable[ChainBuilder], heads: Mapping[DatasetId, Multihash | None] | None = None
) -> dict[DatasetId, InputChain]:
    """The inputs as the planner wants them, at their heads or at the given blocks."""
    found: dict[DatasetId, InputChain] = {}
    for number, chain in enumerate(chains):
        dataset_id = chain.state.dataset_id
        state = chain.state if heads is None else read_state(chain, heads[dataset_id])
        handle = DatasetHandle(dataset_id, DatasetAlias(Name("local"), Name(f"input.{number}")))
        found[dataset_id] = InputChain(handle=handle, state=state, blocks=chain)
    return found


def plan(output: ChainBuilder, *inputs: ChainBuilder, blocks_max: int = 100) -> TransformPlan:
    found = plan_transform(output.state, views(inputs), system_time=NOW, blocks_max=blocks_max)
    assert isinstance(found, TransformPlan)
    return found


def run(output: ChainBuilder, found: TransformPlan, *, rows: int = 0, watermark: Instant | None = None) -> None:
    """Pretend that an engine has run the plan: some rows and a new checkpoint."""
    output.extend(
        plan_execute_transform(
            output.state,
            found,
            data_schema=example_schema(),
            new_data=example_slice(output.state.next_offset, rows) if rows else None,
            new_checkpoint=example_checkpoint(str(len(output.blocks))),
            watermark=watermark,
        )
    )


# --- intervals --------------------------------------------------------------------------------------------------------


def test_the_first_transaction_reads_everything() -> None:
    flights, output = source(), derivative()
    flights.append(flights.next_add_data(10, new_watermark=at(1)))
    flights.append(SetInfo())
    flights.append(flights.next_add_data(0, new_watermark=at(2)))
    flights.append(flights.next_add_data(5))
    found = plan(output, flights)
    (entry,) = found.inputs
    assert entry.progress == ExecuteTransformInput(dataset_id=INPUT_IDS[0], new_block_hash=flights.head, new_offset=14)
    assert (entry.query_alias, entry.data_schema) == ("input0", example_schema())
    assert entry.offsets == OffsetRange(0, 15)
    assert entry.slices == (example_slice(0, 10), example_slice(10, 5))
    times = [encoded.block.system_time for encoded in flights.blocks]
    assert entry.steps == (
        TransformStep(system_time=times[2], last_offset=9, watermark=at(1)),
        TransformStep(system_time=times[4], last_offset=9, watermark=at(2)),
        TransformStep(system_time=times[5], last_offset=14, watermark=at(2)),
    )
    assert (found.dataset_id, found.system_time, found.next_offset) == (output.state.dataset_id, NOW, 0)
    assert (found.data_schema, found.prev_checkpoint, found.prev_watermark) == (None, None, None)
    assert found.is_due


def test_the_next_transaction_starts_where_the_last_one_ended() -> None:
    flights, output = source(), derivative()
    flights.append(flights.next_add_data(10, new_watermark=at(1)))
    run(output, plan(output, flights), rows=4, watermark=at(1))
    consumed = flights.head
    flights.append(flights.next_add_data(5, new_watermark=at(3)))
    found = plan(output, flights)
    (entry,) = found.inputs
    assert entry.progress == ExecuteTransformInput(
        dataset_id=INPUT_IDS[0], prev_block_hash=consumed, new_block_hash=flights.head, prev_offset=9, new_offset=14
    )
    assert (entry.offsets, entry.slices) == (OffsetRange(10, 15), (example_slice(10, 5),))
    assert (found.prev_offset, found.next_offset, found.prev_watermark) == (3, 4, at(1))
    assert found.prev_checkpoint == output.state.checkpoint
    assert found.data_schema == example_schema()


def test_an_input_without_news_has_an_empty_interval() -> None:
    flights, weather, output = source(), source(1), derivative(2)
    for chain in (flights, weather):
        chain.append(chain.next_add_data(2, new_watermark=at(1)))
    run(output, plan(output, flights, weather), rows=1)
    weather.append(weather.next_add_data(1))
    first, second = plan(output, flights, weather).inputs
    assert first.progress == ExecuteTransformInput(dataset_id=INPUT_IDS[0], prev_block_hash=flights.head, prev_offset=1)
    assert (first.slices, first.steps, len(first.offsets)) == ((), (), 0)
    assert (second.progress.new_block_hash, second.progress.new_offset) == (weather.head, 2)


def test_a_watermark_alone_moves_the_block_but_not_the_offset() -> None:
    flights, output = source(), derivative()
    flights.append(flights.next_add_data(2, new_watermark=at(1)))
    run(output, plan(output, flights), rows=1)
    flights.append(flights.next_add_data(0, new_watermark=at(5)))
    (entry,) = plan(output, flights).inputs
    assert (entry.progress.new_block_hash, entry.progress.prev_offset, entry.progress.new_offset) == (
        flights.head,
        1,
        None,
    )
    assert entry.watermark_advances


def test_the_names_of_an_inputs_columns_are_the_inputs_own() -> None:
    flights, output = source(), derivative()
    flights.append(SetVocab(event_time_column="date"))
    output.append(SetVocab(offset_column="n"))
    found = plan(output, flights)
    assert found.inputs[0].vocabulary.event_time == "date"
    assert (found.vocabulary.offset, found.vocabulary.event_time) == ("n", "event_time")


def test_inputs_that_are_derivatives_themselves_are_read_alike() -> None:
    flights, hourly, daily = source(), derivative(), ChainBuilder(DatasetKind.DERIVATIVE)
    flights.append(flights.next_add_data(3, new_watermark=at(1)))
    run(hourly, plan(hourly, flights), rows=2, watermark=at(1))
    daily.append(example_transform(hourly.state.dataset_id))
    (entry,) = plan(daily, hourly).inputs
    assert (entry.slices, entry.steps[-1].watermark) == ((example_slice(0, 2),), at(1))


# --- due --------------------------------------------------------------------------------------------------------------


def test_a_run_without_data_is_due_once_to_learn_the_schema() -> None:
    flights, output = source(), derivative()
    found = plan(output, flights)
    assert found.is_due
    run(output, found)
    assert [type(encoded.block.event) for encoded in output.blocks[2:]] == [SetDataSchema, ExecuteTransform]
    assert not plan(output, flights).is_due


@pytest.mark.parametrize(
    ("news", "due"),
    [
        ("nothing", False),
        ("words", False),
        ("a source state", False),
        ("records", True),
        ("a watermark", True),
        ("records without a watermark", True),
    ],
)
def test_only_records_and_higher_watermarks_are_worth_a_run(news: str, due: bool) -> None:
    flights, output = source(), derivative()
    flights.append(flights.next_add_data(2, new_watermark=None if "without" in news else at(1)))
    flights.append(SetInfo(description="at the head when it was read"))
    run(output, plan(output, flights), rows=1)
    match news:
        case "words":
            flights.append(SetInfo(description="new"))
        case "a source state":
            flights.append(flights.next_add_data(0, new_checkpoint=example_checkpoint("x")))
        case "records" | "records without a watermark":
            flights.append(flights.next_add_data(1))
        case "a watermark":
            flights.append(flights.next_add_data(0, new_watermark=at(2)))
        case _:
            pass
    assert plan(output, flights).is_due is due


def test_blocks_that_were_not_worth_a_run_go_with_the_next_one() -> None:
    flights, output = source(), derivative()
    flights.append(flights.next_add_data(2, new_watermark=at(1)))
    run(output, plan(output, flights), rows=1)
    consumed = flights.head
    flights.append(SetInfo(description="waits"))
    flights.append(flights.next_add_data(1))
    (entry,) = plan(output, flights).inputs
    assert (entry.progress.prev_block_hash, entry.progress.new_block_hash) == (consumed, flights.head)


def test_the_first_watermark_of_an_input_is_news() -> None:
    flights, output = source(), derivative()
    flights.append(flights.next_add_data(2))
    run(output, plan(output, flights), rows=1)
    flights.append(flights.next_add_data(0, new_watermark=at(1)))
    assert plan(output, flights).is_due


def test_an_input_that_was_never_pulled_is_no_error() -> None:
    flights, empty = source(), ChainBuilder(dataset_id=INPUT_IDS[1])
    found = plan_transform(derivative(2).state, views([flights, empty]), system_time=NOW, blocks_max=10)
    assert found == InputNeverPulled(INPUT_IDS[1])


# --- refusals ---------------------------------------------------------------------------------------------------------


def test_an_input_whose_history_was_rewritten_has_diverged() -> None:
    flights, output = source(), derivative()
    flights.append(flights.next_add_data(2, new_watermark=at(1)))
    run(output, plan(output, flights), rows=1)
    rewritten = source()
    rewritten.append(rewritten.next_add_data(3, new_watermark=at(1)))
    with pytest.raises(ChainsDiverged, match=r"Input local/input\.0 has diverged") as refusal:
        plan(output, rewritten)
    assert flights.head.short in refusal.value.message
    assert refusal.value.hint is not None
    assert "--recompute" in refusal.value.hint


def test_an_input_that_was_moved_back_has_diverged() -> None:
    flights, output = source(), derivative()
    flights.append(flights.next_add_data(2, new_watermark=at(1)))
    earlier = flights.head
    flights.append(flights.next_add_data(2))
    run(output, plan(output, flights), rows=1)
    with pytest.raises(ChainsDiverged):
        plan_transform(output.state, views([flights], {INPUT_IDS[0]: earlier}), system_time=NOW, blocks_max=10)


def test_a_dataset_without_a_transform_cannot_be_run() -> None:
    with pytest.raises(InvalidRequest, match="has no transform"):
        plan_transform(ChainBuilder().state, {}, system_time=NOW, blocks_max=10)
    with pytest.raises(InvalidRequest, match="has no transform"):
        transform_inputs(ChainBuilder(DatasetKind.DERIVATIVE).state)


@pytest.mark.parametrize(
    "entry",
    [TransformInput(dataset_ref=str(INPUT_IDS[0])), TransformInput(dataset_ref="local/flights", alias="flights")],
)
def test_inputs_that_nobody_resolved_cannot_be_run(entry: TransformInput) -> None:
    """No valid chain holds such an event; a state that was read without judging may."""
    event = replace(example_transform(), inputs=(entry,))
    block = replace(derivative().blocks[-1].block, event=event)
    state = apply(ChainState.empty(), physical_hash("unjudged"), block)
    with pytest.raises(InvalidRequest, match="is not resolved"):
        transform_inputs(state)


def test_inputs_that_were_changed_need_a_reset() -> None:
    flights, weather, output = source(), source(1), derivative()
    run(output, plan(output, flights), rows=1)
    output.append(example_transform(INPUT_IDS[1]))
    with pytest.raises(InvalidRequest, match="not those of its earlier transactions") as refusal:
        plan(output, flights, weather)
    assert refusal.value.hint == "declare a new dataset with this transform"


def test_an_interval_has_a_limit() -> None:
    flights, output = source(), derivative()
    for _ in range(8):
        flights.append(flights.next_add_data(1))
    assert len(plan(output, flights, blocks_max=10).inputs[0].steps) == 8
    with pytest.raises(LimitExceeded):
        plan(output, flights, blocks_max=9)


def test_inputs_are_named_in_order() -> None:
    assert transform_inputs(derivative(3).state) == INPUT_IDS


# --- what is committed ------------------------------------------------------------------------------------------------


def test_a_transaction_records_progress_and_repeats_what_the_engine_left_alone() -> None:
    flights, output = source(), derivative()
    flights.append(flights.next_add_data(2, new_watermark=at(5)))
    run(output, plan(output, flights), rows=1, watermark=at(5))
    flights.append(flights.next_add_data(1))
    found = plan(output, flights)
    (event,) = plan_execute_transform(
        output.state,
        found,
        data_schema=example_schema(),
        new_data=example_slice(1, 1),
        new_checkpoint=None,
        watermark=at(3),
    )
    assert found.prev_checkpoint is not None
    assert event == ExecuteTransform(
        query_inputs=(found.inputs[0].progress,),
        prev_checkpoint=found.prev_checkpoint.physical_hash,
        prev_offset=0,
        new_data=example_slice(1, 1),
        new_checkpoint=found.prev_checkpoint,
        new_watermark=at(5),
    )
    output.append(event)


def outcome(output: ChainBuilder, found: TransformPlan, **members: object) -> list[str]:
    said: dict[str, object] = {"new_data": None, "new_checkpoint": None, "watermark": None}
    events = plan_execute_transform(
        output.state,
        found,
        data_schema=example_schema(),
        **{**said, **members},  # type: ignore[arg-type]
    )
    output.extend(events)
    return [type(event).__name__ for event in events]


def test_only_the_schema_stays_of_a_transaction_that_says_nothing() -> None:
    flights, output = source(), derivative()
    assert outcome(output, plan(output, flights)) == ["SetDataSchema"]
    flights.append(flights.next_add_data(1))
    found = plan(output, flights)
    assert outcome(output, found) == []
    assert found.is_due


@pytest.mark.parametrize(
    "members", [{"new_checkpoint": example_checkpoint("one")}, {"watermark": at(1)}, {"new_data": example_slice(0, 1)}]
)
def test_data_checkpoint_or_watermark_is_enough_to_record(members: dict[str, object]) -> None:
    flights, output = source(), derivative()
    flights.append(flights.next_add_data(1))
    assert outcome(output, plan(output, flights), **members) == ["SetDataSchema", "ExecuteTransform"]


def test_a_transaction_without_any_change_is_not_recorded() -> None:
    flights, output = source(), derivative()
    flights.append(flights.next_add_data(1, new_watermark=at(1)))
    run(output, plan(output, flights), rows=1, watermark=at(1))
    assert outcome(output, plan(output, flights), watermark=at(1)) == []


@pytest.mark.parametrize(
    "members", [{"new_checkpoint": example_checkpoint("new")}, {"watermark": at(2)}, {"new_data": example_slice(1, 1)}]
)
def test_a_change_is_recorded_even_if_no_input_advances(members: dict[str, object]) -> None:
    flights, output = source(), derivative()
    flights.append(flights.next_add_data(1, new_watermark=at(1)))
    run(output, plan(output, flights), rows=1, watermark=at(1))
    assert outcome(output, plan(output, flights), **members) == ["ExecuteTransform"]


def test_progress_of_inputs_is_recorded_even_if_nothing_else_changes() -> None:
    flights, output = source(), derivative()
    flights.append(flights.next_add_data(1, new_watermark=at(1)))
    run(output, plan(output, flights), rows=1, watermark=at(1))
    flights.append(flights.next_add_data(1))
    assert outcome(output, plan(output, flights)) == ["ExecuteTransform"]
    assert not plan(output, flights).is_due


def test_an_output_of_another_schema_is_refused() -> None:
    flights, output = source(), derivative()
    run(output, plan(output, flights))
    flights.append(flights.next_add_data(1))
    narrow = DataSchema(fields=example_schema().fields[:-1])
    with pytest.raises(IncompatibleSchema):
        plan_execute_transform(
            output.state,
            plan(output, flights),
            data_schema=narrow,
            new_data=None,
            new_checkpoint=example_checkpoint("x"),
            watermark=None,
        )


# --- laws: growing inputs, many transactions, replay ------------------------------------------------------------------


class World:
    """Inputs that grow at random and a derivative dataset that is run now and then."""

    def __init__(self, chance: Random, inputs: int) -> None:
        self.chance = chance
        self.inputs = [source(number) for number in range(inputs)]
        self.output = derivative(inputs)
        self.plans: list[TransformPlan] = []

    def grow(self) -> None:
        chain = self.chance.choice(self.inputs)
        if self.chance.random() < 0.2:
            chain.append(SetInfo(description=str(len(chain.blocks))))
        else:
            chain.append(random_add_data(chain, self.chance))

    def run_if_due(self) -> None:
        found = plan(self.output, *self.inputs)
        if found.is_due:
            run(
                self.output,
                found,
                rows=self.chance.choice((0, 3)),
                watermark=self.chance.choice((None, at(len(self.plans)))),
            )
            self.plans.append(found)

    def replays(self) -> Iterable[tuple[ChainState, ExecuteTransform, TransformPlan | InputNeverPulled]]:
        state = ChainState.empty()
        for encoded in self.output.blocks:
            event = encoded.block.event
            if isinstance(event, ExecuteTransform):
                at_blocks = views(self.inputs, replay_inputs(event))
                yield (
                    state,
                    event,
                    plan_replay(state, event, at_blocks, system_time=encoded.block.system_time, blocks_max=100),
                )
            state = apply(state, encoded.hash, encoded.block)


def grown_world(chance: Random, inputs: int, steps: int) -> World:
    world = World(chance, inputs)
    for _ in range(steps):
        world.grow()
        if chance.random() < 0.4:
            world.run_if_due()
    world.run_if_due()
    return world


WORLDS = st.builds(grown_world, st.randoms(use_true_random=False), st.integers(1, 3), st.integers(0, 12))


@given(WORLDS)
def test_every_record_and_watermark_is_handed_over_once(world: World) -> None:
    for position, chain in enumerate(world.inputs):
        handed = [piece for found in world.plans for piece in found.inputs[position].slices]
        assert handed == [event.new_data for event in data_events(chain) if event.new_data is not None]
        intervals = [found.inputs[position].offsets for found in world.plans]
        assert sum(len(interval) for interval in intervals) == chain.state.next_offset
        steps = [step for found in world.plans for step in found.inputs[position].steps]
        watermarks = [event.new_watermark for event in data_events(chain)]
        assert [step.watermark for step in steps] == watermarks[: len(steps)]
        assert max((w for w in watermarks if w), default=None) == max(
            (s.watermark for s in steps if s.watermark), default=None
        )


def data_events(chain: ChainBuilder) -> list[AddData]:
    return [encoded.block.event for encoded in chain.blocks if isinstance(encoded.block.event, AddData)]


@given(WORLDS)
def test_a_replay_is_the_plan_that_was_run(world: World) -> None:
    replays = list(world.replays())
    assert len(replays) == len(world.plans)
    for original, (state, event, replayed) in zip(world.plans, replays, strict=True):
        assert isinstance(replayed, TransformPlan)
        # The schema is committed before the first transaction, so only there a replay knows more than the plan did.
        schema = replayed.data_schema if original.data_schema is None else original.data_schema
        assert schema == replayed.data_schema == example_schema()
        committed_at = replace(original, data_schema=schema, system_time=replayed.system_time)
        assert replayed == committed_at
        again = executed(
            replayed, new_data=event.new_data, new_checkpoint=event.new_checkpoint, watermark=event.new_watermark
        )
        assert again == event
        assert state.dataset_id == replayed.dataset_id


def test_a_replay_has_the_blocks_own_time() -> None:
    world = grown_world(Random(3), 1, 3)
    times = [e.block.system_time for e in world.output.blocks if isinstance(e.block.event, ExecuteTransform)]
    assert [found.system_time for _, _, found in world.replays() if isinstance(found, TransformPlan)] == times


def test_a_block_that_lies_about_an_offset_differs_from_its_replay() -> None:
    flights, output = source(), derivative()
    flights.append(flights.next_add_data(10, new_watermark=at(1)))
    run(output, plan(output, flights), rows=1)
    block = output.blocks[-1].block
    assert isinstance(block.event, ExecuteTransform)
    lying = replace(block.event, query_inputs=(replace(block.event.query_inputs[0], new_offset=7),))
    before = read_state(output, output.blocks[-2].hash)
    inputs = views([flights], replay_inputs(lying))
    replayed = plan_replay(before, lying, inputs, system_time=block.system_time, blocks_max=10)
    assert isinstance(replayed, TransformPlan)
    assert replayed.inputs[0].progress.new_offset == 9


def test_only_transactions_of_the_declared_inputs_can_be_replayed() -> None:
    flights, output = source(), derivative()
    run(output, plan(output, flights), rows=1)
    block = output.blocks[-1].block
    before = read_state(output, output.blocks[-2].hash)
    assert isinstance(block.event, ExecuteTransform)
    with pytest.raises(InvalidRequest, match="not those of its earlier transactions"):
        plan_replay(before, replace(block.event, query_inputs=()), {}, system_time=block.system_time, blocks_max=10)


def test_slices_carry_what_is_needed_to_fetch_them() -> None:
    flights, output = source(), derivative()
    flights.append(flights.next_add_data(10))
    (piece,) = plan(output, flights).inputs[0].slices
    assert isinstance(piece, DataSlice)
    assert piece == example_slice(0, 10)
