"""Cutting what inputs have new into transactions of bounded size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.domain.chain.state import ChainState, apply
from odfabric.domain.chain.walk import read_state
from odfabric.domain.transform.transform_cut import (
    Cut,
    Floor,
    InputNews,
    NewBlock,
    TransactionLimits,
    cuts,
    news_of,
    whole,
    whole_if_small,
)
from odfabric.domain.transform.transform_plan import (
    InputChain,
    TransformPlan,
    plan_execute_transform,
    plan_replay,
    plan_transform,
    replay_inputs,
)
from odfabric.errors import ChainsDiverged
from odfabric.model.data_schema import DataField, DataTypeInt64, DataTypeOption
from odfabric.model.identity import DatasetAlias, DatasetHandle, DatasetId, Name
from odfabric.model.instant import Instant
from odfabric.model.metadata import DatasetKind, ExecuteTransform, SetDataSchema, SetInfo
from odfabric.testing.chains import (
    INPUT_IDS,
    START,
    ChainBuilder,
    example_checkpoint,
    example_schema,
    example_slice,
    example_transform,
    random_add_data,
)

NOW = Instant.parse("2024-02-01T00:00:00Z")
MANY = TransactionLimits(rows_max=1_000_000, blocks_max=1_000_000)
WIDER = example_schema(*example_schema().fields[4:], DataField(name="new", type=DataTypeOption(inner=DataTypeInt64())))


def rows_up_to(rows_max: int) -> TransactionLimits:
    return TransactionLimits(rows_max=rows_max, blocks_max=1_000_000)


def at(second: float) -> Instant:
    return Instant.from_millis(START.millis + int(1000 * second))


def source(number: int = 0) -> ChainBuilder:
    chain = ChainBuilder(dataset_id=INPUT_IDS[number])
    chain.append(SetDataSchema(schema=example_schema()), after_ms=0)
    return chain


def push(chain: ChainBuilder, *sizes: int, after_ms: int = 1000) -> None:
    for rows in sizes:
        chain.append(chain.next_add_data(rows, new_watermark=at(len(chain.blocks))), after_ms=after_ms)


def derivative(inputs: int = 1) -> ChainBuilder:
    chain = ChainBuilder(DatasetKind.DERIVATIVE)
    chain.append(example_transform(*INPUT_IDS[:inputs]))
    return chain


def views(chains: Sequence[ChainBuilder], cut: Cut | None = None) -> dict[DatasetId, InputChain]:
    """The inputs at their heads, or at a cut."""
    found = {}
    for number, chain in enumerate(chains):
        dataset = chain.state.dataset_id
        state = chain.state if cut is None else read_state(chain, cut.ends[dataset])
        handle = DatasetHandle(dataset, DatasetAlias(Name("local"), Name(f"input.{number}")))
        found[dataset] = InputChain(handle=handle, state=state, blocks=chain)
    return found


def cut(
    output: ChainBuilder, *inputs: ChainBuilder, limits: TransactionLimits, floor: Floor = Floor.FIRST
) -> tuple[Cut, ...]:
    return cuts(news_of(output.state, views(inputs), blocks_max=1000), limits=limits, floor=floor)


def positions(found: Cut, inputs: Sequence[ChainBuilder]) -> list[int]:
    """How many blocks of each input lie up to the cut."""
    counted = []
    for chain in inputs:
        end = found.ends[chain.state.dataset_id]
        counted.append(0 if end is None else chain.get(end).sequence_number + 1)
    return counted


def run(output: ChainBuilder, inputs: Sequence[ChainBuilder], found: Cut) -> TransformPlan:
    """Pretend that an engine has run the transaction of a cut."""
    plan = plan_transform(output.state, views(inputs, found), system_time=NOW, blocks_max=1000)
    assert isinstance(plan, TransformPlan)
    output.extend(
        plan_execute_transform(
            output.state,
            plan,
            data_schema=example_schema(),
            new_data=example_slice(output.state.next_offset, 1),
            new_checkpoint=example_checkpoint(str(len(output.blocks))),
            watermark=None,
        )
    )
    return plan


def test_blocks_are_taken_until_the_next_one_is_too_much() -> None:
    flights, output = source(), derivative()
    push(flights, 3, 3, 3, 3, 1)
    found = cut(output, flights, limits=rows_up_to(7))
    assert [each.rows for each in found] == [6, 7]
    assert [positions(each, [flights]) for each in found] == [[4], [7]]


def test_a_block_that_is_larger_than_the_limit_is_taken_whole_and_alone() -> None:
    flights, output = source(), derivative()
    push(flights, 1, 50, 1, 1)
    assert [each.rows for each in cut(output, flights, limits=rows_up_to(10))] == [1, 50, 2]
    assert [each.rows for each in cut(output, flights, limits=rows_up_to(1))] == [1, 50, 1, 1]


def test_data_blocks_are_limited_too() -> None:
    flights, output = source(), derivative()
    push(flights, 1, 0, 1, 1, 1)
    found = cut(output, flights, limits=TransactionLimits(rows_max=100, blocks_max=2))
    assert [each.rows for each in found] == [1, 2, 1]


def test_inputs_are_read_up_to_the_same_moment() -> None:
    flights, weather, output = source(), source(1), derivative(2)
    push(flights, 1, 1, 1, 1)
    push(weather, 1, 1, after_ms=2000)
    # Moments 1, 2 (both), 3, 4 (both): a cut never lies between the two of one moment.
    found = cut(output, flights, weather, limits=rows_up_to(2))
    assert [positions(each, [flights, weather]) for each in found] == [[3, 2], [4, 3], [5, 3], [6, 4]]


def test_a_moment_that_is_too_much_by_itself_is_parted_in_the_order_of_the_inputs() -> None:
    flights, weather, output = source(), source(1), derivative(2)
    for chain in (flights, weather):
        push(chain, 2)
        push(chain, 2, after_ms=0)
    found = cut(output, flights, weather, limits=rows_up_to(4))
    assert [positions(each, [flights, weather]) for each in found] == [[4, 2], [4, 4]]


def test_an_input_whose_schema_came_later_is_read_up_to_that_schema_only() -> None:
    flights, output = source(), derivative(2)
    push(flights, 1, 1, 1)
    weather = ChainBuilder(dataset_id=INPUT_IDS[1])
    weather.append(SetDataSchema(schema=example_schema()), after_ms=60_000)
    push(weather, 5)
    inputs = [flights, weather]
    found = cut(output, *inputs, limits=rows_up_to(2))
    assert [positions(each, inputs) for each in found] == [[4, 2], [5, 2], [5, 3]]
    plans = [run(output, inputs, each) for each in found]
    assert [entry.inputs[1].offsets.end for entry in plans] == [0, 0, 5]


def evolved() -> ChainBuilder:
    flights = source()
    push(flights, 2, 2)
    flights.append(SetDataSchema(schema=WIDER))
    push(flights, 2)
    return flights


@pytest.mark.parametrize(("floor", "rows"), [(Floor.NONE, [2, 2, 2]), (Floor.FIRST, [2, 2, 2]), (Floor.LAST, [4, 2])])
def test_a_new_transform_may_need_the_newest_schema(floor: Floor, rows: list[int]) -> None:
    output = derivative()
    assert [each.rows for each in cut(output, evolved(), limits=rows_up_to(2), floor=floor)] == rows


def test_a_floor_takes_the_others_along_up_to_its_moment() -> None:
    flights, weather, output = evolved(), source(1), derivative(2)
    push(weather, 1, 1, 1, 1, 1)
    found = cut(output, flights, weather, limits=rows_up_to(2), floor=Floor.LAST)
    assert positions(found[0], [flights, weather]) == [5, 4]
    assert found[0].rows == 6


def test_a_moment_behind_the_floor_is_not_parted_either() -> None:
    flights, weather, output = evolved(), source(1), derivative(2)
    weather.append(SetInfo(description="the same moment as the last flights"), after_ms=4000)
    push(weather, 1, after_ms=0)
    found = cut(output, flights, weather, limits=rows_up_to(6), floor=Floor.LAST)
    assert [each.rows for each in found] == [4, 3]


def test_only_what_is_new_is_cut() -> None:
    flights, output = source(), derivative()
    push(flights, 3)
    (first,) = cut(output, flights, limits=MANY)
    run(output, [flights], first)
    push(flights, 3, 3)
    news = news_of(output.state, views([flights]), blocks_max=10)
    assert [(entry.after, len(entry.blocks)) for entry in news] == [(first.ends[INPUT_IDS[0]], 2)]
    assert [each.rows for each in cut(output, flights, limits=rows_up_to(3), floor=Floor.NONE)] == [3, 3]


def test_nothing_new_is_one_transaction_that_ends_where_it_begins() -> None:
    flights, output = source(), derivative()
    push(flights, 3)
    run(output, [flights], whole(views([flights])))
    (found,) = cut(output, flights, limits=MANY, floor=Floor.NONE)
    assert (found.ends, found.rows) == ({INPUT_IDS[0]: flights.head}, 0)


@pytest.mark.parametrize(("rows_max", "blocks_max", "small"), [(6, 4, True), (5, 4, False), (6, 3, False)])
def test_small_intervals_are_told_without_reading_them(rows_max: int, blocks_max: int, small: bool) -> None:
    flights, output = source(), derivative()
    push(flights, 3)
    run(output, [flights], whole(views([flights])))
    push(flights, 2, 2)
    flights.append(SetInfo(description="words"))
    push(flights, 2)
    found = whole_if_small(output.state, views([flights]), TransactionLimits(rows_max=rows_max, blocks_max=blocks_max))
    assert found == (Cut(ends={INPUT_IDS[0]: flights.head}, rows=6) if small else None)


def test_an_input_that_was_rewritten_has_diverged() -> None:
    flights, output = source(), derivative()
    push(flights, 3)
    run(output, [flights], whole(views([flights])))
    other = source()
    push(other, 1, 1, 1)
    assert whole_if_small(output.state, views([other]), MANY) is None
    with pytest.raises(ChainsDiverged, match=r"Input local/input\.0 has diverged"):
        news_of(output.state, views([other]), blocks_max=10)


# --- laws -------------------------------------------------------------------------------------------------------------


class World:
    """Inputs that grew at random, some of it consumed already, and limits."""

    def __init__(self, chance: Random, inputs: int, steps: int) -> None:
        self.inputs = [source(number) for number in range(inputs)]
        self.output = derivative(inputs)
        self.limits = TransactionLimits(rows_max=chance.randint(1, 25), blocks_max=chance.randint(1, 6))
        consumed = chance.randint(0, steps)
        for step in range(steps):
            chain = chance.choice(self.inputs)
            event = SetInfo(description=str(step)) if chance.random() < 0.2 else random_add_data(chain, chance)
            chain.append(event, after_ms=chance.choice((0, 0, 1000, 3000)))
            if step == consumed:
                run(self.output, self.inputs, whole(views(self.inputs)))
        self.news = news_of(self.output.state, views(self.inputs), blocks_max=1000)
        floor = Floor.FIRST if self.output.state.execute_transform is None else Floor.NONE
        self.cuts = cuts(self.news, limits=self.limits, floor=floor)

    def taken(self) -> list[list[tuple[int, NewBlock]]]:
        """Per transaction the blocks that it takes, with the position of their input."""
        ends = [self._positions(each) for each in self.cuts]
        starts = [[0] * len(self.news), *ends]
        return [
            [
                (position, block)
                for position, entry in enumerate(self.news)
                for block in entry.blocks[start[position] : end[position]]
            ]
            for start, end in zip(starts, ends, strict=False)
        ]

    def _positions(self, found: Cut) -> list[int]:
        return [self._position(entry, found) for entry in self.news]

    def _position(self, entry: InputNews, found: Cut) -> int:
        end = found.ends[entry.dataset_id]
        return 0 if end == entry.after else [block.hash for block in entry.blocks].index(end) + 1  # type: ignore[arg-type]


WORLDS = st.builds(World, st.randoms(use_true_random=False), st.integers(1, 3), st.integers(0, 25))


@given(WORLDS)
def test_cuts_one_after_the_other_are_the_whole_in_order(world: World) -> None:
    taken = world.taken()
    for position, entry in enumerate(world.news):
        assert [block for part in taken for place, block in part if place == position] == list(entry.blocks)
    assert [each.rows for each in world.cuts] == [sum(block.rows for _, block in part) for part in taken]
    assert world.cuts[-1].ends == whole(views(world.inputs)).ends


@given(WORLDS)
def test_a_transaction_is_within_the_limits_or_one_block_that_matters(world: World) -> None:
    for part in world.taken():
        data = [block for _, block in part if block.is_data]
        rows = sum(block.rows for block in data)
        worthy = [block for block in data if block.worth_a_run]
        fits = rows <= world.limits.rows_max and len(data) <= world.limits.blocks_max
        assert fits or len(worthy) == 1
        assert worthy or len(world.cuts) == 1


@given(WORLDS)
def test_inputs_stay_in_step(world: World) -> None:
    parts = [[each for each in part if each[1].is_data] for part in world.taken()]
    for earlier, later in pairwise(parts):
        if earlier and later:
            last = max((block.system_time, position) for position, block in earlier)
            first = min((block.system_time, position) for position, block in later)
            assert last <= first
            if last[0] == first[0]:  # a moment is parted only where nothing else was taken that is worth a run
                assert not any(block.worth_a_run and block.system_time < last[0] for _, block in earlier)


@given(WORLDS)
def test_every_cut_is_due_and_its_replay_the_same(world: World) -> None:
    before = len(world.output.blocks)
    plans = []
    for each in world.cuts:
        plan = plan_transform(world.output.state, views(world.inputs, each), system_time=NOW, blocks_max=1000)
        assert isinstance(plan, TransformPlan)
        assert plan.is_due or len(world.cuts) == 1
        plans.append(run(world.output, world.inputs, each))
    state = ChainState.empty()
    for number, encoded in enumerate(world.output.blocks):
        event = encoded.block.event
        if isinstance(event, ExecuteTransform) and number >= before:
            ends = Cut(ends=replay_inputs(event), rows=0)
            again = plan_replay(
                state, event, views(world.inputs, ends), system_time=encoded.block.system_time, blocks_max=1000
            )
            original = plans.pop(0)
            assert isinstance(again, TransformPlan)
            assert again == replace(original, system_time=again.system_time, data_schema=again.data_schema)
        state = apply(state, encoded.hash, encoded.block)
    assert not plans
