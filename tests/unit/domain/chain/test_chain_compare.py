"""How two copies of a chain relate."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.domain.chain.compare import ChainOrder, ChainRelation, compare_chains
from odfabric.errors import LimitExceeded, NotFound
from odfabric.model.metadata import DatasetKind, MetadataBlock, SetInfo
from odfabric.model.multihash import Multihash
from odfabric.testing.chains import ChainBuilder, example_id, physical_hash, random_chain

LENGTHS = st.integers(min_value=0, max_value=12)


def fork(common: int, *, ours: int, theirs: int) -> tuple[ChainBuilder, ChainBuilder]:
    """Two chains of one dataset with `common` blocks in common."""
    chains = ChainBuilder(), ChainBuilder()
    for chain in chains:
        for number in range(common - 1):
            chain.append(SetInfo(description=str(number)))
    for name, chain, count in (("ours", chains[0], ours), ("theirs", chains[1], theirs)):
        for number in range(count):
            chain.append(SetInfo(description=f"{name} {number}"))
    return chains


def relate(ours: ChainBuilder, theirs: ChainBuilder, *, blocks_max: int = 1000) -> ChainRelation:
    return compare_chains(ours=ours, our_head=ours.head, theirs=theirs, their_head=theirs.head, blocks_max=blocks_max)


@given(st.integers(min_value=1, max_value=12), LENGTHS, LENGTHS)
def test_the_blocks_that_only_one_side_has_are_counted(common: int, ours: int, theirs: int) -> None:
    left, right = fork(common, ours=ours, theirs=theirs)
    found = relate(left, right)
    assert found == ChainRelation(uncommon_ours=ours, uncommon_theirs=theirs, common=left.blocks[common - 1].hash)
    expected = {
        (False, False): ChainOrder.EQUAL,
        (False, True): ChainOrder.BEHIND,
        (True, False): ChainOrder.AHEAD,
        (True, True): ChainOrder.DIVERGED,
    }
    assert found.order is expected[ours > 0, theirs > 0]


@pytest.mark.parametrize(
    ("ours", "theirs", "order"),
    [
        (0, 0, ChainOrder.EQUAL),
        (0, 1, ChainOrder.BEHIND),
        (1, 0, ChainOrder.AHEAD),
        (1, 1, ChainOrder.DIVERGED),
        (1, 2, ChainOrder.DIVERGED),
    ],
)
def test_one_block_makes_the_difference(ours: int, theirs: int, order: ChainOrder) -> None:
    assert relate(*fork(2, ours=ours, theirs=theirs)).order is order


def test_chains_of_one_length_with_other_heads_have_diverged() -> None:
    assert relate(*fork(3, ours=2, theirs=2)).order is ChainOrder.DIVERGED


def test_chains_of_two_datasets_have_nothing_in_common() -> None:
    left, right = ChainBuilder(), ChainBuilder(dataset_id=example_id("other"))
    right.append(SetInfo())
    assert relate(left, right) == ChainRelation(uncommon_ours=1, uncommon_theirs=2, common=None)


def test_a_chain_that_does_not_exist_yet_is_behind() -> None:
    chain = random_chain(Random(1), kind=DatasetKind.ROOT, blocks=5)
    found = compare_chains(ours=chain, our_head=None, theirs=chain, their_head=chain.head, blocks_max=10)
    assert found == ChainRelation(uncommon_ours=0, uncommon_theirs=5, common=None)
    assert found.order is ChainOrder.BEHIND
    none = compare_chains(ours=chain, our_head=None, theirs=chain, their_head=None, blocks_max=10)
    assert none.order is ChainOrder.EQUAL


def test_only_blocks_above_the_common_one_are_read() -> None:
    ours, theirs = fork(100, ours=0, theirs=3)
    reads: list[Multihash] = []

    class Recording:
        def get(self, block_hash: Multihash) -> MetadataBlock:
            reads.append(block_hash)
            return theirs.get(block_hash)

    found = compare_chains(ours=ours, our_head=ours.head, theirs=Recording(), their_head=theirs.head, blocks_max=3)
    assert found.uncommon_theirs == 3
    assert len(reads) == 4


def test_equal_heads_need_no_block() -> None:
    head = physical_hash("head")
    nothing = ChainBuilder()
    found = compare_chains(ours=nothing, our_head=head, theirs=nothing, their_head=head, blocks_max=0)
    assert found == ChainRelation(uncommon_ours=0, uncommon_theirs=0, common=head)


def test_a_comparison_stops_at_its_limit() -> None:
    ours, theirs = fork(2, ours=0, theirs=5)
    assert relate(ours, theirs, blocks_max=5).uncommon_theirs == 5
    with pytest.raises(LimitExceeded, match="differ in more than 4 blocks"):
        relate(ours, theirs, blocks_max=4)


def test_a_peer_without_its_head_is_an_error() -> None:
    chain = ChainBuilder()
    with pytest.raises(NotFound):
        compare_chains(
            ours=chain, our_head=chain.head, theirs=chain, their_head=physical_hash("missing"), blocks_max=10
        )
