"""Random valid chains are accepted.

A single change of anything that links one block to those before is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.domain.chain.state import ChainState, apply
from odfabric.domain.chain.validate import validate_append
from odfabric.errors import InvalidBlock
from odfabric.model.instant import Instant
from odfabric.model.metadata import (
    AddData,
    DatasetKind,
    ExecuteTransform,
    ExecuteTransformInput,
    MetadataBlock,
    OffsetInterval,
)
from odfabric.testing.chains import INPUT_IDS, ChainBuilder, example_id, physical_hash, random_chain

CHANCE = st.randoms(use_true_random=False)
KINDS = st.sampled_from(DatasetKind)
STRANGE = physical_hash("a block that nobody wrote")


def steps(chain: ChainBuilder) -> Iterator[tuple[ChainState, MetadataBlock]]:
    """Every block with the state before it."""
    state = ChainState.empty()
    for encoded in chain.blocks:
        yield state, encoded.block
        state = apply(state, encoded.hash, encoded.block)


@given(CHANCE, KINDS, st.integers(min_value=1, max_value=40))
def test_random_chains_are_accepted(chance: Random, kind: DatasetKind, blocks: int) -> None:
    chain = random_chain(chance, kind=kind, blocks=blocks)
    assert len(chain.blocks) == blocks
    for state, block in steps(chain):
        validate_append(state, block, now=block.system_time)


def header_mutants(state: ChainState, block: MetadataBlock) -> Iterator[tuple[str, MetadataBlock]]:
    yield "link to a strange block", replace(block, prev_block_hash=STRANGE)
    yield "number one higher", replace(block, sequence_number=block.sequence_number + 1)
    if block.sequence_number:
        yield "number one lower", replace(block, sequence_number=block.sequence_number - 1)
        yield "no link", replace(block, prev_block_hash=None)
        yield "no link and number zero", replace(block, prev_block_hash=None, sequence_number=0)
    if state.system_time is not None:
        yield "time before the head", replace(block, system_time=Instant(state.system_time.epoch_ns - 1))


DataEvent = AddData | ExecuteTransform


def data_mutants(state: ChainState, event: DataEvent) -> Iterator[tuple[str, DataEvent]]:
    yield "later previous offset", replace(event, prev_offset=state.next_offset)
    if event.prev_offset is not None:
        yield "no previous offset", replace(event, prev_offset=None)
    yield "strange previous checkpoint", replace(event, prev_checkpoint=STRANGE)
    if event.prev_checkpoint is not None:
        yield "no previous checkpoint", replace(event, prev_checkpoint=None)
    if state.watermark is not None:
        yield "no watermark", replace(event, new_watermark=None)
        yield "lower watermark", replace(event, new_watermark=Instant(state.watermark.epoch_ns - 1))
    if event.new_data is not None:
        interval = event.new_data.offset_interval
        for name, start, end in (
            ("gap before the records", interval.start + 1, interval.end + 1),
            ("records that end before they start", interval.start, interval.start - 1),
        ):
            moved = replace(event.new_data, offset_interval=OffsetInterval(start=start, end=end))
            yield name, replace(event, new_data=moved)
    emptied = replace(event, new_data=None, new_checkpoint=None, new_watermark=None)
    yield "empty", replace(emptied, new_source_state=None) if isinstance(emptied, AddData) else emptied


def transform_mutants(event: ExecuteTransform) -> Iterator[tuple[str, ExecuteTransform]]:
    inputs = event.query_inputs
    yield "no inputs", replace(event, query_inputs=())
    yield "an input too many", replace(event, query_inputs=(*inputs, ExecuteTransformInput(dataset_id=example_id())))
    if len(inputs) > 1:
        yield "inputs in another order", replace(event, query_inputs=inputs[::-1])
    for position, progress in enumerate(inputs):
        for name, members in input_mutants(progress):
            changed = replace(progress, **members)  # type: ignore[arg-type]
            yield name, replace(event, query_inputs=(*inputs[:position], changed, *inputs[position + 1 :]))


def input_mutants(progress: ExecuteTransformInput) -> Iterator[tuple[str, dict[str, object]]]:
    yield "another input", {"dataset_id": example_id("strange")}
    yield "strange previous block of an input", {"prev_block_hash": STRANGE}
    later = 0 if progress.prev_offset is None else progress.prev_offset + 1
    yield "later previous offset of an input", {"prev_offset": later}
    if progress.prev_block_hash is not None:
        yield "no previous block of an input", {"prev_block_hash": None}
        yield "input that stays at its block", {"new_block_hash": progress.prev_block_hash}
    if progress.prev_offset is not None:
        yield "no previous offset of an input", {"prev_offset": None}
        yield "input that stays at its offset", {"new_offset": progress.prev_offset}
    if progress.new_offset is not None:
        yield "records of an input without blocks", {"new_block_hash": None}


def mutants(state: ChainState, block: MetadataBlock) -> Iterator[tuple[str, MetadataBlock]]:
    yield from header_mutants(state, block)
    event = block.event
    if isinstance(event, AddData | ExecuteTransform):
        for name, changed in data_mutants(state, event):
            yield name, replace(block, event=changed)
    if isinstance(event, ExecuteTransform):
        for name, transform in transform_mutants(event):
            yield name, replace(block, event=transform)


def refused(state: ChainState, block: MetadataBlock) -> bool:
    try:
        validate_append(state, block)
    except InvalidBlock as refusal:
        return refusal.place.rule is not None
    return False


@given(CHANCE, KINDS, st.integers(min_value=1, max_value=15))
def test_every_single_change_of_what_links_a_block_is_refused(chance: Random, kind: DatasetKind, blocks: int) -> None:
    for state, block in steps(random_chain(chance, kind=kind, blocks=blocks)):
        for name, mutant in mutants(state, block):
            assert refused(state, mutant), f"accepted: {name}: {mutant}"


@given(CHANCE, KINDS, st.integers(min_value=2, max_value=15))
def test_a_chain_with_a_block_left_out_is_refused(chance: Random, kind: DatasetKind, blocks: int) -> None:
    found = list(steps(random_chain(chance, kind=kind, blocks=blocks)))
    for (state, _), (_, skipped_to) in pairwise(found):
        with pytest.raises(InvalidBlock):
            validate_append(state, skipped_to)


@pytest.mark.parametrize("kind", DatasetKind)
def test_random_chains_show_every_event_of_their_kind(kind: DatasetKind) -> None:
    seen: set[str] = set()
    for seed in range(20):
        chain = random_chain(Random(seed), kind=kind, blocks=40)
        seen |= {type(encoded.block.event).__name__ for encoded in chain.blocks}
    words = {"Seed", "SetInfo", "SetLicense", "SetAttachments", "SetVocab", "SetDataSchema"}
    sources = {"AddData", "AddPushSource", "SetPollingSource"}
    assert seen == words | (sources if kind is DatasetKind.ROOT else {"SetTransform", "ExecuteTransform"})


def test_random_derivatives_have_one_to_three_inputs() -> None:
    counts: set[int] = set()
    for seed in range(20):
        state = random_chain(Random(seed), kind=DatasetKind.DERIVATIVE, blocks=10).state
        assert state.transform is not None
        counts.add(len(state.transform.event.inputs))
    assert counts == set(range(1, len(INPUT_IDS) + 1))


def test_the_mutations_reach_every_linked_member() -> None:
    names: set[str] = set()
    for kind in DatasetKind:
        for seed in range(10):
            for state, block in steps(random_chain(Random(seed), kind=kind, blocks=25)):
                names |= {name for name, _ in mutants(state, block)}
    assert len(names) == 26
