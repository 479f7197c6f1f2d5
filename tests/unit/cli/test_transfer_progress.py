"""Lines of a transfer: bytes, objects, rate, remaining time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.cli.transfer_progress import BAR_CHARACTERS, ProgressLines, bar, lasting, sized


def lines(times: list[float], *, bars: bool, columns: int = 100) -> ProgressLines:
    moments: Iterator[float] = iter(times)
    return ProgressLines(columns=(lambda: columns) if bars else None, seconds=lambda: next(moments))


def document(done: int, total: int) -> dict[str, object]:
    return {"stage": "send, 1 of 4 objects", "done": done, "total": total, "unit": "bytes"}


def test_a_terminal_gets_a_bar_and_a_pipe_does_not() -> None:
    for bars in (True, False):
        found = lines([0, 2], bars=bars)
        found.line(document(0, 4_000_000))
        shown = found.line(document(1_000_000, 4_000_000))
        drawn = "[#####---------------]  " if bars else ""
        assert shown == f"send, 1 of 4 objects  {drawn}1.0 MB of 4.0 MB  500 kB/s  0:06 left"


@pytest.mark.parametrize(
    ("columns", "drawn"),
    [(90, "[#####---------------]  "), (80, "[####------------]  "), (69, "[#----]  "), (68, ""), (20, "")],
)
def test_the_bar_gives_way_to_the_remaining_time(columns: int, drawn: str) -> None:
    found = lines([0, 2], bars=True, columns=columns)
    found.line(document(0, 4_000_000_000))
    shown = found.line(document(1_000_000_000, 4_000_000_000))
    assert shown == f"send, 1 of 4 objects  {drawn}1.0 GB of 4.0 GB  500 MB/s  0:06 left"
    assert columns < 68 or len(shown) < columns


def test_the_rate_is_that_of_late() -> None:
    found = lines([0, 100, 101, 102], bars=False)
    for done in (0, 1000, 51_000):
        found.line(document(done, 10**6))
    assert "50.0 kB/s" in found.line(document(101_000, 10**6))


def test_another_transfer_begins_anew_and_other_stages_are_as_they_were() -> None:
    found = lines([0, 1, 2, 3], bars=False)
    found.line(document(500, 1000))
    assert "/s" not in found.line(document(0, 1000))
    assert found.line({"stage": "verify", "done": 1, "total": 4}) == "verify 1/4"
    assert found.line({"stage": "waiting"}) == "waiting"


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (123_456, "123 kB"), (5 * 10**15, "5000 TB")]
)
def test_sizes(count: int, text: str) -> None:
    assert sized(count) == text


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0:00"), (61, "1:01"), (3600, "1:00:00"), (3661.6, "1:01:02")])
def test_times(seconds: float, text: str) -> None:
    assert lasting(seconds) == text


@given(st.integers(0, 10**15), st.integers(0, 10**15))
def test_a_bar_has_one_length(done: int, total: int) -> None:
    assert len(bar(done, total)) == BAR_CHARACTERS + 2
