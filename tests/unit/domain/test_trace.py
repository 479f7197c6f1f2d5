"""Laws of tracing: places of offsets, groups, and the budget of a trace."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from odfabric.domain.provenance.trace import Frontier, Place, RecordRef, Side, grouped, place_of, side_of
from odfabric.model.identity import DatasetId
from odfabric.model.metadata import AddData, DataSlice, OffsetInterval
from odfabric.model.multihash import SHA3_256, Multihash
from odfabric.model.operation import OperationType

D = DatasetId(bytes(32))
HASH = Multihash(SHA3_256, bytes(32))


def block(begin: int, rows: int) -> AddData:
    """A block of so many rows after `begin` others."""
    prev = begin - 1 if begin else None
    if not rows:
        return AddData(prev_offset=prev)
    interval = OffsetInterval(start=begin, end=begin + rows - 1)
    data = DataSlice(logical_hash=HASH, physical_hash=HASH, offset_interval=interval, size=1)
    return AddData(prev_offset=prev, new_data=data)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=12), st.integers(0, 50))
def test_one_block_at_most_has_a_record_and_the_others_say_on_which_side(sizes: list[int], offset: int) -> None:
    begin, places = 0, []
    for rows in sizes:
        places.append(place_of(offset, block(begin, rows)))
        begin += rows
    assert places.count(Place.HERE) == (1 if offset < begin else 0)
    order = [Place.LATER, Place.HERE, Place.EARLIER]
    # Seen from older blocks the record is later, from newer ones earlier.
    assert [order.index(each) for each in places] == sorted(order.index(each) for each in places)


def test_withdrawals_are_explained_by_the_state_before() -> None:
    assert [side_of(op) for op in OperationType] == [Side.AFTER, Side.BEFORE, Side.BEFORE, Side.AFTER]


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 2), st.sampled_from(OperationType))))
def test_groups_have_each_record_once_and_one_side_of_one_block(found: list[tuple[int, int, OperationType]]) -> None:
    hashes = [Multihash(SHA3_256, bytes([number]) * 32) for number in range(3)]
    asked = [(RecordRef(D, offset), hashes[number], op) for offset, number, op in found]
    groups = grouped(asked)
    assert sum(len(offsets) for offsets in groups.values()) == len(asked)
    for ref, name, op in asked:
        assert ref.offset in next(
            offsets for group, offsets in groups.items() if (group.block, group.side) == (name, side_of(op))
        )


@given(st.lists(st.lists(st.integers(0, 20), max_size=10), max_size=6), st.integers(0, 15))
def test_a_trace_visits_each_record_once_within_its_budget(levels: list[list[int]], most: int) -> None:
    frontier, visited = Frontier(most), list[RecordRef]()
    left_out = 0
    for level in levels:
        left_out += frontier.add(RecordRef(D, offset) for offset in level)
        visited += frontier.take()
    assert len(visited) == len(set(visited)) <= most
    everything = {offset for level in levels for offset in level}
    assert len(visited) == min(most, len(everything))
    assert (left_out > 0) == (len(everything) > most)
    assert frontier.take() == []
