"""A process's memory is bounded, and concurrent threads do not fail."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import count
from types import FrameType
from typing import Any

import pytest

from odfabric.model.node.remembered import Remembered


def test_the_oldest_are_forgotten() -> None:
    known = Remembered[str, int](2)
    for number, key in enumerate("abca"):
        known.put(key, number)
    assert [known.get(key) for key in "abc"] == [3, None, 2]
    assert known.pop("a") == 3
    assert known.pop("a") is None
    known.put("a", 4)
    known.put("c", 5)
    assert [known.get(key) for key in "ac"] == [4, 5]


def test_nothing_is_remembered_where_there_is_no_room() -> None:
    known = Remembered[str, int](0)
    known.put("a", 1)
    assert known.get("a") is None


@pytest.mark.parametrize("other", [lambda known: known.put(3, 3), lambda known: known.pop(2)])
def test_another_thread_may_come_between_any_two_steps(other: Callable[[Remembered[int, int]], object]) -> None:
    steps = sum(a_put_is_met_by(other, at) for at in range(200))
    assert 10 < steps < 200


def a_put_is_met_by(other: Callable[[Remembered[int, int]], object], at: int) -> bool:
    """Whether a put has that many steps of the interpreter.

    After that one another thread has its turn.
    """
    known = Remembered[int, int](2)
    known.put(1, 1)
    known.put(2, 2)
    steps = count()
    met = False

    def meanwhile(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal met
        frame.f_trace_opcodes = True
        if event == "opcode" and next(steps) == at:
            met = True
            other(known)
        return meanwhile

    before = sys.gettrace()
    sys.settrace(meanwhile)
    try:
        known.put(4, 4)
    finally:
        sys.settrace(before)
    known.put(5, 5)
    assert known.get(5) == 5
    assert sum(known.get(number) is not None for number in range(6)) <= 2
    return met
