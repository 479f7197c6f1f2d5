"""Contract of Cursors: one holder at a time, and a row that nobody else changes.

A subclass gives `cursors`, new and empty for each test.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from odfabric.errors import AlreadyExists, LeaseLost, NotFound
from odfabric.model.instant import Instant
from odfabric.model.subscriptions.cursor import Cursor, CursorMode, CursorPosition
from odfabric.ports.subscriptions.cursors import Cursors
from odfabric.testing.conformance.examples import NOW, entry_of, hash_of, later
from odfabric.testing.conformance.together import THREADS, outcomes_of_threads

DATASET, OTHER = entry_of("flights").id, entry_of("weather").id
LEASE_MS = 1000


def position_at(number: int, row: int = 0, mode: CursorMode = CursorMode.LISTEN) -> CursorPosition:
    """A position by numbers."""
    return CursorPosition(mode=mode, next_sequence=number, next_row=row, epoch=hash_of(f"block {number - 1}"))


def cursor_of(consumer: str = "warehouse", *, fence: str = "first") -> Cursor:
    """A new cursor, held until a second after `NOW`."""
    return Cursor(
        dataset_id=DATASET,
        consumer=consumer,
        position=position_at(5, mode=CursorMode.BASELINE),
        fence=fence,
        lease_until=later(LEASE_MS),
        created_at=NOW,
        updated_at=NOW,
    )


def claim(cursors: Cursors, expected: str | None, fence: str, now: Instant = NOW) -> Cursor:
    """Claim the usual cursor."""
    return cursors.claim(DATASET, "warehouse", expected=expected, fence=fence, now=now, lease_ms=LEASE_MS)


def move(cursors: Cursors, fence: str, at: CursorPosition, to: CursorPosition, now: Instant = NOW) -> Cursor | None:
    """Move the usual cursor."""
    return cursors.move(DATASET, "warehouse", fence=fence, at=at, to=to, now=now, lease_ms=LEASE_MS)


class CursorsContract:
    """Cursors and fences."""

    @pytest.fixture
    def cursors(self) -> Cursors:
        raise NotImplementedError

    def test_what_was_stored_is_read(self, cursors: Cursors) -> None:
        made = [cursor_of(name) for name in ("b", "a", "C", "a-1")]
        for cursor in made:
            cursors.create(cursor)
        cursors.create(replace(cursor_of("elsewhere"), dataset_id=OTHER))
        assert cursors.get(DATASET, "b") == made[0]
        assert cursors.get(OTHER, "b") is None
        assert [cursor.consumer for cursor in cursors.of_dataset(DATASET, limit=10)] == ["C", "a", "a-1", "b"]
        assert [cursor.consumer for cursor in cursors.of_dataset(DATASET, limit=2)] == ["C", "a"]
        with pytest.raises(AlreadyExists):
            cursors.create(replace(made[0], fence="another"))
        assert cursors.get(DATASET, "b") == made[0]

    def test_deleting_tells_whether_there_was_one(self, cursors: Cursors) -> None:
        cursors.create(cursor_of())
        assert cursors.delete(DATASET, "warehouse")
        assert not cursors.delete(DATASET, "warehouse")
        with pytest.raises(NotFound):
            claim(cursors, "first", "second")
        with pytest.raises(NotFound):
            move(cursors, "first", AT, AT)
        cursors.create(cursor_of(fence="again"))

    def test_the_holder_hands_over_by_naming_the_fence(self, cursors: Cursors) -> None:
        cursors.create(cursor_of())
        claimed = claim(cursors, "first", "second", later(10))
        assert (claimed.fence, claimed.lease_until, claimed.updated_at) == ("second", later(10 + LEASE_MS), later(10))
        assert claimed.position == AT
        assert cursors.get(DATASET, "warehouse") == claimed
        with pytest.raises(LeaseLost) as refused:
            claim(cursors, "first", "third")
        assert refused.value.hint
        assert cursors.get(DATASET, "warehouse") == claimed

    def test_without_the_fence_it_is_had_when_the_lease_is_over(self, cursors: Cursors) -> None:
        cursors.create(cursor_of())
        with pytest.raises(LeaseLost):
            claim(cursors, None, "second", later(LEASE_MS - 1))
        assert claim(cursors, None, "second", later(LEASE_MS)).fence == "second"
        with pytest.raises(LeaseLost):
            move(cursors, "first", AT, position_at(6))

    def test_the_holder_moves_it_even_when_the_lease_is_over(self, cursors: Cursors) -> None:
        cursors.create(cursor_of())
        moved = move(cursors, "first", AT, position_at(6, 3), later(5 * LEASE_MS))
        assert moved is not None
        assert (moved.position, moved.lease_until) == (position_at(6, 3), later(6 * LEASE_MS))
        assert cursors.get(DATASET, "warehouse") == moved
        assert move(cursors, "first", position_at(6, 3), position_at(6, 3), later(9 * LEASE_MS)) == replace(
            moved, lease_until=later(10 * LEASE_MS), updated_at=later(9 * LEASE_MS)
        )

    @pytest.mark.parametrize("field", ["mode", "next_sequence", "next_row", "epoch"])
    def test_a_move_from_elsewhere_changes_nothing(self, cursors: Cursors, field: str) -> None:
        cursors.create(cursor_of())
        elsewhere = {"mode": CursorMode.LISTEN, "next_sequence": 6, "next_row": 1, "epoch": hash_of("other")}
        at = replace(AT, **{field: elsewhere[field]})  # type: ignore[arg-type]
        assert move(cursors, "first", at, position_at(9)) is None
        assert cursors.get(DATASET, "warehouse") == cursor_of()
        with pytest.raises(LeaseLost):
            move(cursors, "stale", at, position_at(9))

    def test_of_many_who_expect_one_fence_exactly_one_wins(self, cursors: Cursors) -> None:
        cursors.create(cursor_of())
        for expected in ("first", None):
            now = later(100 * LEASE_MS) if expected is None else NOW
            outcomes = outcomes_of_threads(lambda number, e=expected, n=now: claim(cursors, e, f"{e}-{number}", n))  # type: ignore[misc]
            won = [outcome for outcome in outcomes if isinstance(outcome, Cursor)]
            assert len(won) == 1
            assert sum(isinstance(outcome, LeaseLost) for outcome in outcomes) == THREADS - 1
            assert cursors.get(DATASET, "warehouse") == won[0]

    def test_of_many_moves_from_one_place_exactly_one_happens(self, cursors: Cursors) -> None:
        cursors.create(cursor_of())
        outcomes = outcomes_of_threads(lambda number: move(cursors, "first", AT, position_at(6, number)))
        assert sum(outcome is not None for outcome in outcomes) == 1


AT = cursor_of().position
