"""A survey of litter counts everything and remembers little."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from odfabric.adapters.memory.node.clock import SettableClock
from odfabric.testing.memory_node import START
from odfabric.usecases.maintenance.collect_objects import CollectedPortion, Litter
from odfabric.usecases.maintenance.survey_litter import LOOK_S_MAX, SHOWN_MAX, survey_litter

sizes = st.lists(st.lists(st.integers(0, 10**9), max_size=60), max_size=6)


def portions(found: list[list[int]]) -> Iterator[CollectedPortion]:
    for number, each in enumerate(found):
        litter = tuple(Litter(f"{number}/{place}", size) for place, size in enumerate(each))
        yield CollectedPortion(dataset=None, looked_at=len(each) + 1, litter=litter)


@given(sizes)
def test_counts_are_of_all_and_the_largest_are_kept(found: list[list[int]]) -> None:
    told = survey_litter(portions(found), clock=SettableClock(START))
    flat = [size for each in found for size in each]
    assert (told.objects, told.bytes, told.looked_at) == (len(flat), sum(flat), len(flat) + len(found))
    assert [each.size for each in told.largest] == sorted(flat, reverse=True)[:SHOWN_MAX]
    assert not told.is_cut


def test_a_long_look_ends_and_says_so() -> None:
    clock = SettableClock(START)

    def slow() -> Iterator[CollectedPortion]:
        for _ in range(10):
            clock.advance(int(LOOK_S_MAX * 1000) // 2 + 1)
            yield CollectedPortion(dataset=None, looked_at=1)

    told = survey_litter(slow(), clock=clock)
    assert (told.is_cut, told.looked_at) == (True, 2)
