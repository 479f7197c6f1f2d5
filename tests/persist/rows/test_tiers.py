"""Which batches merge: a short list, few rewrites, and nothing for ever."""

from __future__ import annotations

from math import log2

from hypothesis import given
from hypothesis import strategies as st

from odfabric_persist.state import Batch, Part
from odfabric_persist.tiers import Choice, FanOut, choose


def batch(number: int, rows: int, *, runs: int = 1, level: int = 0) -> Batch:
    """A batch of tick `number`."""
    parts = ((Part(rows, rows, 0, key=f"k{number}"),),) * runs if rows else ()
    return Batch(f"b{number}", number, number + 1, 0, parts, level)


def merged(batches: list[Batch], choice: Choice) -> Batch:
    inputs = batches[choice.start : choice.stop]
    rows = sum(one.rows for one in inputs)
    runs = ((Part(rows, rows, 0, key="k"),),) if rows else ()
    return Batch(inputs[0].id + "+", inputs[0].lower, inputs[-1].upper, 0, runs, choice.level)


def settled(batches: list[Batch]) -> tuple[list[Batch], int]:
    """The list after all merges, and the rows that they wrote."""
    written = 0
    for _ in range(100):
        choices = choose(batches)
        if not choices:
            return batches, written
        bounds = [bound for choice in choices for bound in (choice.start, choice.stop)]
        assert bounds == sorted(bounds), "ranges overlap"
        for choice in reversed(choices):
            output = merged(batches, choice)
            written += output.rows
            batches = [*batches[: choice.start], output, *batches[choice.stop :]]
    raise AssertionError("there is always something to merge")


@given(st.lists(st.sampled_from([0, 1, 1, 1, 3, 20, 500, 100_000]), min_size=1, max_size=300), st.integers(1, 40))
def test_the_list_stays_short_whatever_the_sizes(sizes: list[int], every: int) -> None:
    batches: list[Batch] = []
    for number, rows in enumerate(sizes):
        batches.append(batch(number, rows))
        if number % every == 0:
            batches, _ = settled(batches)
    batches, _ = settled(batches)
    # Each tier has up to three, the lowest fifteen, and beside each may lie one smaller one.
    tiers = 2 + log2(max(1, sum(sizes)) + len(sizes)) / 2
    assert len(batches) <= 2 * (15 + 3 * tiers)
    assert [batches[0].lower, batches[-1].upper] == [0, len(sizes)]


def test_equal_commits_are_written_again_less_than_four_times() -> None:
    batches: list[Batch] = []
    written = longest = 0
    for number in range(10_000):
        batches.append(batch(number, 7))
        batches, rows = settled(batches)
        written += rows
        longest = max(longest, len(batches))
    assert written <= 4 * 7 * 10_000
    assert longest <= 2 * log2(10_000) + 4


def test_a_large_batch_is_left_alone_until_the_rest_is_nearly_as_large() -> None:
    batches = [batch(0, 1_000_000)]
    rewritten = 0
    for number in range(1, 1000):
        batches.append(batch(number, 100))
        batches, rows = settled(batches)
        rewritten += rows >= 1_000_000
    assert rewritten == 0


def test_runs_of_one_batch_become_one_and_neighbours_of_a_full_tier_come_along() -> None:
    assert choose([batch(0, 10, runs=16)]) == [Choice(0, 1, 1)]
    assert choose([batch(0, 10, runs=15)]) == []
    full = [batch(number, 16, level=1) for number in range(3)]
    assert choose([*full, *(batch(3 + number, 1) for number in range(16))]) == [Choice(0, 19, 2)]
    assert choose([batch(0, 1), batch(1, 1), batch(2, 1)], FanOut(fresh=3)) == [Choice(0, 3, 1)]


def test_small_ones_between_large_ones_become_one() -> None:
    small = [batch(1 + number, 1) for number in range(5)]
    found = choose([batch(0, 10_000), *small, batch(6, 10_000)])
    assert found == [Choice(1, 6, 1)]
