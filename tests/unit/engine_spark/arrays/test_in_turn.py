"""Work in threads: results in order, few at once, the first failure ends it."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from odfabric_engine_spark.arrays.ordered_threads import ahead, in_turn


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


def test_the_next_item_is_made_while_one_is_worked_on() -> None:
    made = [threading.Event() for _ in range(3)]

    def items() -> Iterator[int]:
        for number, each in enumerate(made):
            each.set()
            yield number

    found = ahead(items())
    assert next(found) == 0
    assert made[1].wait(20)
    assert not made[2].is_set()
    assert list(found) == [1, 2]
    assert list(ahead([])) == []


def test_what_making_an_item_raises_passes_through_behind_those_before_it() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise ValueError("no second one")

    found = ahead(items())
    assert next(found) == 1
    with pytest.raises(ValueError, match="no second one"):
        next(found)


def test_closed_it_leaves_no_thread() -> None:
    found = ahead(range(10))
    next(found)
    found.close()
    assert not [thread for thread in threading.enumerate() if "ThreadPoolExecutor" in thread.name]
