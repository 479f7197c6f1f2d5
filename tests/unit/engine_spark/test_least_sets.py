"""What is found does not depend on how many worlds are asked for at once."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, TypeVar

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from odfabric_engine_spark.arrays.array_types import Longs
from odfabric_engine_spark.provenance.evaluation import RECORDS_PER_EVALUATION, Budget, EvaluationsSpent, Search
from odfabric_engine_spark.provenance.sufficient import Holds, checked, least_of

T = TypeVar("T")
SETS = st.lists(st.frozensets(st.integers(0, 11), max_size=4), min_size=1, max_size=4)


def ended(search: Generator[Any, Any, T]) -> T:
    """What a search that needs no world ends with."""
    try:
        next(search)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    raise AssertionError("it asks for a world")


def oracle(enough: Callable[[frozenset[int]], bool], at_once: Callable[[], int], allowed: int = 10_000) -> Holds:
    """Answers about the first few of the sets, as often as it is allowed."""
    left = [allowed]

    def holds(sets: Sequence[Longs]) -> Search[list[bool]]:
        count = min(len(sets), at_once(), left[0])
        if not count:
            raise EvaluationsSpent
        left[0] -= count
        return [enough(frozenset(each.tolist())) for each in sets[:count]]
        yield []

    return holds


def enough_for(sets: Sequence[frozenset[int]], blocking: frozenset[int]) -> Callable[[frozenset[int]], bool]:
    """One of the sets is there.

    A blocking number hides it unless the next number is there too.
    """
    return lambda some: any(each <= some for each in sets) and all(at + 1 in some for at in some & blocking)


@given(SETS, st.frozensets(st.integers(0, 10), max_size=2), st.data())
def test_least_sets(sets: list[frozenset[int]], blocking: frozenset[int], data: st.DataObject) -> None:
    """The same set with one world at a time and with several.

    None of it can be left out.
    """
    enough = enough_for(sets, blocking)
    every = np.arange(13)
    one, known = ended(least_of(every, oracle(enough, lambda: 1)))
    several, _ = ended(least_of(every, oracle(enough, lambda: data.draw(st.integers(1, 9)))))
    assert known
    assert one.tolist() == several.tolist()
    assert enough(frozenset(one.tolist()))
    assert not any(enough(frozenset(np.delete(one, at).tolist())) for at in range(len(one)))


@given(SETS, st.integers(0, 30))
def test_few_worlds_give_a_set_that_is_enough(sets: list[frozenset[int]], allowed: int) -> None:
    """When no more worlds are allowed, what was found so far holds.

    It is not called minimal.
    """
    enough = enough_for(sets, frozenset())
    found, known = ended(least_of(np.arange(13), oracle(enough, lambda: 8, allowed)))
    assert enough(frozenset(found.tolist()))
    assert known or allowed < 100


@given(st.sets(st.integers(0, 20), min_size=1, max_size=12), st.data())
def test_witnesses_are_completed_from_the_pool(pool: set[int], data: st.DataObject) -> None:
    """What has to be there so that something stays absent is added, and nothing else."""
    needed = data.draw(st.sets(st.sampled_from(sorted(pool))))
    begun = data.draw(st.sets(st.sampled_from(sorted(pool))))
    holds = oracle(lambda some: needed <= some, lambda: 8)
    found = ended(checked(np.array(sorted(begun), np.int64), np.array(sorted(pool), np.int64), holds, minimal=False))
    assert found.verified
    assert set(found.numbers.tolist()) == begun | needed


def test_without_evaluations_nothing_is_verified() -> None:
    """A limit ends the check, and the answer says so."""
    holds = oracle(lambda some: True, lambda: 8, 0)
    found = ended(checked(np.array([1], np.int64), np.array([1], np.int64), holds, minimal=True))
    assert not found.verified
    assert "no more evaluations" in (found.note or "")


@given(st.lists(st.integers(0, 20_000), max_size=8), st.integers(0, 6))
def test_a_large_world_counts_several_times(sizes: list[int], allowed: int) -> None:
    """Records of all worlds but the last are bounded by the budget."""
    budget = Budget(allowed)
    made = []
    for size in sizes:
        try:
            budget.spend(size)
        except EvaluationsSpent:
            break
        made.append(size)
    assert sum(made[:-1]) <= allowed * RECORDS_PER_EVALUATION
    assert len(made) <= allowed
