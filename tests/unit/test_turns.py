"""Everything has its day."""

from __future__ import annotations

import pytest

from tests.support import turns


@pytest.mark.parametrize("parts", [1, 2, 3, 7])
def test_each_thing_comes_once_in_as_many_days_as_there_are_parts(parts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "NIGHTLY", False)
    seen: list[int] = []
    for day in range(20_000, 20_000 + parts):
        monkeypatch.setattr(turns, "today", lambda day=day: day)
        seen += turns.todays(range(16), parts=parts)
    assert sorted(seen) == list(range(16))


def test_all_of_them_if_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "NIGHTLY", True)
    assert turns.todays(range(16), parts=2) == range(16)


@pytest.mark.parametrize(("nightly", "expected"), [(True, 100), (False, 34)])
def test_a_third_of_the_examples_by_day(nightly: bool, expected: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "NIGHTLY", nightly)
    assert turns.examples(100) == expected
