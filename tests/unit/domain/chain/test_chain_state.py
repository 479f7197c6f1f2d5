"""What a chain says at a block, and walking to find out."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.domain.chain.append import fold_blocks, link_blocks, next_system_time
from odfabric.domain.chain.state import ChainState, apply, merge, state_of_block
from odfabric.domain.chain.walk import data_slices_down, read_state, walk
from odfabric.errors import ChainsDiverged, InvalidBlock, LimitExceeded, NotFound
from odfabric.formats.blocks.block import block_hash, encode_block
from odfabric.model.instant import Instant
from odfabric.model.metadata import (
    AddData,
    AddPushSource,
    DatasetKind,
    DisablePollingSource,
    ExecuteTransform,
    MetadataBlock,
    MetadataEvent,
    Seed,
    SetAttachments,
    SetDataSchema,
    SetInfo,
    SetLicense,
    SetPollingSource,
    SetTransform,
    SetVocab,
    SourceState,
)
from odfabric.model.multihash import Multihash
from odfabric.model.vocabulary import DatasetVocabulary
from odfabric.testing.chains import (
    START,
    ChainBuilder,
    example_checkpoint,
    example_id,
    example_polling_source,
    example_push_source,
    example_schema,
    example_slice,
    physical_hash,
    random_chain,
)

CHANCE = st.randoms(use_true_random=False)
KINDS = st.sampled_from(DatasetKind)
LATER = Instant.from_millis(START.millis + 3_600_000)
LENGTHS = st.integers(min_value=1, max_value=30)


class CountingSource:
    """Passes blocks on and counts how many were asked for."""

    def __init__(self, chain: ChainBuilder) -> None:
        self.chain, self.count = chain, 0

    def get(self, block_hash: Multihash) -> MetadataBlock:
        self.count += 1
        return self.chain.get(block_hash)


# --- reading ----------------------------------------------------------------------------------------------------------


def test_the_empty_state_says_nothing() -> None:
    state = ChainState.empty()
    assert (state.head, state.last_offset, state.next_offset, state.watermark) == (None, None, 0, None)
    assert (state.checkpoint, state.source_state, state.vocabulary) == (None, None, DatasetVocabulary())
    with pytest.raises(ValueError, match="no seed"):
        _ = state.dataset_id
    with pytest.raises(ValueError, match="no seed"):
        _ = state.kind


def test_the_newest_data_block_says_where_to_go_on() -> None:
    chain = ChainBuilder(dataset_id=example_id("a"))
    chain.append(SetDataSchema(schema=example_schema()))
    state = SourceState(source_name="default", kind="odf/etag", value="1")
    first = chain.next_add_data(10, new_watermark=START, new_checkpoint=example_checkpoint("1"), new_source_state=state)
    chain.append(first)
    later = Instant.from_millis(START.millis + 1)
    chain.append(chain.next_add_data(0, new_watermark=later, new_checkpoint=None))
    chain.append(SetInfo(description="after"))
    found = chain.state
    assert (found.dataset_id, found.kind) == (example_id("a"), DatasetKind.ROOT)
    assert (found.last_offset, found.next_offset, found.watermark) == (9, 10, later)
    assert (found.checkpoint, found.source_state) == (None, state)
    assert found.last_data is not None
    assert found.last_data.block_hash == chain.blocks[-2].hash
    assert found.info is not None
    assert found.info.sequence_number == 4
    assert (found.head, found.sequence_number, found.system_time) == (
        chain.head,
        4,
        chain.blocks[-1].block.system_time,
    )


def test_a_vocabulary_replaces_the_whole_one_before() -> None:
    chain = ChainBuilder()
    chain.append(SetVocab(offset_column="n", event_time_column="date"))
    assert chain.state.vocabulary == DatasetVocabulary(offset="n", event_time="date")
    chain.append(SetVocab(operation_type_column="kind"))
    assert chain.state.vocabulary == DatasetVocabulary(operation_type="kind")


def test_of_each_push_source_the_newest_definition_counts() -> None:
    chain = ChainBuilder()
    chain.extend(
        [example_push_source("south"), example_push_source("north"), example_push_source("south", header=False)]
    )
    assert [source.event.source_name for source in chain.state.push_sources] == ["north", "south"]
    south = chain.state.push_source("south")
    assert south is not None
    assert (south.event, south.sequence_number) == (example_push_source("south", header=False), 3)
    assert chain.state.push_source("west") is None


def test_a_polling_source_may_be_set_again() -> None:
    chain = ChainBuilder()
    chain.extend([example_polling_source("https://example.org/1"), example_polling_source("https://example.org/2")])
    assert chain.state.polling_source is not None
    assert chain.state.polling_source.event == example_polling_source("https://example.org/2")


def test_a_state_does_not_judge() -> None:
    block = MetadataBlock(system_time=START, sequence_number=7, event=DisablePollingSource())
    state = apply(ChainState.empty(), physical_hash("x"), block)
    assert state.disabled is not None
    assert (state.sequence_number, state.disabled.event) == (7, DisablePollingSource())


SLOTS: dict[type[MetadataEvent], str] = {
    Seed: "seed",
    AddData: "add_data",
    ExecuteTransform: "execute_transform",
    SetPollingSource: "polling_source",
    SetTransform: "transform",
    SetVocab: "vocab",
    SetAttachments: "attachments",
    SetInfo: "info",
    SetLicense: "license",
    SetDataSchema: "schema",
}


@given(CHANCE, KINDS, LENGTHS)
def test_the_nearest_event_of_each_kind_is_kept_whatever_came_after(
    chance: Random, kind: DatasetKind, blocks: int
) -> None:
    chain = random_chain(chance, kind=kind, blocks=blocks)
    for event_type, slot in SLOTS.items():
        found = [encoded for encoded in chain.blocks if isinstance(encoded.block.event, event_type)]
        kept = getattr(chain.state, slot)
        if not found:
            assert kept is None
            continue
        assert (kept.block_hash, kept.event) == (found[-1].hash, found[-1].block.event)
        assert (kept.sequence_number, kept.system_time) == (
            found[-1].block.sequence_number,
            found[-1].block.system_time,
        )
    newest = {
        encoded.block.event.source_name: encoded.hash
        for encoded in chain.blocks
        if isinstance(encoded.block.event, AddPushSource)
    }
    assert {source.event.source_name: source.block_hash for source in chain.state.push_sources} == newest


# --- laws -------------------------------------------------------------------------------------------------------------


@given(CHANCE, KINDS, LENGTHS)
def test_folding_equals_walking_back(chance: Random, kind: DatasetKind, blocks: int) -> None:
    chain = random_chain(chance, kind=kind, blocks=blocks)
    assert read_state(chain, chain.head) == chain.state
    assert fold_blocks(ChainState.empty(), chain.blocks) == chain.state


@given(CHANCE, KINDS, LENGTHS, st.integers(min_value=0))
def test_reading_on_from_an_ancestor_equals_reading_all(
    chance: Random, kind: DatasetKind, blocks: int, cut: int
) -> None:
    chain = random_chain(chance, kind=kind, blocks=blocks)
    known = chain.blocks[: cut % blocks + 1]
    base = fold_blocks(ChainState.empty(), known)
    source = CountingSource(chain)
    assert read_state(source, chain.head, base=base) == chain.state
    # Only the blocks above the ancestor, and the ancestor itself to know when to stop.
    assert source.count <= len(chain.blocks) - len(known) + 2


@given(CHANCE, KINDS, LENGTHS, st.integers(min_value=0), st.integers(min_value=0))
def test_merging_is_associative_with_the_empty_state_as_neutral(
    chance: Random, kind: DatasetKind, blocks: int, one: int, two: int
) -> None:
    chain = random_chain(chance, kind=kind, blocks=blocks)
    first, second = sorted((one % (blocks + 1), two % (blocks + 1)))

    def stretch(start: int, end: int) -> ChainState:
        state = ChainState.empty()
        for encoded in chain.blocks[start:end]:
            state = merge(newer=state_of_block(encoded.hash, encoded.block), older=state)
        return state

    old, middle, new = stretch(0, first), stretch(first, second), stretch(second, blocks)
    left = merge(newer=merge(newer=new, older=middle), older=old)
    right = merge(newer=new, older=merge(newer=middle, older=old))
    assert left == right == chain.state
    assert merge(newer=chain.state, older=ChainState.empty()) == chain.state
    assert merge(newer=ChainState.empty(), older=chain.state) == chain.state


# --- walking ----------------------------------------------------------------------------------------------------------


def long_chain() -> ChainBuilder:
    chain = ChainBuilder()
    for number in range(9):
        chain.append(SetInfo(description=str(number)))
    return chain


def test_a_walk_goes_from_the_head_to_the_seed() -> None:
    chain = long_chain()
    links = list(walk(chain, chain.head))
    assert [link.hash for link in links] == [encoded.hash for encoded in reversed(chain.blocks)]
    assert [link.block for link in links] == [encoded.block for encoded in reversed(chain.blocks)]
    assert list(walk(chain, None)) == []


def test_an_interval_holds_its_head_but_not_its_tail() -> None:
    chain = long_chain()
    hashes = [encoded.hash for encoded in chain.blocks]
    assert [link.hash for link in walk(chain, hashes[6], tail=hashes[3])] == hashes[6:3:-1]
    assert list(walk(chain, hashes[6], tail=hashes[6])) == []


def test_a_walk_is_lazy() -> None:
    source = CountingSource(long_chain())
    links = walk(source, source.chain.head)
    assert source.count == 0
    next(links)
    assert source.count == 1


@pytest.mark.parametrize("tail", ["above the head", "of another chain", "unknown"])
def test_a_tail_that_is_not_an_ancestor_is_found_out(tail: str) -> None:
    chain = long_chain()
    other = ChainBuilder(dataset_id=example_id("other"))
    for encoded in other.blocks:
        chain.by_hash[encoded.hash] = encoded.block
    hashes = {"above the head": chain.head, "of another chain": other.head, "unknown": physical_hash("nothing")}
    with pytest.raises(ChainsDiverged, match=f"block {hashes[tail]} is not in the chain of"):
        list(walk(chain, chain.blocks[5].hash, tail=hashes[tail]))


def test_no_tail_lies_in_an_empty_chain() -> None:
    chain = long_chain()
    with pytest.raises(ChainsDiverged):
        list(walk(chain, None, tail=chain.head))


def test_divergence_is_certain_at_the_number_of_the_tail() -> None:
    source = CountingSource(long_chain())
    other = long_chain()
    other.append(SetInfo(description="aside"))
    tail = ChainBuilder(dataset_id=example_id("other"))
    for number in range(7):
        tail.append(SetInfo(description=str(number)))
    source.chain.by_hash[tail.head] = tail.blocks[-1].block
    with pytest.raises(ChainsDiverged):
        list(walk(source, source.chain.head, tail=tail.head))
    assert source.count == 1 + 3


def test_a_tail_that_the_source_does_not_hold_costs_one_question() -> None:
    source = CountingSource(long_chain())
    with pytest.raises(ChainsDiverged):
        list(walk(source, source.chain.head, tail=physical_hash("nothing")))
    assert source.count == 1


def test_a_walk_stops_at_its_limit() -> None:
    chain = long_chain()
    assert len(list(walk(chain, chain.head, blocks_max=10))) == 10
    with pytest.raises(LimitExceeded, match="more than 9 blocks") as refusal:
        list(walk(chain, chain.head, blocks_max=9))
    assert refusal.value.limit == "chain_blocks_max"


def test_a_missing_block_is_not_found() -> None:
    chain = long_chain()
    del chain.by_hash[chain.blocks[4].hash]
    with pytest.raises(NotFound):
        list(walk(chain, chain.head))


def test_numbers_that_lie_end_the_walk() -> None:
    chain = long_chain()
    hash_of_four = chain.blocks[4].hash
    chain.by_hash[hash_of_four] = replace(chain.blocks[4].block, sequence_number=5)
    with pytest.raises(InvalidBlock, match="cannot be followed by") as refusal:
        list(walk(chain, chain.head))
    assert refusal.value.kind == "SequenceIntegrity"
    seedless = replace(chain.blocks[4].block, prev_block_hash=None)
    chain.by_hash[hash_of_four] = seedless
    with pytest.raises(InvalidBlock, match="has to start with zero, not 4"):
        list(walk(chain, chain.head))


def test_data_slices_come_newest_first() -> None:
    chain = ChainBuilder()
    chain.append(SetDataSchema(schema=example_schema()))
    chain.append(chain.next_add_data(3))
    chain.append(chain.next_add_data(0, new_watermark=START))
    chain.append(chain.next_add_data(2))
    assert list(data_slices_down(chain, chain.head)) == [example_slice(3, 2), example_slice(0, 3)]
    assert list(data_slices_down(chain, chain.head, tail=chain.blocks[2].hash)) == [example_slice(3, 2)]


# --- making blocks ----------------------------------------------------------------------------------------------------


def test_new_blocks_are_linked_numbered_and_hashed() -> None:
    chain = long_chain()
    events: list[MetadataEvent] = [SetDataSchema(schema=example_schema()), AddData(new_data=example_slice(0, 1))]
    blocks = link_blocks(chain.state, events, system_time=LATER)
    assert [encoded.block.event for encoded in blocks] == events
    assert [encoded.block.sequence_number for encoded in blocks] == [10, 11]
    assert {encoded.block.system_time for encoded in blocks} == {LATER}
    links = [chain.head, *(encoded.hash for encoded in blocks)]
    assert [encoded.block.prev_block_hash for encoded in blocks] == links[:-1]
    for encoded in blocks:
        assert encoded.data == encode_block(encoded.block)
        assert encoded.hash == block_hash(encoded.data)


def test_events_that_do_not_fit_make_no_block() -> None:
    with pytest.raises(InvalidBlock, match="SetDataSchema event must be present"):
        link_blocks(long_chain().state, [SetInfo(), AddData(new_data=example_slice(0, 1))], system_time=LATER)


@pytest.mark.parametrize(
    ("head", "now", "expected"),
    [
        ("2024-01-01T00:00:00Z", "2024-01-01T00:00:01.234567890Z", "2024-01-01T00:00:01.234Z"),
        ("2024-01-01T00:00:05Z", "2024-01-01T00:00:01Z", "2024-01-01T00:00:05Z"),
        ("2024-01-01T00:00:00.000000001Z", "2024-01-01T00:00:00.000999999Z", "2024-01-01T00:00:00.001Z"),
        ("2024-01-01T00:00:00.0015Z", "2024-01-01T00:00:00Z", "2024-01-01T00:00:00.002Z"),
    ],
)
def test_a_run_has_whole_milliseconds_not_before_the_head(head: str, now: str, expected: str) -> None:
    state = replace(ChainState.empty(), system_time=Instant.parse(head))
    assert next_system_time(state, now=Instant.parse(now)) == Instant.parse(expected)
    assert next_system_time(ChainState.empty(), now=Instant.parse(now)) == Instant.parse(now).truncated_to_millis()


@given(st.integers(min_value=-(10**18), max_value=10**18), st.integers(min_value=-(10**18), max_value=10**18))
def test_the_time_of_a_run_is_the_least_that_fits(head_ns: int, now_ns: int) -> None:
    found = next_system_time(replace(ChainState.empty(), system_time=Instant(head_ns)), now=Instant(now_ns))
    assert found.epoch_ns % 1_000_000 == 0
    assert found.epoch_ns >= head_ns
    assert found.millis in (Instant(now_ns).millis, -(-head_ns // 1_000_000))


@given(CHANCE, KINDS, LENGTHS)
def test_numbers_and_times_of_random_chains_never_go_back(chance: Random, kind: DatasetKind, blocks: int) -> None:
    chain = random_chain(chance, kind=kind, blocks=blocks)
    for older, newer in pairwise(chain.blocks):
        assert newer.block.prev_block_hash == older.hash
        assert newer.block.sequence_number == older.block.sequence_number + 1
        assert newer.block.system_time >= older.block.system_time
