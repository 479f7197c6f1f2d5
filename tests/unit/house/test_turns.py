"""Everything has its day."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import conftest
from tests.conftest import LONG_TABLE, TESTS
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


@dataclass(frozen=True)
class Item:
    """What of a test says whose turn it is."""

    path: Path
    nodeid: str


def cases(place: str, count: int) -> set[Item]:
    return {Item(TESTS / place, f"tests/{place}::test_it[{number}]") for number in range(count)}


def test_every_test_of_every_file_has_its_day(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "NIGHTLY", False)
    places = ["services/engine/ingest/test_raw_query.py", *(f"services/engine/test_{name}.py" for name in "abcdefghi")]
    known = {*cases("persist/test_x.py", 3), *cases("unit/formats/test_y.py", 30)}
    known |= cases("services/api/rights/test_matrix.py", 10)
    known |= {item for name in "abcd" for item in cases(f"acceptance/test_{name}.py", 2)}
    known |= {item for place in places for count in (5, LONG_TABLE + 8) for item in cases(place, count)}
    seen: list[set[Item]] = []
    for day in range(20_000, 20_105):
        monkeypatch.setattr(turns, "today", lambda day=day: day)
        items = sorted(known, key=lambda item: item.nodeid)
        seen.append(known - conftest.for_another_day(items))  # type: ignore[arg-type]
    assert set().union(*seen) == known
    assert all(cases("unit/formats/test_y.py", 30) <= each for each in seen)
    assert all(any("test_raw_query" in item.nodeid for item in each) for each in seen)
    assert max(len(each) for each in seen) < len(known)


def test_the_stage_of_lonely_tests_has_one_every_day() -> None:
    path, _, name = conftest.EVERY_DAY_TEST.partition("::")
    (file,) = conftest.TESTS.glob(f"services/engine/*/{path}")
    text = file.read_text()
    assert f"@pytest.mark.alone\ndef {name}(" in text
