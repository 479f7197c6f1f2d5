"""Work in threads: results in order, few at once, the first failure ends it."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from odfabric_engine_spark.in_turn import in_turn


@pytest.mark.parametrize("at_once", [0, 1, 2, 3, 50])
def test_results_come_in_the_order_of_items(at_once: int) -> None:
    assert list(in_turn(lambda item: item * item, range(20), at_once=at_once)) == [item * item for item in range(20)]


def test_threads_work_at_the_same_time() -> None:
    together = threading.Barrier(2, timeout=20)
    assert list(in_turn(lambda item: together.wait() >= 0 and item, [1, 2], at_once=2)) == [1, 2]


def test_one_at_a_time_is_done_by_the_caller() -> None:
    assert set(in_turn(lambda _: threading.get_ident(), range(3), at_once=1)) == {threading.get_ident()}


def test_items_are_asked_for_when_there_is_a_place() -> None:
    asked: list[int] = []

    def items() -> Iterator[int]:
        for item in range(10):
            asked.append(item)
            yield item

    found = in_turn(str, items(), at_once=2)
    assert next(found) == "0"
    assert len(asked) <= 3


@pytest.mark.parametrize("at_once", [1, 2])
def test_the_first_failure_ends_it(at_once: int) -> None:
    def work(item: int) -> int:
        if item in (2, 3):
            raise ValueError(f"item {item}")
        return item

    done: list[int] = []
    with pytest.raises(ValueError, match="item 2"):
        done.extend(in_turn(work, range(10), at_once=at_once))
    assert not [thread for thread in threading.enumerate() if "ThreadPoolExecutor" in thread.name]
