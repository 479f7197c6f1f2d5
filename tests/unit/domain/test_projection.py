"""Laws of AS AT and AS OF, over random changelogs.

Corrections, late rows, equal times, years before 1970, missing event times, with and without a primary key.
"""

from __future__ import annotations

from collections.abc import Hashable

from hypothesis import given
from hypothesis import strategies as st

from odfabric.domain.chain.projection import Record, as_at, as_of, rows
from odfabric.model.instant import Instant
from odfabric.testing.changelogs import C_FROM, C_TO, A, R

LAST = Instant.parse("9999-12-31T00:00:00Z")
TIMES = [Instant.parse(f"{year}-01-01T00:00:00Z") for year in ("0031", "1969", "1970", "2020", "2021")]

moments = st.sampled_from([*TIMES, Instant(TIMES[1].epoch_ns - 1), Instant(TIMES[3].epoch_ns + 1), LAST])
wishes = st.tuples(
    st.integers(0, 3), st.sampled_from("abc"), st.one_of(st.none(), st.sampled_from(TIMES)), st.integers(0, 2)
)


@st.composite
def changelogs(draw: st.DrawFn, *, timed: bool = False) -> list[Record]:
    """Well-formed: the one row of a key is corrected, withdrawn, added again."""
    found: list[Record] = []
    present: dict[str, tuple[Instant | None, int]] = {}
    for step, (action, key, time, value) in enumerate(draw(st.lists(wishes, max_size=12))):
        block, moment = step // 2, (time or TIMES[2]) if timed else time

        def add(operation: object, row: tuple[Instant | None, int], key: str = key, block: int = block) -> None:
            found.append(
                Record(
                    block=block,
                    offset=len(found),
                    operation=operation,  # type: ignore[arg-type]
                    event_time=row[0],
                    key=key,
                    row=(key, *row),
                )
            )

        if key not in present:
            present[key] = (moment, value)
            add(A, present[key])
        elif action == 0:
            add(R, present.pop(key))
        else:
            add(C_FROM, present[key])
            present[key] = (moment, value)
            add(C_TO, present[key])
    return found


@given(log=changelogs(), keyed=st.booleans())
def test_as_at_the_head_is_today(log: list[Record], keyed: bool) -> None:
    assert as_at(log, len(log)) == log
    assert rows(as_at(log, len(log)), keyed=keyed) == rows(log, keyed=keyed)


@given(log=changelogs(), block=st.integers(0, 6))
def test_as_at_a_block_is_the_net_of_the_first_blocks(log: list[Record], block: int) -> None:
    net: dict[Hashable, int] = {}
    for record in log:
        if record.block <= block:
            net[record.row] = net.get(record.row, 0) + (1 if record.operation in (A, C_TO) else -1)
    expected = {row: count for row, count in net.items() if count}
    assert rows(as_at(log, block), keyed=False) == expected
    assert rows(as_at(log, block), keyed=True) == expected


@given(log=changelogs(), block=st.integers(0, 6))
def test_the_state_before_is_the_state_after_with_the_records_taken_back(log: list[Record], block: int) -> None:
    net = rows(log, keyed=False)
    for record in log:
        if record.block > block:
            net[record.row] -= 1 if record.operation in (A, C_TO) else -1
    assert +net == rows(as_at(log, block), keyed=False)
    assert not any(count < 0 for count in net.values())


@given(log=changelogs(), moment=moments, keyed=st.booleans())
def test_as_of_never_sees_later_event_times(log: list[Record], moment: Instant, keyed: bool) -> None:
    for record in as_of(log, moment):
        assert record.event_time is not None
        assert record.event_time <= moment
    for _, time, _ in rows(as_of(log, moment), keyed=keyed):  # type: ignore[misc]
        assert time is not None
        assert time <= moment


@given(log=changelogs(timed=True), keyed=st.booleans())
def test_as_of_the_end_of_time_is_today(log: list[Record], keyed: bool) -> None:
    assert rows(as_of(log, LAST), keyed=keyed) == rows(log, keyed=keyed)


@given(log=changelogs(), block=st.integers(0, 6), moment=moments)
def test_both_commute(log: list[Record], block: int, moment: Instant) -> None:
    assert as_of(as_at(log, block), moment) == as_at(as_of(log, moment), block)


@given(log=changelogs(), one=moments, other=moments)
def test_the_earlier_of_two_moments_counts(log: list[Record], one: Instant, other: Instant) -> None:
    assert as_of(as_of(log, one), other) == as_of(log, min(one, other))


@given(log=changelogs(), moment=moments)
def test_a_key_has_one_row(log: list[Record], moment: Instant) -> None:
    found = rows(as_of(log, moment), keyed=True)
    assert len({key for key, *_ in found}) == sum(found.values())  # type: ignore[misc]


@given(log=changelogs(timed=True), moment=moments)
def test_a_row_that_is_there_today_held_at_its_time(log: list[Record], moment: Instant) -> None:
    held = rows(as_of(log, moment), keyed=True)
    for row in rows(log, keyed=True):
        assert row[1] > moment or row in held  # type: ignore[index]


def _log(*records: tuple[object, str, int]) -> list[Record]:
    return [
        Record(block=0, offset=offset, operation=op, event_time=TIMES[time], key="k", row=(row, time))  # type: ignore[arg-type]
        for offset, (op, row, time) in enumerate(records)
    ]


def test_a_row_holds_until_the_event_time_of_its_successor() -> None:
    log = _log((A, "old", 3), (C_FROM, "old", 3), (C_TO, "new", 4))
    for keyed in (True, False):
        assert set(rows(as_of(log, TIMES[3]), keyed=keyed)) == {("old", 3)}
        assert set(rows(as_of(log, TIMES[4]), keyed=keyed)) == {("new", 4)}


def test_a_correction_at_the_same_time_replaces_what_was_wrong() -> None:
    log = _log((A, "wrong", 3), (C_FROM, "wrong", 3), (C_TO, "right", 3))
    for keyed in (True, False):
        assert set(rows(as_of(log, TIMES[3]), keyed=keyed)) == {("right", 3)}


def test_a_retracted_row_held_at_no_time() -> None:
    log = _log((A, "a", 1), (R, "a", 1))
    assert not rows(as_of(log, LAST), keyed=True)
    assert not rows(as_of(log, TIMES[1]), keyed=False)
