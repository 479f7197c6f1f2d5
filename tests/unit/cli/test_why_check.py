"""What the check of an answer says."""

from __future__ import annotations

from odfabric.cli.provenance.why_check import CheckedRecord, verdict_lines

AWAY = "it cannot be checked here: dataset not found: x; pull the dataset"


def record(offset: int, message: str | None = None, *, possible: bool = True) -> CheckedRecord:
    return CheckedRecord("x", offset, "local/d", message, possible)


def test_an_answer_that_is_right_is_said_in_one_line() -> None:
    assert list(verdict_lines([record(1), record(2)])) == ["2 records checked: all as the answer says"]


def test_what_cannot_be_checked_is_not_wrong_and_shares_a_line() -> None:
    away = [record(at, AWAY, possible=False) for at in range(12)]
    assert list(verdict_lines(away)) == [
        "0 records checked; 12 could not be checked here",
        f"  local/d 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ..: {AWAY}",
    ]
    assert list(verdict_lines([record(1, "its row is other"), record(2), *away[3:5]])) == [
        "2 records checked: 1 wrong; 2 could not be checked here",
        "  local/d 1: its row is other",
        f"  local/d 3, 4: {AWAY}",
    ]
