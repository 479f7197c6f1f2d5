"""What StateIndex promises, as tests.

A subclass gives `changelog`, on the store of objects that the index reads, and `open_index`.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from odfabric.errors import Corrupt, Determinate, External, NotFound
from odfabric.formats.identifiers.dataset_layout import data_key
from odfabric.model.state_index import IndexFrontier, IndexMode
from odfabric.ports.datasets.state_index import StateIndex
from odfabric.testing.changelogs import C_FROM, C_TO, A, Change, Changelog, R, rows_of
from odfabric.testing.conformance.together import THREADS, outcomes_of_threads


def maintained(index: StateIndex, changelog: Changelog, *, since: int) -> IndexFrontier:
    """The frontier of an index that is there."""
    frontier = index.maintain(changelog.definition(), since=since)
    assert frontier is not None
    return frontier


class StateIndexHandlesContract:
    """What several processes see of one index.

    `open_index` gives another handle of the same place each time.
    """

    @pytest.fixture
    def changelog(self) -> Changelog:
        raise NotImplementedError

    @pytest.fixture
    def open_index(self) -> Callable[[], StateIndex]:
        raise NotImplementedError

    @pytest.fixture
    def index(self, open_index: Callable[[], StateIndex]) -> StateIndex:
        return open_index()

    def test_each_state_is_what_the_blocks_add_up_to(self, index: StateIndex, changelog: Changelog) -> None:
        changelog.add((A, "a", 1.0), (A, "b", None))
        changelog.add((C_FROM, "a", 1.0), (C_TO, "a", 2.0), blocks_before=2)
        last = changelog.add((R, "b", None), (A, None, -0.0), (C_FROM, "a", 2.0), (C_TO, "a", float("nan")))
        frontier = index.extend(changelog.definition(), changelog.slices)
        assert (frontier.since, frontier.upper, frontier.block_hash) == (0, last.sequence_number + 1, last.block_hash)
        assert frontier.next_offset == 8
        for number in range(last.sequence_number + 1):
            assert rows_of(index.rows_at(changelog.definition(), number)) == changelog.net(number), number

    def test_handles_see_the_same(self, open_index: Callable[[], StateIndex], changelog: Changelog) -> None:
        one, other = open_index(), open_index()
        assert other.frontier(changelog.definition()) is None
        first = changelog.add((A, "a", 1.0))
        one.extend(changelog.definition(), changelog.slices)
        assert other.frontier(changelog.definition()) == one.frontier(changelog.definition())
        changelog.add((A, "b", 1.0))
        other.extend(changelog.definition(), changelog.slices)
        assert rows_of(one.rows_at(changelog.definition(), first.sequence_number + 1)) == changelog.net(99)

    def test_many_bring_it_forward_at_once(self, open_index: Callable[[], StateIndex], changelog: Changelog) -> None:
        for number in range(12):
            changelog.add((A, f"k{number}", 1.0))
        handles = [open_index() for _ in range(THREADS)]

        def bring_forward(worker: int) -> int:
            for end in range(1 + worker % 3, len(changelog.slices) + 3, 3):
                handles[worker].extend(changelog.definition(), changelog.slices[:end])
                handles[worker].maintain(changelog.definition(), since=end)
            return handles[worker].extend(changelog.definition(), changelog.slices).upper

        last = changelog.slices[-1].sequence_number
        assert set(outcomes_of_threads(bring_forward)) == {last + 1}
        assert rows_of(handles[0].rows_at(changelog.definition(), last)) == changelog.net(last)

    def test_an_index_is_made_again_after_it_was_dropped(
        self, open_index: Callable[[], StateIndex], changelog: Changelog
    ) -> None:
        index, other = open_index(), open_index()
        one = changelog.add((A, "a", 1.0))
        for _ in range(3):
            index.extend(changelog.definition(), changelog.slices)
            assert other.drop(changelog.dataset) == 1
            assert index.frontier(changelog.definition()) is None
            assert index.drop(changelog.dataset) == 0
        index.extend(changelog.definition(), changelog.slices)
        assert rows_of(other.rows_at(changelog.definition(), one.sequence_number)) == changelog.net(99)

    def test_what_was_dropped_is_made_again_from_the_beginning_only(
        self, open_index: Callable[[], StateIndex], changelog: Changelog
    ) -> None:
        index, other = open_index(), open_index()
        for number in range(6):
            changelog.add((A, f"k{number}", 1.0))
        upper = index.extend(changelog.definition(), changelog.slices[:3]).upper
        assert other.drop(changelog.dataset) == 1
        assert index.maintain(changelog.definition(), since=upper - 1) is None
        with pytest.raises(Determinate):
            index.extend(changelog.definition(), changelog.slices[3:])
        assert other.frontier(changelog.definition()) is None, "nothing was made"
        index.extend(changelog.definition(), changelog.slices[:2])
        with pytest.raises(Determinate):
            other.extend(changelog.definition(), changelog.slices[3:])
        with pytest.raises(Determinate):
            other.extend(changelog.definition(), [changelog.slices[2], *changelog.slices[4:]])
        last = other.extend(changelog.definition(), changelog.slices[1:]).upper - 1
        assert rows_of(index.rows_at(changelog.definition(), last)) == changelog.net(last)

    def test_a_column_that_came_later_is_null_in_what_was_there(
        self, open_index: Callable[[], StateIndex], changelog: Changelog
    ) -> None:
        index, late = open_index(), open_index()
        former = changelog.definition(without="event_time")
        changelog.add((A, "a", 1.0), (A, "b", 2.0))
        for number in range(20):
            changelog.add((A, f"k{number}", 1.0))
        upper = index.extend(former, changelog.slices).upper
        assert late.frontier(former) is not None
        index.maintain(former, since=upper - 1)
        last = changelog.add((A, "c", 1.0))
        assert index.extend(changelog.definition(), changelog.slices).since == upper - 1, "it was not made again"
        rows = [
            row for table in index.rows_at(changelog.definition(), last.sequence_number) for row in table.to_pylist()
        ]
        times = {row["key"]: row["event_time"] for row in rows}
        assert (len(times), times["c"] is None) == (23, False)
        assert {times[key] for key in times if key != "c"} == {None}
        with pytest.raises(External):
            late.extend(former, changelog.slices)
        assert late.frontier(changelog.definition()) == index.frontier(changelog.definition())


class StateIndexContract(StateIndexHandlesContract):
    """An index adds up the slices of a chain."""

    def test_nothing_is_made_by_asking(self, index: StateIndex, changelog: Changelog) -> None:
        assert index.frontier(changelog.definition()) is None
        with pytest.raises(NotFound):
            list(index.rows_at(changelog.definition(), 0))
        assert index.frontier(changelog.definition()) is None
        assert index.drop(changelog.dataset) == 0

    def test_zeros_of_both_signs_are_two_values(self, index: StateIndex, changelog: Changelog) -> None:
        one = changelog.add((A, "a", 0.0), (C_FROM, "a", 0.0), (C_TO, "a", -0.0))
        index.extend(changelog.definition(), changelog.slices)
        assert rows_of(index.rows_at(changelog.definition(), one.sequence_number)) == {("'a'", "-0.0"): 1}

    def test_keys_are_those_that_were_ever_there(self, index: StateIndex, changelog: Changelog) -> None:
        changelog.add((A, "a", 1.0), (A, "b", 1.0), (A, "a", 1.0))
        last = changelog.add((R, "a", 1.0), (A, "c", 1.0), (R, "never", 1.0))
        index.extend(changelog.definition(IndexMode.KEYS), changelog.slices)
        found = rows_of(index.rows_at(changelog.definition(IndexMode.KEYS), last.sequence_number))
        assert found == changelog.net(last.sequence_number, IndexMode.KEYS)
        assert len(found) == 4

    def test_what_is_there_already_is_passed_over(self, index: StateIndex, changelog: Changelog) -> None:
        changelog.add((A, "a", 1.0))
        first = index.extend(changelog.definition(), changelog.slices)
        assert index.extend(changelog.definition(), changelog.slices) == first
        last = changelog.add((A, "b", 1.0))
        assert index.extend(changelog.definition(), changelog.slices).upper == last.sequence_number + 1
        assert rows_of(index.rows_at(changelog.definition(), last.sequence_number)) == changelog.net(99)

    def test_history_is_given_up_to_a_block_and_never_comes_back(self, index: StateIndex, changelog: Changelog) -> None:
        present = 0.0
        changelog.add((A, "a", present))
        for _ in range(40):
            changelog.add((C_FROM, "a", present), (C_TO, "a", present + 1))
            present += 1
        index.extend(changelog.definition(), changelog.slices)
        last = changelog.slices[-1].sequence_number
        before = index.frontier(changelog.definition())
        after = maintained(index, changelog, since=last - 5)
        assert before is not None
        assert after.since == last - 5
        assert (after.upper, after.next_offset) == (before.upper, before.next_offset)
        assert after.block_hash == changelog.slices[-1].block_hash, "it no longer says which chain it is of"
        assert maintained(index, changelog, since=2).since == last - 5
        with pytest.raises(NotFound):
            list(index.rows_at(changelog.definition(), last - 6))
        for number in range(last - 5, last + 1):
            assert rows_of(index.rows_at(changelog.definition(), number)) == changelog.net(number)
        with pytest.raises(NotFound):
            list(index.rows_at(changelog.definition(), last + 1))

    @pytest.mark.parametrize(
        "wrong",
        [
            [(A, "a", 2.0)],
            [(R, "b", 1.0)],
            [(R, "a", 2.0)],
            [(A, "c", 1.0), (A, "c", 1.0)],
            [(A, "a", 2.0), (R, "a", 1.0)],
            [(C_TO, "a", 2.0), (C_FROM, "a", 1.0)],
            [(R, "a", 1.0), (R, "a", 1.0), (A, "a", 1.0)],
        ],
        ids=[
            "twice",
            "never there",
            "another value",
            "twice in a block",
            "before it goes",
            "pair turned round",
            "owed",
        ],
    )
    def test_it_stops_before_a_change_that_cannot_be(
        self, index: StateIndex, changelog: Changelog, wrong: list[Change]
    ) -> None:
        fine = changelog.add((A, "a", 1.0))
        index.extend(changelog.definition(), changelog.slices)
        changelog.add((A, "x", 1.0))
        bad = changelog.add(*wrong)
        changelog.add((A, "y", 1.0))
        stopped = index.extend(changelog.definition(), changelog.slices)
        assert stopped.violation is not None
        assert stopped.violation.block_hash == bad.block_hash
        assert stopped.violation.sequence_number == stopped.upper == bad.sequence_number
        assert (wrong[0][1] or "") in stopped.violation.key
        assert index.extend(changelog.definition(), changelog.slices).violation == stopped.violation
        assert maintained(index, changelog, since=fine.sequence_number).violation == stopped.violation
        assert rows_of(index.rows_at(changelog.definition(), bad.sequence_number - 1)) == changelog.net(
            bad.sequence_number - 1
        )
        with pytest.raises(NotFound):
            list(index.rows_at(changelog.definition(), bad.sequence_number))

    def test_an_index_of_keys_judges_nothing(self, index: StateIndex, changelog: Changelog) -> None:
        changelog.add((R, "a", 1.0), (A, "b", 1.0), (A, "b", 1.0))
        assert index.extend(changelog.definition(IndexMode.KEYS), changelog.slices).violation is None

    def test_other_epochs_of_a_dataset_are_dropped_and_other_datasets_are_not(
        self, index: StateIndex, changelog: Changelog
    ) -> None:
        other = Changelog(changelog.objects, changelog.folder, "other")
        for one in (changelog, other):
            one.add((A, "a", 1.0))
            index.extend(one.definition(), one.slices)
        index.extend(changelog.definition(epoch="second"), changelog.slices)
        assert index.drop(changelog.dataset, but=changelog.definition(epoch="second")) == 1
        assert index.frontier(changelog.definition()) is None
        assert index.frontier(changelog.definition(epoch="second")) is not None
        assert index.frontier(other.definition()) is not None

    def test_a_slice_that_is_gone_is_corrupt(self, index: StateIndex, changelog: Changelog) -> None:
        one = changelog.add((A, "a", 1.0))
        changelog.objects.delete(data_key(changelog.dataset, one.physical_hash))
        with pytest.raises(Corrupt):
            index.extend(changelog.definition(), changelog.slices)
