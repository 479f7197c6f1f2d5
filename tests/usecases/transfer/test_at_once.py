"""Works at a time: as many as allowed, and nothing goes on behind the caller."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.errors import Determinate
from odfabric.usecases.transfer.at_once import each_at_once, few_threads, in_order

WAIT_S_MAX = 30.0


class Crowd:
    """Counts who is inside; each waits until `together` are, or were."""

    def __init__(self, together: int) -> None:
        self.most = 0
        self.threads: set[str] = set()
        self._inside = 0
        self._together = together
        self._changed = threading.Condition()

    def enter(self) -> None:
        with self._changed:
            self.threads.add(threading.current_thread().name)
            self._inside += 1
            self.most = max(self.most, self._inside)
            self._changed.notify_all()
            assert self._changed.wait_for(lambda: self.most >= self._together, WAIT_S_MAX)
        with self._changed:
            self._inside -= 1


def run_by(asking: int, work: Callable[[], None]) -> None:
    """The work, asked for by so many threads at once."""
    list(each_at_once([work] * (4 * asking), at_once=asking))


def test_many_threads_compute_on_few() -> None:
    crowd = Crowd(together=2)
    with few_threads(2) as run:
        run_by(8, lambda: run(crowd.enter))
    assert crowd.most == 2
    assert len(crowd.threads) == 2
    assert all(name.startswith("compute") for name in crowd.threads)


def test_with_one_thread_works_run_where_they_are_asked_for() -> None:
    with few_threads(1) as run:
        assert run(threading.current_thread) is threading.current_thread()


@given(st.lists(st.integers(), max_size=20), st.integers(1, 4), st.integers(1, 4))
def test_each_gets_what_its_own_work_gives(numbers: list[int], count: int, asking: int) -> None:
    with few_threads(count) as run:
        works = [partial(run, partial(lambda number: (number, -number), number)) for number in numbers]
        found = list(each_at_once(works, at_once=asking))
    assert sorted(found) == sorted((number, -number) for number in numbers)


@pytest.mark.parametrize("count", [1, 3])
def test_an_error_comes_to_the_thread_that_asked_and_the_others_go_on(count: int) -> None:
    def fails() -> None:
        raise Determinate("the disk is full")

    with few_threads(count) as run:
        with pytest.raises(Determinate, match="the disk is full"):
            run(fails)
        assert run(lambda: 1) == 1


def test_no_thread_is_left() -> None:
    names = {thread.name for thread in threading.enumerate()}
    with few_threads(3) as run:
        run(lambda: None)
        assert {thread.name for thread in threading.enumerate()} > names
    assert {thread.name for thread in threading.enumerate()} == names


def test_the_first_failure_ends_what_has_not_begun() -> None:
    begun: list[int] = []

    def work(number: int) -> None:
        begun.append(number)
        raise Determinate(f"work {number} failed")

    with pytest.raises(Determinate):
        list(each_at_once((partial(work, number) for number in range(100)), at_once=3))
    assert len(begun) <= 3


@given(st.lists(st.integers(), max_size=20), st.integers(1, 4))
def test_law_results_in_order_are_those_of_one_thread(numbers: list[int], at_once: int) -> None:
    works = [partial(lambda number: (number, -number), number) for number in numbers]
    assert list(in_order(works, at_once=at_once)) == [work() for work in works]


def test_works_in_order_run_together_and_wait_for_the_slow_one() -> None:
    crowd, numbers = Crowd(together=2), range(7)

    def work(number: int) -> int:
        crowd.enter()
        return number

    assert list(in_order((partial(work, number) for number in numbers), at_once=2)) == list(numbers)
    assert crowd.most == 2


def test_works_in_order_end_with_the_first_failure_and_when_closed() -> None:
    begun: list[int] = []
    names = {thread.name for thread in threading.enumerate()}

    def work(number: int) -> int:
        begun.append(number)
        if number == 4:
            raise Determinate("work 4 failed")
        return number

    found = in_order((partial(work, number) for number in range(100)), at_once=2)
    assert next(found) == 0
    with pytest.raises(Determinate, match="work 4 failed"):
        list(found)
    assert len(begun) <= 9
    assert {thread.name for thread in threading.enumerate()} == names
    other = in_order((partial(work, number) for number in range(50, 100)), at_once=3)
    assert next(other) == 50
    other.close()
    assert {thread.name for thread in threading.enumerate()} == names
